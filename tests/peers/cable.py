"""A cable between robots and their broker that can be cut: what is on its way waits, as on a bad radio link."""

import selectors
import socket
import threading


class Cable:
    """Forwards TCP connections from a port of its own to another one on this machine."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self._listener.getsockname()[1]}"
        self._whole = threading.Event()
        self._whole.set()
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def end(self) -> None:
        self._ended = True
        self.mend()
        self._thread.join(5)

    def _run(self) -> None:
        with selectors.DefaultSelector() as watch, self._listener:
            watch.register(self._listener, selectors.EVENT_READ)
            while not self._ended:
                for key, _ in watch.select(0.1):
                    self._whole.wait()
                    if key.fileobj is self._listener:
                        self._join(watch)
                    else:
                        self._pass_on(watch, key)
            for key in list(watch.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]

    def _join(self, watch: selectors.BaseSelector) -> None:
        here, _ = self._listener.accept()
        try:
            there = socket.create_connection(("127.0.0.1", self._to_port), 2)
        except OSError:
            here.close()
        else:
            watch.register(here, selectors.EVENT_READ, there)
            watch.register(there, selectors.EVENT_READ, here)

    def _pass_on(self, watch: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        here, there = key.fileobj, key.data
        try:
            data = here.recv(65536)
            there.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (here, there):
                watch.unregister(end)
                end.close()

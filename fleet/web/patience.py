"""What daphne does not bound by itself: how large a body may be, how long it may take, and what a failed application costs.

daphne reads a body to its end before it calls an application, so no application can refuse one in time.
"""

import importlib
import sys
from typing import Any

MAX_BYTES = 16 * 2**20  # larger than anything that a page or a robot may send
BODY_S = 20.0  # from the head of a request to the end of its body


def install() -> None:
    """Bound the requests of this process, if it is served by daphne."""
    if "daphne.http_protocol" not in sys.modules:
        return
    module: Any = importlib.import_module("daphne.http_protocol")
    if not hasattr(module.WebRequest, "patience"):
        module.WebRequest = _bounded(module.WebRequest)  # looked up anew for each connection
        _tame(importlib.import_module("daphne.ws_protocol").WebSocketProtocol)


def _tame(socket_class: Any) -> None:
    """Whatever daphne cannot tell a socket of a failed application, its task that looks after all connections goes on."""
    tell = socket_class.handle_exception

    def handle_exception(self: Any, exception: BaseException) -> None:
        try:
            tell(self, exception)
        except Exception:  # whatever daphne stumbles over
            self.transport.abortConnection()

    socket_class.handle_exception = handle_exception


def _bounded(request_class: Any) -> Any:
    from twisted.internet import reactor

    class Bounded(request_class):  # type: ignore[misc]
        patience: Any = None  # timer
        size = 0
        over = False

        def gotLength(self, length: int | None) -> None:
            super().gotLength(length)
            if length is not None and length > MAX_BYTES:
                self._refuse(b"413 Content Too Large")
            elif length != 0:
                self.patience = reactor.callLater(BODY_S, self._refuse, b"408 Request Timeout")

        def handleContentChunk(self, data: bytes) -> None:
            self.size += len(data)
            if not self.over and self.size > MAX_BYTES:
                self._refuse(b"413 Content Too Large")
            if not self.over:
                super().handleContentChunk(data)

        def requestReceived(self, *args: Any) -> None:
            self._calm()
            if not self.over:
                super().requestReceived(*args)

        def connectionLost(self, reason: Any) -> None:
            self._calm()
            super().connectionLost(reason)

        def handle_exception(self, exception: BaseException) -> None:
            """The application has failed. When its answer has begun, the end is missing, and the client must see that.

            daphne would begin a second answer, and its refusal ends the task that looks after all connections.
            """
            if self._response_started and self.channel is not None:
                self.channel.transport.abortConnection()
            elif not self.finished:
                super().handle_exception(exception)

        def _calm(self) -> None:
            if self.patience is not None and self.patience.active():
                self.patience.cancel()

        def _refuse(self, status: bytes) -> None:
            self._calm()
            self.over = True
            self.channel.transport.write(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status)
            self.channel.loseConnection()

    return Bounded

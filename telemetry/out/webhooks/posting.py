"""One POST, to an address that was looked at, within a time that ends whatever the receiver does.

The standard library, because what matters here is to say which address is connected to and when to give up, and that
is where libraries for HTTP help least: they resolve by themselves, follow, retry and read proxies from the environment.
"""

import http.client
import socket
import ssl
import threading
from contextlib import suppress
from typing import NamedTuple

from telemetry.out.webhooks.addresses import Target, Unreachable, target

WITHIN_S = 10.0
SNIPPET = 500  # characters of an answer that are kept
DIGITS = 9  # of the seconds that a receiver asks for: decades


class Answer(NamedTuple):
    """`status` 0: none came, and `text` says why. `later_s`: the receiver asks for so much time."""

    status: int
    text: str
    later_s: int = 0


class Connection:
    """A connection to one receiver, kept while there is something to send. Not for two threads."""

    def __init__(self, url: str, within_s: float = WITHIN_S) -> None:
        self.url, self.within_s = url, within_s
        self._open: _Pinned | None = None

    def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        """What came of it. Never raises for what a receiver or the network does."""
        kept = self._open is not None
        try:
            try:
                return self._post(body, headers)
            except (http.client.RemoteDisconnected, ConnectionError):
                self.close()
                if not kept:
                    raise
                return self._post(body, headers)  # the receiver had closed it while nothing was said
        except Unreachable as error:
            said = str(error)
        except TimeoutError:
            said = f"no answer within {self.within_s:g} s"
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: not to be put into HTTP
            said = _said(error)
        self.close()
        return Answer(0, said)

    def _post(self, body: bytes, headers: dict[str, str]) -> Answer:
        ended = threading.Event()
        line = self._open = self._open or _Pinned(target(self.url), self.within_s)
        watch = threading.Timer(self.within_s, _cut, (line, ended))  # a time-out of the socket counts each byte anew
        watch.daemon = True
        watch.start()
        try:
            line.request("POST", line.target.path, body, headers)
            answer = line.getresponse()
            text = answer.read(SNIPPET * 4)
            later = answer.headers.get("Retry-After", "")[:DIGITS]
            rest = answer.read(1) or answer.will_close
        except (OSError, http.client.HTTPException) as error:
            if ended.is_set():
                raise TimeoutError from error
            raise
        finally:
            watch.cancel()
        if rest:
            self.close()
        return Answer(answer.status, _plain(text), int(later) if later.isascii() and later.isdigit() else 0)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class _Pinned(http.client.HTTPConnection):
    """Connects to the address of its target, and talks to its host."""

    def __init__(self, target: Target, within_s: float) -> None:
        self.default_port = 443 if target.tls else 80
        super().__init__(target.host, target.port, timeout=within_s)
        self.target = target

    def connect(self) -> None:
        sock = socket.create_connection((self.target.address, self.target.port), self.timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock  # at once, so that it can be cut in the middle of a handshake
        if self.target.tls:
            trust = ssl.create_default_context()
            self.sock = trust.wrap_socket(sock, server_hostname=self.target.host, do_handshake_on_connect=False)
            self.sock.do_handshake()


def _cut(line: _Pinned, ended: threading.Event) -> None:
    ended.set()
    if line.sock is not None:
        with suppress(OSError):
            socket.socket.shutdown(line.sock, socket.SHUT_RDWR)


def _plain(raw: bytes) -> str:
    """Text, whatever it was."""
    text = raw.decode("utf-8", "replace").replace("\x00", "")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:SNIPPET]


def _said(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"[:SNIPPET]
    return _plain(f"{type(error).__name__}: {error}".encode("utf-8", "replace"))

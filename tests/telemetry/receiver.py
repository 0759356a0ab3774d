"""A small server that plays the receiver of a webhook: answers as it is told, and keeps what came."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """`answers`: what to answer, by kind of event or for all (""): a status, or a callable on the handler."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.raw: list[tuple[dict[str, str], bytes]] = []
        self.answers: dict[str, Any] = {}
        self.came = threading.Event()
        self.url = ""

    def ids(self) -> list[int]:
        return [int(body["id"]) for body in self.got]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """On 127.0.0.1. What it refused is not in `got`."""
    one = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told = json.loads(body)
            one.raw.append((dict(self.headers), body))
            answer = one.answers.get(told["kind"], one.answers.get("", 204))
            if callable(answer):
                answer(self)
                one.came.set()
                return
            if answer < 300:
                one.got.append(told)
            self.send_response(answer)
            self.send_header("Content-Length", "0")
            self.end_headers()
            one.came.set()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    one.url = f"http://127.0.0.1:{server.server_port}/drover"
    try:
        yield one
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

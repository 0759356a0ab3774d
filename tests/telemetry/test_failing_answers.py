"""What a client sees of an application that fails behind the real server, and that the server lives on."""

import http.client
import os
import socket
import subprocess
import sys

import pytest
from django.conf import settings

pytestmark = pytest.mark.processes
PROGRAM = """
import daphne.server
from fleet.web import patience
from daphne import http_protocol
patience.install()

async def app(scope, receive, send):
    if scope["path"] == "/half":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half of it", "more_body": True})
    raise RuntimeError(scope["path"])

daphne.server.Server(app, endpoints=["fd:fileno=%d"], signal_handlers=False).run()
"""


@pytest.fixture
def port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        os.set_inheritable(listener.fileno(), True)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM % listener.fileno()], cwd=settings.BASE_DIR, pass_fds=[listener.fileno()],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        yield listener.getsockname()[1]
        process.kill()
        process.wait()


def asked(port: int, path: str) -> int:
    """The status of a whole answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        if connection.sock:
            connection.sock.close()
        connection.close()


def test_half_an_answer_ends_in_a_broken_link_and_those_after_it_are_answered(port):
    for _ in range(2):
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            asked(port, "/half")
    assert asked(port, "/whole") == 500

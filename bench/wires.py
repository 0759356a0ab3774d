"""Robots' links with next to nothing in between: what a load generator needs of MQTT, WebSocket and HTTP, as bytes.

A library would cost more than the server that is to be measured. Everything is sent as it comes; nothing is sent again.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable
from typing import Any

_SESSION = re.compile(rb'"session": ?(\d+)')
PUBLISH, SUBACK, CONNACK = 0x30, 0x90, 0x20


class Wire(asyncio.Protocol):
    """One connection. `welcomed` is set once its robot may speak; then `session` is known."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.session = 0
        self.welcomed = asyncio.Event()
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def find_session(self, data: bytes) -> None:
        if found := _SESSION.search(data):
            self.session = int(found[1])
            self.welcomed.set()


class Mqtt(Wire):
    """MQTT 3.1.1, quality of service 0. `heard(topic, payload)` gets what comes once it is welcomed."""

    def __init__(self, name: str, topics: list[str], heard: Callable[[str, bytes], None]) -> None:
        super().__init__()
        self._name, self._topics, self._heard = name, topics, heard
        self.subscribed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(_packet(0x10, _text("MQTT") + b"\x04\x02\x00\x00" + _text(self._name)))

    def data_received(self, data: bytes) -> None:
        data, at = self._read + data, 0
        while (found := _next_packet(data, at)) is not None:
            head, begin, at = found
            self._take(head, data[begin:at])
        self._read = data[at:]

    def _take(self, head: int, body: bytes) -> None:
        kind = head & 0xF0
        if kind == CONNACK and not self._topics:
            self.subscribed.set()
        elif kind == CONNACK:
            self.write(_packet(0x82, b"\0\1" + b"".join(_text(topic) + b"\0" for topic in self._topics)))
        elif kind == SUBACK:
            self.subscribed.set()
        elif kind == PUBLISH:
            end = 2 + (body[0] << 8 | body[1])
            self._heard(body[2:end].decode(), body[end:])


def publication(topic: str) -> Callable[[bytes], bytes]:
    """Packets that carry a payload to this topic."""
    name = _text(topic)
    return lambda payload: _packet(PUBLISH, name + payload)


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(head: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while True:
        left, low = left >> 7, left & 0x7F
        length.append(low | (0x80 if left else 0))
        if not left:
            return bytes((head,)) + length + body


def _next_packet(data: bytes, at: int) -> tuple[int, int, int] | None:
    """(head, where the body begins, where it ends); None while it is not whole."""
    length = shift = 0
    for n in range(at + 1, min(at + 5, len(data))):
        length |= (data[n] & 0x7F) << shift
        shift += 7
        if data[n] < 0x80:
            end = n + 1 + length
            return (data[at], n + 1, end) if end <= len(data) else None
    return None


class Socket(Wire):
    """A WebSocket that says hello and then only sends."""

    def __init__(self, token: str, hello: bytes) -> None:
        super().__init__()
        self._token, self._hello, self._is_open = token, hello, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(
            b"GET /robot/v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            b"Authorization: Bearer " + self._token.encode() + b"\r\n\r\n"
        )

    def data_received(self, data: bytes) -> None:
        if self.session:
            return
        self._read += data
        if not self._is_open and b"\r\n\r\n" in self._read:
            self._is_open, self._read = True, self._read.partition(b"\r\n\r\n")[2]
            self.write(frame(self._hello))
        self.find_session(self._read)


def frame(payload: bytes) -> bytes:
    """A text frame of a client; its mask is all zero, which leaves the text as it is."""
    size = len(payload)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x81" + length + b"\0\0\0\0" + payload


class Posts(Wire):
    """A connection for requests, one after the other. `answered` gets each one's verdicts, or its welcome."""

    def __init__(self, answered: Callable[[list[dict[str, Any]]], None]) -> None:
        super().__init__()
        self._answered = answered
        self._waiting: deque[bytes] = deque()
        self._busy = False

    def post(self, request: bytes) -> None:
        self._waiting.append(request)
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting and not self._busy:
            self._busy = True
            self.write(self._waiting.popleft())

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        if not end:
            return
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        if len(body) >= length:
            self._read, self._busy = body[length:], False
            self._answered(json.loads(body[:length])["verdicts"])
            self._go_on()


def request(token: str, body: bytes) -> bytes:
    return (
        f"POST /robot/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


class Dirty(asyncio.Protocol):
    """What the live Redis announces. `told(robots, missions)` gets the ids of a chunk, in the order of their coming."""

    _ROBOTS = re.compile(rb'\["robot","([^"]+)","live"')
    _MISSIONS = re.compile(rb'\["mission","([^"]+)","row"')

    def __init__(self, told: Callable[[list[bytes], list[bytes]], None]) -> None:
        self._told, self._read = told, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(b"SUBSCRIBE dirty\r\n")  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        whole, end, rest = (self._read + data).rpartition(b"]]\r\n")
        self._read = rest if end else self._read + data
        if end:
            self._told(self._ROBOTS.findall(whole), self._MISSIONS.findall(whole))


async def listen(live: str, told: Callable[[list[bytes], list[bytes]], None]) -> asyncio.BaseTransport:
    """`live`: URL of a Valkey on a socket file, as benches have it."""
    path = live.removeprefix("unix://").partition("?")[0]
    transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: Dirty(told), path)
    return transport

"""Request bodies of robots: read within a time and a size, unpacked, and taken apart into single messages.

Whatever is wrong raises `Problem`, which says what and what to do; its fields go out as problem+json (RFC 9457).
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import msgspec

MAX_EVENTS = 500  # of one request
MAX_BODY = 8 * 1024 * 1024  # bytes, also when unpacked
IN_FLIGHT = 64 * 1024 * 1024  # bytes of all bodies that this process holds at a time
LEAST = 4096  # bytes that any request counts for
BODY_S = 10.0  # from the head of a request to the end of its body

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_one = msgspec.json.Decoder(msgspec.Raw).decode
_many = msgspec.json.Decoder(list[msgspec.Raw]).decode
_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Problem(Exception):
    """A request that is answered with an error. `field`: what of it is meant. `more`: further members of the answer."""

    def __init__(
        self, status: int, title: str, detail: str, *, field: str = "", retry_after_s: int = 0,
        headers: tuple[tuple[bytes, bytes], ...] = (), more: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(f"{title}: {detail}")
        self.status, self.title, self.detail, self.field = status, title, detail, field
        self.retry_after_s, self.headers, self.more = retry_after_s, headers, dict(more or {})


class HungUp(Exception):
    """The robot went away in the middle of its request: nobody waits for an answer."""


class Flight:
    """Bytes of bodies that are being worked on. Bounded: a robot that finds no room comes again in a second."""

    def __init__(self) -> None:
        self.bytes = 0

    @contextmanager
    def room_for(self, size: int) -> Any:
        if self.bytes + size > IN_FLIGHT:
            raise Problem(503, "Busy", "Too many requests are under way. Send it again.", retry_after_s=1)
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size


def size_of(headers: Mapping[bytes, bytes]) -> int:
    """How much room the body may need, by its headers."""
    length = headers.get(b"content-length")
    if length is None or headers.get(b"content-encoding"):
        return MAX_BODY
    if not length.isdigit():
        raise Problem(400, "Bad request", "Content-Length is not a number.", field="Content-Length")
    if len(length) > 12 or int(length) > MAX_BODY:
        raise _too_long()
    return max(LEAST, int(length))


async def read(receive: Receive, headers: Mapping[bytes, bytes]) -> bytes:
    """The whole body, unpacked."""
    coding = headers.get(b"content-encoding", b"identity").strip().lower()
    if coding not in (b"identity", b"gzip"):
        raise Problem(
            415, "Unsupported coding", "Send the body as it is, or packed with gzip.", field="Content-Encoding"
        )
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise HungUp
                parts.append(event.get("body", b""))
                size += len(parts[-1])
                if size > MAX_BODY:
                    raise _too_long()
                if not event.get("more_body"):
                    break
    except TimeoutError:
        raise Problem(408, "Too slow", f"The body has to be here within {BODY_S:.0f} s. Send it again.") from None
    body = b"".join(parts)
    return _unpacked(body) if coding == b"gzip" else body


def _unpacked(body: bytes) -> bytes:
    unpack = zlib.decompressobj(wbits=31)
    try:
        whole = unpack.decompress(body, MAX_BODY + 1)
    except zlib.error:
        raise Problem(400, "Bad body", "The body is not what gzip makes.", field="Content-Encoding") from None
    if len(whole) > MAX_BODY:
        raise _too_long()
    if not unpack.eof:
        raise Problem(400, "Bad body", "The body ends before its gzip data does.", field="Content-Encoding")
    return whole


def _too_long() -> Problem:
    return Problem(
        413, "Too long", f"A body is at most {MAX_BODY} bytes, also when unpacked. Send fewer events at once."
    )


def messages(content_type: bytes, body: bytes) -> list[bytes]:
    """The single messages of a body: one JSON object, an array of them, or one on each line."""
    kind = content_type.split(b";")[0].strip().lower().decode("latin-1")
    if kind in _LINES:
        found = [line for line in body.split(b"\n") if line.strip()]
    elif kind == "application/json":
        try:
            body.decode()
            many = body.lstrip()[:1] == b"["
            found = [bytes(raw) for raw in _many(body)] if many else [bytes(_one(body))]
        except _ERRORS as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            detail = f"It is not valid JSON: {why[:200]}. On separate lines (application/x-ndjson) one bad event costs only itself."
            raise Problem(400, "Bad JSON", detail, field="body") from None
    else:
        detail = f"Send Content-Type: application/json (one event or an array) or {_LINES[0]} (one event on each line)."
        raise Problem(415, "Unsupported content", detail, field="Content-Type")
    if len(found) > MAX_EVENTS:
        detail = f"A request has at most {MAX_EVENTS} events; this one has {len(found)}. Nothing of it was taken."
        raise Problem(413, "Too many events", detail, field="body")
    return found

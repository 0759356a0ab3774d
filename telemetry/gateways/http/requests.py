"""The robots' HTTP interface, `/robot/v1/…`: one request from its token to its answer (docs/protocol.md).

Plain ASGI, as the WebSocket is: no hop through the thread that pages share. Errors are problem+json (RFC 9457).
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import msgspec
from django.utils import timezone

from telemetry import problem_json
from telemetry.gateways.http import bodies
from telemetry.gateways.http.bodies import HungUp, Problem, Receive
from telemetry.gateways.http.callers import Caller, Callers, ended
from telemetry.gateways.http.polling import ENDED, Poll
from telemetry.gateways.http.posted import Posted
from telemetry.gateways.scopes import address_of, bearer_token
from telemetry.protocol import REPLACED

log = logging.getLogger(__name__)
PREFIX = "/robot/v1/"
HTTP = "HTTP"
LONGEST_WAIT_S = 25.0
LOOK_LIMIT_S = 2.0  # for the one look at the database that a poll needs, however short it wants to wait

Event = MutableMapping[str, Any]
Send = Callable[[Event], Awaitable[None]]
_encode = msgspec.json.Encoder().encode


class Request:
    """What a handler needs to know of it."""

    def __init__(self, scope: Event, receive: Receive, callers: Callers, caller: Caller) -> None:
        self.receive, self.callers, self.caller = receive, callers, caller
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._query = scope["query_string"]

    async def body(self) -> bytes:
        return await bodies.read(self.receive, self.headers)

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """From the query string."""
        [text] = parse_qs(self._query.decode("latin-1")).get(name, [None])[-1:]
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise Problem(400, "Bad request", f"{name} is a number from {least:g} to {most:g}.", field=name)
        return value


async def robot_http(scope: Event, receive: Receive, send: Send) -> None:
    """ASGI application."""
    try:
        content = await _answer(scope, receive)
        await _put(send, 200, b"application/json", content)
    except Problem as problem:
        await _refuse(send, problem)
    except HungUp:
        return
    except Exception:  # nobody above would answer
        log.exception("a robot's request failed")
        await _refuse(send, Problem(500, "Failed", "The site has an error. Send it again.", retry_after_s=5))


async def _answer(scope: Event, receive: Receive) -> bytes:
    methods = ROUTES.get(scope["path"])
    if methods is None:
        raise Problem(404, "Not here", f"There are {', '.join(sorted(ROUTES))}.")
    handler = methods.get(scope["method"])
    if handler is None:
        allowed = ", ".join(methods)
        detail = f"This address takes {allowed}."
        raise Problem(405, "Method not allowed", detail, headers=((b"allow", allowed.encode()),))
    callers = Callers.here()
    token = bearer_token(scope)
    try:
        caller = await callers.caller(token)
    except Problem as problem:
        if problem.status == 401:
            await _knocked(callers, token, scope, receive)
        raise
    caller.requests += 1
    try:
        request = Request(scope, receive, callers, caller)
        with callers.flight.room_for(bodies.size_of(request.headers) if scope["method"] == "POST" else bodies.LEAST):
            return await handler(request)
    finally:
        caller.requests -= 1
        caller.used_at = callers.links.clock()


async def _knocked(callers: Callers, token: str, scope: Event, receive: Receive) -> None:
    async def first_message() -> bytes:
        event = await receive()
        return bytes(event.get("body") or b"")

    knocks = callers.links.knocks
    name = await knocks.name_of(first_message) if scope["method"] == "POST" else ""
    knocks.note(token, name, HTTP, address_of(scope))


async def events(request: Request) -> bytes:
    """POST: one message, an array, or one on each line."""
    body = await request.body()
    received_at = timezone.now()
    raws = bodies.messages(request.headers.get(b"content-type", b""), body)
    request.caller.signs.give(received_at, request.callers.links.clock())
    posted = Posted(request.callers, request.caller, received_at)
    async with request.caller.turn:
        await posted.take(raws)
    for raw, verdict in zip(raws, posted.verdicts, strict=True):
        request.callers.links.heard.note(request.caller.holder.robot, raw, received_at, verdict, HTTP)
    return _verdicts(posted, posted.verdicts)


class Acks(msgspec.Struct, forbid_unknown_fields=True):
    """Body of an acknowledgement."""

    msg_ids: list[UUID]


async def acknowledge(request: Request) -> bytes:
    """POST: the robot has these commands."""
    body = await request.body()
    received_at = timezone.now()
    [raw] = bodies.messages(request.headers.get(b"content-type", b""), body)[:1] or [b""]
    try:
        ids = msgspec.json.decode(raw, type=Acks).msg_ids
    except (msgspec.MsgspecError, UnicodeError) as error:
        detail = f'Send {{"msg_ids": ["<uuid>", …]}}: {error}.'
        raise Problem(400, "Bad acknowledgement", detail, field="msg_ids") from None
    if len(ids) > bodies.MAX_EVENTS:
        detail = f"At most {bodies.MAX_EVENTS} at once."
        raise Problem(413, "Too many", detail, field="msg_ids")
    request.caller.signs.give(received_at, request.callers.links.clock())
    posted = Posted(request.callers, request.caller, received_at)
    async with request.caller.turn:
        verdicts = await posted.acknowledge(ids)
    request.callers.links.heard.note(request.caller.holder.robot, raw, received_at, (verdicts or [""])[-1], HTTP)
    return _verdicts(posted, verdicts)


def _verdicts(posted: Posted, verdicts: list[str]) -> bytes:
    if posted.problem is not None:
        posted.problem.more["verdicts"] = [json.loads(verdict) for verdict in verdicts]
        raise posted.problem
    return _encode({"verdicts": [msgspec.Raw(verdict.encode()) for verdict in verdicts]})


async def commands(request: Request) -> bytes:
    """GET: the commands that are open, as soon as there are any; at the latest after `wait` seconds."""
    wait_s = request.number("wait", 0, 0, LONGEST_WAIT_S)
    session = int(request.number("session", 0, 0, 2**53))
    request.caller.signs.give(timezone.now(), request.callers.links.clock())
    link = await request.callers.link(request.caller, session)
    if session and session != link.session:
        raise ended(ENDED[REPLACED])
    link.credential = request.caller.holder.credential
    poll = link.begin(wait_s)
    try:
        request.callers.links.hint([link.robot])
        answer = await _wait(poll, max(wait_s, LOOK_LIMIT_S), request.receive)
    finally:
        link.done(poll)
    if isinstance(answer, int):
        raise ended(ENDED[answer])
    found, reason = answer
    return _encode(
        {"session": link.session, "commands": [msgspec.Raw(body.encode()) for body in found], "reason": reason}
        | {"applied": link.told()}
    )


async def _wait(poll: Poll, limit_s: float, receive: Receive) -> tuple[list[str], str] | int:
    """The answer of the poll; nothing after the limit, or `HungUp` when the robot has gone."""
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait([poll.answer, gone], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if not poll.answer.done():
            if gone.done():
                raise HungUp
            poll.give(([], ""))
        return poll.answer.result()
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


ROUTES: dict[str, dict[str, Callable[[Request], Awaitable[bytes]]]] = {
    "/robot/v1/events": {"POST": events},
    "/robot/v1/commands": {"GET": commands},
    "/robot/v1/commands/ack": {"POST": acknowledge},
}


async def _refuse(send: Send, problem: Problem) -> None:
    field = {"field": problem.field} if problem.field else {}
    told = problem_json.body(problem.status, problem.title, problem.detail, **field, **problem.more)
    wait = [(b"retry-after", b"%d" % problem.retry_after_s)] if problem.retry_after_s else []
    await _put(send, problem.status, problem_json.CONTENT_TYPE.encode(), told, [*problem.headers, *wait])


async def _put(
    send: Send, status: int, kind: bytes, content: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A robot may have hung up before its answer is there; each server has its own exception for that."""
    about = [(b"content-type", kind), (b"content-length", b"%d" % len(content)), (b"cache-control", b"no-store")]
    try:
        await send({"type": "http.response.start", "status": status, "headers": about + (headers or [])})
        await send({"type": "http.response.body", "body": content})
    except Exception as error:  # see above
        log.debug("a robot has hung up: %r", error)

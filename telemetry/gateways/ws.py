"""The robots' WebSocket, `/robot/v1/ws`: one connection from its token to its close (docs/protocol.md).

Plain ASGI: no channel layer and no ORM on the way of a message, and no hop through the thread that pages share.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import Error as DatabaseError
from django.utils import timezone

from telemetry import frames, metrics, protocol
from telemetry.drivers import native
from telemetry.gateways import direct
from telemetry.gateways.complaints import Complaints
from telemetry.gateways.inbox import Inbox, Message
from telemetry.gateways.limits import too_much
from telemetry.gateways.link import Link
from telemetry.gateways.links import GATEWAY, Links
from telemetry.gateways.rows import Holder, holder_of, open_session
from telemetry.gateways.scopes import address_of, bearer_token
from telemetry.gateways.vitals import SignsOfLife
from telemetry.protocol import Ack, Bad, Hello, Up
from telemetry.snapshots import Put

log = logging.getLogger(__name__)
HELLO_S = 10.0  # from connecting to hello
WEBSOCKET = "WebSocket"
TOLD_S = 1.0  # a robot that sends too much telemetry is told this often; all that is dropped is counted

Event = MutableMapping[str, Any]


async def robot_socket(
    scope: Event, receive: Callable[[], Awaitable[Event]], send: Callable[[Event], Awaitable[None]]
) -> None:
    """ASGI application."""
    links = Links.enter()
    connection = Connection(links, receive, send)
    try:
        await connection.serve(bearer_token(scope), address_of(scope))
    except asyncio.CancelledError:  # the server stops
        await connection.close(protocol.COME_BACK)
        raise
    finally:
        connection.end()
        await links.leave()


class Connection:
    """One socket of one robot."""

    def __init__(self, links: Links, receive: Callable[[], Awaitable[Event]], send: Callable[[Event], Awaitable[None]]):
        self._links, self._receive, self._send = links, receive, send
        self._link: Link | None = None
        self._closed = False
        self._direct: asyncio.Task[None] | None = None

    async def serve(self, token: str, address: str = "") -> None:
        """Accept, authenticate, then take one frame after the other until the socket closes."""
        await self._receive()  # websocket.connect
        await self._send({"type": "websocket.accept"})  # first, or the close code is not delivered
        try:
            holder = await self._links.rows.ask(holder_of, token) if token else None
        except DatabaseError as error:
            self._links.not_now(error)
            return await self.close(protocol.COME_BACK)
        if holder is None:
            self._links.counts["unauthorised"] += 1
            metrics.UNAUTHORISED.inc()
            name = await self._links.knocks.name_of(self._first_message)
            self._links.knocks.note(token, name, WEBSOCKET, address)
            return await self.close(protocol.UNAUTHORISED)
        self._holder: Holder = holder
        self._complaints = Complaints(holder.robot, self._links.clock)
        self._signs = SignsOfLife(self._links.vitals, holder.robot)
        allowance = self._links.allowance(holder.robot)
        self._inbox = Inbox(holder.robot, self._links.store, self._links.clock, self._links.room, allowance)
        self._storing = asyncio.create_task(self._store_all())
        try:
            async with asyncio.timeout(HELLO_S) as self._limit:
                while (event := await self._receive())["type"] != "websocket.disconnect":
                    if not self._closed:
                        await self._take(event.get("text") or event.get("bytes") or b"")
        except TimeoutError:
            await self.close(protocol.NO_HELLO)
        return None

    async def _first_message(self) -> bytes | str:
        event = await self._receive()
        return event.get("text") or event.get("bytes") or b""

    def end(self) -> None:
        self._closed = True
        if self._link is not None:
            self._links.remove(self._link)
        if hasattr(self, "_storing"):
            self._storing.cancel()
            self._inbox.close()
        if self._direct is not None:
            self._direct.cancel()

    async def _store_all(self) -> None:
        try:
            await self._inbox.run()
        except Exception:  # its task has nobody who waits for it
            log.exception("storing for %s failed", self._holder.robot)
            await self.close(protocol.COME_BACK)

    async def close(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            await self._put({"type": "websocket.close", "code": code})

    async def _say(self, frame: str) -> None:
        if not self._closed:
            await self._put({"type": "websocket.send", "text": frame})

    async def _send_command(self, frame: str) -> None:
        """What cannot leave any more counts as no try: the command waits for the robot's next link."""
        await self._say(frame)
        if self._closed:
            raise ConnectionResetError("the robot has hung up")

    async def _put(self, event: Event) -> None:
        """A robot may have hung up before its last words are read; each server has its own exception for that."""
        try:
            await self._send(event)
        except Exception as error:  # see above
            self._closed = True
            log.debug("a robot has hung up: %r", error)

    async def _take(self, raw: bytes | str) -> None:
        received_at = timezone.now()
        if self._link is not None:
            self._link.heard = self._links.clock()
        try:
            frame = native.read_in_turn(raw, self._holder.robot, self._link and self._link.session)
        except Bad as bad:
            await self._refuse(bad, raw, received_at)
        else:
            if isinstance(frame, Hello):
                await self._hello(raw, received_at)
            elif isinstance(frame, Ack):
                self._acknowledged(frame, received_at)
                self._note(raw, received_at, "")
            elif frame.channel == "critical":
                self._store(frame, raw, received_at, partial(self._stored, frame, raw, received_at))
            else:
                self._note(raw, received_at, await self._lossy(frame, received_at))

    async def _refuse(self, bad: Bad, raw: bytes | str, received_at: datetime) -> None:
        """The verdict names the field. A message whose envelope is good is kept: its number has to be passed."""
        self._links.counts[f"bad {bad.field}"] += 1
        metrics.bad(bad.field)
        self._complaints.add(bad)
        answer = native.refusal(bad)
        self._note(raw, received_at, answer)
        verdict = partial(self._say, answer)
        if bad.envelope is not None and bad.envelope.channel == "critical":
            return self._store(bad.envelope, raw, received_at, lambda _: verdict(), valid=False)
        self._alive(received_at)
        return await verdict()

    async def _hello(self, raw: bytes | str, received_at: datetime) -> None:
        if not self._links.welcomes(self._holder.robot):
            return await self.close(protocol.COME_BACK)
        try:
            opened = await self._links.rows.ask(open_session, self._holder.robot, GATEWAY)
        except DatabaseError as error:
            self._links.not_now(error)
            return await self.close(protocol.COME_BACK)
        robot, credential = self._holder
        self._link = Link(robot, opened.session, credential, self._send_command, self.close, opened.applied)
        self._limit.reschedule(None)
        welcome = frames.welcome(opened.session, opened.applied, received_at)
        await self._say(welcome)
        self._note(raw, received_at, welcome)
        await self._links.add(self._link)
        return self._alive(received_at)

    def _store(
        self,
        up: Up,
        raw: bytes | str,
        received_at: datetime,
        done: Callable[[str], Awaitable[None]],
        valid: bool = True,
    ) -> None:
        assert self._link is not None
        self._link.heard_of((up.session,))
        self._link.numbers.saw(up.session, up.channel, up.seq)
        data = raw.encode() if isinstance(raw, str) else raw
        lost = partial(self._not_stored, up, raw, received_at, valid)
        self._inbox.offer(Message(up.msg_id, data, received_at, done, lost))
        self._alive(received_at)

    def _not_stored(self, up: Up, raw: bytes | str, received_at: datetime, valid: bool) -> None:
        """Not acknowledged, so the robot sends it again; but nobody waits for that to know that a robot stands."""
        self._links.counts["not stored"] += 1
        metrics.NOT_STORED.inc()
        self._note(raw, received_at, frames.not_taken(up.msg_id, "retry", "not stored; it will come again"))
        if valid and up.type in direct.TYPES and (self._direct is None or self._direct.done()):
            self._direct = asyncio.create_task(self._apply_directly(up, raw, received_at))

    async def _apply_directly(self, up: Up, raw: bytes | str, received_at: datetime) -> None:
        try:
            await self._links.direct.ask(direct.apply, up, received_at)
        except Exception as error:  # the robot sends it again
            log.warning("%s says that it stands; that could not be written: %s", up.robot, error)
        else:
            self._inbox.settled(up.msg_id)
            await self._stored(up, raw, received_at, "stored")

    async def _stored(self, up: Up, raw: bytes | str, received_at: datetime, verdict: str) -> None:
        if verdict == "duplicate":
            metrics.DUPLICATES.labels("gateway").inc()
            self._links.duplicates.note(up.robot, up.type)
        answer = frames.ack(up.msg_id, verdict)
        self._note(raw, received_at, answer)
        await self._say(answer)

    def _note(self, raw: bytes | str, received_at: datetime, answer: str) -> None:
        self._links.heard.note(self._holder.robot, raw, received_at, answer, WEBSOCKET)

    def _acknowledged(self, frame: Ack, received_at: datetime) -> None:
        """The robot has a command: the worker learns it on the same way as the robot's own words, and before them."""
        assert self._link is not None
        self._alive(received_at)
        sending = self._link.acknowledge(frame.msg_id)
        if sending is None:
            return

        def lost() -> None:
            sending.acknowledged = False  # it will be sent, and acknowledged, once more

        async def done(verdict: str) -> None:
            pass

        msg_id, raw = frames.delivered(frame.msg_id, self._holder.robot, received_at)
        self._inbox.offer(Message(msg_id, raw, received_at, done, lost, repeats=False))

    async def _lossy(self, up: Up, received_at: datetime) -> str:
        """Our verdict; said only to a heartbeat, and about what is dropped."""
        assert self._link is not None
        self._link.numbers.saw(up.session, up.channel, up.seq)
        bucket, now = self._link.lossy, self._links.clock()
        if why := too_much(self._links.room, bucket, now):
            self._links.counts["lossy dropped"] += 1
            metrics.DROPPED.inc()
            self._alive(received_at)  # what it says is dropped, not that it speaks
            dropped = frames.not_taken(up.msg_id, "dropped", why)
            if now - bucket.told >= TOLD_S:
                bucket.told = now
                await self._say(dropped)
            return dropped
        facts = native.facts(up, received_at)
        self._links.vitals.put(Put(up.robot, up.session, up.seq, received_at, facts))
        if native.is_heartbeat(up):
            self._alive(received_at)  # whatever its number: an older one than the newest is refused as a snapshot
            seen = frames.seen(up.msg_id, self._link.watermarks())
            await self._say(seen)
            return seen
        return ""

    def _alive(self, received_at: datetime) -> None:
        self._signs.give(received_at, self._links.clock())

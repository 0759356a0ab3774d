"""The hub: one per web process and event loop, between dirty signals and browsers.

It listens, merges, loads once, renders once and sends each socket one frame per tick. It lives from the first socket
to the last.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec
import redis.asyncio
from django.conf import settings
from django.db import Error as DatabaseError

from telemetry import metrics, snapshots
from telemetry.live import access, alarms, listening, loading, revocation
from telemetry.live.board import Board, Dirty
from telemetry.live.viewer import Viewer
from telemetry.one_connection import OneConnection
from telemetry.uncut import uncut

log = logging.getLogger(__name__)
TICK_S = 0.05  # at most 20 ticks a second; a quiet hub ticks at once
CHECK_S = 2.0  # the database is asked what was missed
BEAT_S = 3.0
ACCESS_S = 15.0  # who may no longer look is shown out (I11: within 30 s)
STUCK_S = 15.0  # a browser that confirms nothing for so long while it is behind must come back
COME_BACK = 4012
RETRY_S = 1.0
STOP_S = 2.0
SCOPES = ("row", "live")  # of dirty signals

Send = Callable[[str], Awaitable[None]]
Close = Callable[[int], Awaitable[None]]


class Socket(Viewer):
    """A viewer with the means to reach its browser, who it is, and the one site that it asked for, if any."""

    def __init__(
        self, send: Send, close: Close, session_key: str, sites: frozenset[int] | None, asked: int | None = None
    ) -> None:
        super().__init__(access.view(sites, asked))
        self.send, self.close, self.session_key, self.asked = send, close, session_key, asked
        self.sent_at = 0.0

    def stuck(self, now: float) -> bool:
        """Something is to be sent, and it has not confirmed what it was sent long ago."""
        behind = self.snapshot_due or bool(self.pending)
        return behind and not self.ready and now - self.sent_at > STUCK_S


class Hub:
    """`join` a socket, tell when it acked, `leave`. `trouble` is why what is shown may be old; empty when all is well."""

    def __init__(self, redis_url: str | None = None) -> None:
        self.board = Board()
        self.redis_url = redis_url or settings.LIVE_REDIS_URL
        self.trouble = ""
        self.linked: bool | None = None  # to the live Redis; None: not known yet
        self._beat_now = asyncio.Event()
        self._since: dict[str, int] = {}  # scope → ms of the oldest change heard of and not pushed yet
        self._wake = asyncio.Event()
        self._access_changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._rows = OneConnection("live-hub")
        self._redis: redis.asyncio.Redis | None = None

    # --- sockets

    def join(self, socket: Socket) -> None:
        self.board.admit(socket, socket.view)
        metrics.SOCKETS.set(len(self.board.viewers))
        if not self._tasks:
            self._redis = redis.asyncio.Redis.from_url(
                self.redis_url, socket_timeout=1, socket_connect_timeout=1, retry=None
            )
            for loop in (self._tick, self._listen, self._check, self._beat, self._guard, self._hear_revocations):
                self._tasks.append(asyncio.create_task(_forever(loop), name=f"live hub {loop.__name__}"))
        self._wake.set()
        self._beat_now.set()

    def acked(self, socket: Socket, n: int, *, again: bool = False) -> None:
        """The browser has applied frame n, or, with `again`, could not and wants everything anew."""
        socket.ack(n)
        socket.snapshot_due |= again
        if socket.ready:
            self._wake.set()

    def leave(self, socket: Socket) -> None:
        self.board.viewers.discard(socket)
        metrics.SOCKETS.set(len(self.board.viewers))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_S)
        self._tasks.clear()
        if self._redis is not None:
            await self._redis.aclose()
        self._rows.close()

    # --- loops

    async def _tick(self) -> None:
        """Load what is dirty, then send every ready socket one frame."""
        await self._wake.wait()
        self._wake.clear()
        started = time.monotonic()
        dirty = self.board.take()
        since, self._since = self._since, {}
        if dirty:
            try:
                await self._load(dirty)
            except DatabaseError as error:
                self.board.give_back(dirty)
                self._since = since
                self._troubled(f"The database does not answer ({type(error).__name__})")
                await asyncio.sleep(RETRY_S)
                self._wake.set()
                return
            except Exception:  # raised again
                self.board.give_back(dirty)
                self._wake.set()
                raise
            self._well()
        if self.board.loaded:
            for socket in [s for s in self.board.viewers if s.ready]:
                socket.sent_at = started
                await self._send(socket, self._counted(self.board.frame(socket)))
                _observe(since)
                since = {}
        await asyncio.sleep(max(0.0, TICK_S - (time.monotonic() - started)))

    def _counted(self, frame: str) -> str:
        metrics.FRAMES.inc()
        metrics.FRAME_BYTES.inc(len(frame))
        return frame

    async def _load(self, dirty: Dirty) -> None:
        if dirty.all or dirty.alerts:
            self.board.put_alerts(await self._rows.ask(alarms.load))
        rows = loading.Loaded({}, {})
        if dirty.all or dirty.robots or dirty.missions:
            robots = None if dirty.all else sorted(dirty.robots)
            rows = await self._rows.ask(loading.load, robots, sorted(dirty.missions))
            if dirty.all:
                self.board.ended = await self._rows.ask(loading.ended)
        new = rows.robots.keys() if dirty.all else rows.robots.keys() - self.board.robots.keys()
        self.board.put(dirty, rows, await self._facts(sorted(dirty.live | new)), time.monotonic())

    async def _facts(self, robot_ids: list[str]) -> dict[str, snapshots.Snapshot]:
        try:
            assert self._redis is not None
            return await uncut(snapshots.read(self._redis, robot_ids))
        except (redis.RedisError, OSError) as error:
            log.debug("no live facts: %s", error)
            return {}  # the last ones stay, and their age shows

    async def _listen(self) -> None:
        """Dirty signals. After every new subscription everything is dirty: nobody knows what was missed."""
        await listening.listen(self.redis_url, self._linked, self._hear)
        if self.linked is not False:
            log.warning("live page: no link to the live Redis; changes come from the database meanwhile")
        self.linked = False
        self._beat_now.set()
        await asyncio.sleep(RETRY_S)

    def _linked(self) -> None:
        self.linked = True
        self._beat_now.set()
        self.board.all_dirty()
        self._wake.set()

    def _hear(self, signals: list[Any]) -> None:
        self.board.signal(signals)
        for _kind, _id, scope, at_ms, *_ in signals:
            if scope in SCOPES:
                self._since[scope] = min(at_ms, self._since.get(scope, at_ms))
        self._wake.set()

    async def _check(self) -> None:
        """What was missed: signals may be lost, the database is the truth."""
        await asyncio.sleep(CHECK_S)
        try:
            found = await self._rows.ask(loading.versions)
            alerts = await self._rows.ask(alarms.load)  # also for silences that end
        except DatabaseError as error:
            self._troubled(f"The database does not answer ({type(error).__name__})")
            return
        now = time.monotonic()
        self.board.forget_ended(now)
        for socket in [s for s in self.board.viewers if s.stuck(now)]:
            await self._show_out(socket, COME_BACK)
        if self.board.loaded:
            self._well()
            self.board.compare(found)
            self.board.put_alerts(alerts)
            self._wake.set()

    async def _beat(self) -> None:
        """Tells every browser that the line is up, and whether what it shows can be trusted."""
        beat = {"beat": snapshots.now_ms(), "trouble": self.trouble, "slow": self.linked is False}
        text = msgspec.json.encode(beat).decode()
        for socket in list(self.board.viewers):
            await self._send(socket, text)
        with suppress(TimeoutError):
            async with asyncio.timeout(BEAT_S):  # wait_for of Python 3.11 can swallow a cancel
                await self._beat_now.wait()
        self._beat_now.clear()

    async def _guard(self) -> None:
        """Closes the sockets of those who were signed out or lost the permission; narrows those who lost a site."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ACCESS_S):
                await self._access_changed.wait()
        self._access_changed.clear()
        sockets = list(self.board.viewers)
        sessions = {s.session_key for s in sockets}  # one may have many pages open
        try:
            verdicts = await self._rows.ask(lambda: {key: access.verdict(access.user_of(key)) for key in sessions})
        except DatabaseError:
            return
        for socket in sockets:
            code, sites = verdicts[socket.session_key]
            if code:
                await self._show_out(socket, code)
            elif socket in self.board.viewers:
                self.board.admit(socket, access.view(sites, socket.asked))
        self._wake.set()

    async def _hear_revocations(self) -> None:
        await revocation.listen(self._access_changed.set)
        await asyncio.sleep(RETRY_S)

    # --- means

    async def _send(self, socket: Socket, text: str) -> None:
        try:
            await socket.send(text)
        except Exception as error:  # each server has its own exception for that
            log.debug("a socket has gone: %r", error)
            self.leave(socket)

    async def _show_out(self, socket: Socket, code: int) -> None:
        self.leave(socket)
        with suppress(Exception):  # it may have gone by itself
            await socket.close(code)

    def _troubled(self, why: str) -> None:
        if not self.trouble:
            log.warning("live page: %s", why)
            self._beat_now.set()
        self.trouble = why

    def _well(self) -> None:
        if self.trouble:
            log.warning("live page: the database answers again")
            self._beat_now.set()
        self.trouble = ""


def _observe(since: dict[str, int]) -> None:
    """The first browser has been sent what changed: how long that took."""
    now = snapshots.now_ms()
    for scope, at_ms in since.items():
        metrics.CHANGED_TO_PUSHED.labels(scope).observe(max(0, now - at_ms) / 1000)


async def _forever(step: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await step()
        except Exception:  # nobody else would go on with it
            log.exception("live hub: %s failed; it goes on", step.__name__)
            await asyncio.sleep(RETRY_S)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def join(socket: Socket) -> Hub:
    """The hub of this loop, made for the first socket."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        hub = _hubs[loop] = Hub()
    hub.join(socket)
    return hub


async def leave(hub: Hub, socket: Socket) -> None:
    """The last socket takes the hub with it."""
    hub.leave(socket)
    loop = asyncio.get_running_loop()
    if not hub.board.viewers and _hubs.get(loop) is hub:
        del _hubs[loop]
        await hub.stop()

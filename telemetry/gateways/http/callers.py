"""What this process knows of robots that talk over HTTP, between their requests: whose token, which session.

A request is authenticated against a memory of AUTH_S; the link of a robot is looked after by `Links`, so a revoked
token, a newer link and a stream that was lost are seen within a second. Forgotten after KEEP_S of silence.
"""

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import ClassVar

from django.db import Error as DatabaseError

from telemetry import metrics
from telemetry.gateways.complaints import Complaints
from telemetry.gateways.http.bodies import Flight, Problem
from telemetry.gateways.http.polling import ENDED, HTTP, NO_HELLO, Ended, PolledLink
from telemetry.gateways.links import Links
from telemetry.gateways.rows import Holder, Opened, holder_of, open_session, standing_of
from telemetry.gateways.vitals import SignsOfLife
from telemetry.protocol import COME_BACK, REPLACED, UNAUTHORISED

AUTH_S = 15.0  # a token is looked up anew after so long; access taken away ends within 30 s (I11)
KEEP_S = 30.0  # longer than the longest poll
REAP_S = 5.0
STRANGERS = 50  # tokens that are being looked up at a time; more come again in a second


@dataclass(eq=False)
class Caller:
    """One robot. Its messages are taken one request after the other (`turn`)."""

    holder: Holder
    complaints: Complaints
    signs: SignsOfLife
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    link: PolledLink | None = None
    requests: int = 0
    used_at: float = 0.0  # clock time


class Callers:
    """All of one event loop. Begins with the first request and ends when every robot is silent."""

    _here: ClassVar["Callers | None"] = None

    def __init__(self) -> None:
        self.links = Links.enter()
        self.flight = Flight()
        self._tokens: dict[bytes, tuple[Holder, float]] = {}
        self._callers: dict[str, Caller] = {}
        self._strangers = 0
        self._used_at = self.links.clock()
        self._reaper = asyncio.create_task(self._reap())

    @classmethod
    def here(cls) -> "Callers":
        if cls._here is None or cls._here.links.loop is not asyncio.get_running_loop():
            cls._here = cls()
        cls._here._used_at = cls._here.links.clock()
        return cls._here

    @classmethod
    async def leave(cls) -> None:
        """Forget all robots. For the end of a test; a process just ends."""
        if cls._here is not None:
            cls._here._reaper.cancel()
            await asyncio.gather(cls._here._reaper, return_exceptions=True)
            await cls._here._end()

    async def caller(self, token: str) -> Caller:
        """Who sends this request. Raises `Problem`."""
        now, digest = self.links.clock(), hashlib.sha256(token.encode()).digest()
        holder, until = self._tokens.get(digest, (None, 0.0))
        if holder is not None and self._is_refused(holder):
            holder = None
        if holder is None or now >= until:
            holder = await self._look_up(token, holder)
            self._tokens[digest] = (holder, now + AUTH_S)
        caller = self._callers.get(holder.robot)
        if caller is None:
            signs = SignsOfLife(self.links.vitals, holder.robot)
            caller = Caller(holder, Complaints(holder.robot, self.links.clock), signs)
            self._callers[holder.robot] = caller
        caller.holder, caller.used_at = holder, now
        return caller

    def _is_refused(self, holder: Holder) -> bool:
        """Has the look at its link found that this credential counts no more?"""
        caller = self._callers.get(holder.robot)
        link = caller.link if caller else None
        return link is not None and link.ended == UNAUTHORISED and link.credential == holder.credential

    async def _look_up(self, token: str, known: Holder | None) -> Holder:
        if known is None and self._strangers >= STRANGERS:
            raise Problem(503, "Busy", "Too many tokens are being looked up. Come again.", retry_after_s=1)
        self._strangers += 1
        try:
            holder = await self.links.rows.ask(holder_of, token) if token else None
        except DatabaseError:
            if known is not None:  # what it was a moment ago: nobody can revoke it meanwhile
                return known
            raise no_database() from None
        finally:
            self._strangers -= 1
        if holder is None:
            self.links.counts["unauthorised"] += 1
            metrics.UNAUTHORISED.inc()
            detail = "The token is missing, wrong or revoked, or the robot is retired. A person has to look."
            raise Problem(401, "Not authorised", detail, headers=((b"www-authenticate", b"Bearer"),))
        return holder

    async def hello(self, caller: Caller) -> Opened:
        """A new session; every older link of this robot ends. Raises `Problem`."""
        robot, credential = caller.holder
        if not self.links.welcomes(robot):
            raise Problem(429, "Slow down", "It says hello too often. Say it again later.", retry_after_s=5)
        try:
            opened = await self.links.rows.ask(open_session, robot, HTTP)
        except DatabaseError:
            raise no_database() from None
        await self._add(caller, PolledLink(robot, opened.session, credential, opened.applied, self.links.clock))
        return opened

    async def link(self, caller: Caller, session: int = 0) -> PolledLink:
        """The newest session of this robot, if it is over HTTP. Asks again if it is said to be `session`. Raises `Problem`."""
        known = caller.link
        if known is not None and known.ended is None and session <= known.session:
            return known
        try:
            standing = await self.links.rows.ask(standing_of, caller.holder.robot)
        except DatabaseError:
            if known is not None and known.ended is None:
                return known
            raise no_database() from None
        if standing is None:
            raise ended(NO_HELLO)
        if standing.gateway != HTTP:
            raise ended(ENDED[REPLACED if standing.gateway else COME_BACK])
        if known is None or known.ended is not None or known.session != standing.session:
            robot, credential = caller.holder
            known = PolledLink(robot, standing.session, credential, standing.applied, self.links.clock)
            await self._add(caller, known)
        return known

    async def _add(self, caller: Caller, link: PolledLink) -> None:
        if caller.link is not None:
            await caller.link.close(REPLACED)
            link.lossy = caller.link.lossy  # hello is no way to a new allowance
        caller.link = link
        await self.links.add(link)

    async def _reap(self) -> None:
        while self._callers or self.links.clock() - self._used_at < KEEP_S:
            await asyncio.sleep(REAP_S)
            self.forget()
        await self._end()

    def forget(self) -> None:
        """Let go of robots that have been silent."""
        now = self.links.clock()
        for robot, caller in list(self._callers.items()):
            if not caller.requests and now - caller.used_at >= KEEP_S:
                del self._callers[robot]
                if caller.link is not None:
                    self.links.remove(caller.link)
        self._tokens = {digest: known for digest, known in self._tokens.items() if known[1] > now}

    async def _end(self) -> None:
        if Callers._here is self:
            Callers._here = None
        for caller in self._callers.values():
            if caller.link is not None:
                self.links.remove(caller.link)
        await self.links.leave()


def ended(how: Ended) -> Problem:
    return Problem(how.status, how.title, how.detail)


def no_database() -> Problem:
    return Problem(503, "Not now", "The database does not answer, or takes no writes. Send it again.", retry_after_s=2)

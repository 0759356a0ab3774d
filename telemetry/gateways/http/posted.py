"""The messages of one HTTP request: each gets its verdict, in order.

When one critical message cannot be stored, nothing critical that follows it in the request is taken: the robot sends
all of it again. A robot's word that it stands is committed all the same (I13).
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import Error as DatabaseError

from telemetry import frames, metrics
from telemetry.drivers import native
from telemetry.drivers.native import Frame
from telemetry.gateways import direct
from telemetry.gateways.http.bodies import Problem
from telemetry.gateways.http.callers import Caller, Callers
from telemetry.gateways.http.polling import PolledLink
from telemetry.gateways.intake import LATE_S, Backlogged, Unavailable
from telemetry.gateways.limits import too_much
from telemetry.gateways.rows import sent_commands
from telemetry.protocol import Ack, Bad, Hello, Up
from telemetry.snapshots import Put

log = logging.getLogger(__name__)
GROUP = 200  # stored at once: one round trip of the intake


@dataclass(slots=True)
class Waiting:
    """A critical message whose turn has come. `verdict`: what is said once it is stored, if not `stored`."""

    index: int
    up: Up
    raw: bytes
    verdict: str = ""


class Posted:
    """One request of a robot that has its turn. `verdicts` are frames as on a WebSocket, `problem` is why some say `retry`."""

    def __init__(self, callers: Callers, caller: Caller, received_at: datetime) -> None:
        self._callers, self._caller, self._received_at = callers, caller, received_at
        self._links, self._robot = callers.links, caller.holder.robot
        self._since, self._allowance = self._links.clock(), self._links.allowance(self._robot)
        self._link: PolledLink | None = None
        self._no_link: Problem | None = None
        self._waiting: list[Waiting] = []
        self._sent: dict[UUID, bool] = {}  # commands that it acknowledges: do they still wait for that?
        self._greeted = self._asked = False
        self.verdicts: list[str] = []
        self.problem: Problem | None = None

    async def take(self, raws: list[bytes]) -> None:
        """However much of it is wrong, the database is asked a few times at most."""
        self.verdicts = [""] * len(raws)
        read = [self._read(raw) for raw in raws]
        await self._find([frame.msg_id for frame in read if isinstance(frame, Ack)])
        for index, (raw, frame) in enumerate(zip(raws, read, strict=True)):
            await self._take_one(index, raw, frame)
            if len(self._waiting) >= GROUP:
                await self._store()
        await self._store()

    def _read(self, raw: bytes) -> Frame | Bad:
        try:
            return native.read(raw, self._robot)
        except Bad as bad:
            return bad

    async def _take_one(self, index: int, raw: bytes, frame: Frame | Bad) -> None:
        bad = frame if isinstance(frame, Bad) else None
        up = frame if isinstance(frame, Up) else bad.envelope if bad is not None else None
        if up is not None:
            try:
                await self._check_session(up)
            except Bad as worse:
                bad, up = worse, None
        if isinstance(frame, Hello) and self._greeted:
            bad = Bad("type", "one hello in a request", msg_id=None if frame.msg_id is None else str(frame.msg_id))
        if up is not None and self._no_link is not None:
            self._retry(index, up.msg_id, self._no_link)
        elif bad is not None:
            self._refuse(index, bad, up, raw)
        elif up is not None and up.channel == "critical":
            self._waiting.append(Waiting(index, up, raw))
        elif up is not None:
            self._lossy(index, up)
        else:
            await self._store()  # what came before it goes first
            if isinstance(frame, Hello):
                await self._hello(index)
            elif isinstance(frame, Ack):
                self.verdicts[index] = await self._acknowledge(frame.msg_id)

    async def _check_session(self, up: Up) -> None:
        """Raises `Bad`. Without a link nothing can be said about it yet: `_no_link` is why."""
        unknown = self._link is None or (up.session > self._link.session and not self._asked)
        if self._no_link is None and unknown:
            self._asked = True
            try:
                self._link = await self._callers.link(self._caller, up.session)
            except Problem as problem:
                self._no_link = problem
        if self._no_link is None and self._link is not None:
            native.check_session(up, self._link.session)

    def _refuse(self, index: int, bad: Bad, up: Up | None, raw: bytes) -> None:
        """The verdict names the field. A message whose envelope is good is kept: its number has to be passed."""
        self._links.counts[f"bad {bad.field}"] += 1
        metrics.bad(bad.field)
        self._caller.complaints.add(bad)
        verdict = native.refusal(bad)
        if up is not None and up.channel == "critical":
            self._waiting.append(Waiting(index, up, raw, verdict))
        else:
            self.verdicts[index] = verdict

    def _lossy(self, index: int, up: Up) -> None:
        assert self._link is not None
        self._link.numbers.saw(up.session, up.channel, up.seq)
        if why := too_much(self._links.room, self._link.lossy, self._links.clock()):
            self._links.counts["lossy dropped"] += 1
            metrics.DROPPED.inc()
            self.verdicts[index] = frames.not_taken(up.msg_id, "dropped", why)
            return
        facts = native.facts(up, self._received_at)
        self._links.vitals.put(Put(up.robot, up.session, up.seq, self._received_at, facts))
        beat = native.is_heartbeat(up)
        self.verdicts[index] = frames.seen(up.msg_id, self._link.told()) if beat else frames.ack(up.msg_id, "seen")

    async def _hello(self, index: int) -> None:
        self._greeted = self._asked = True
        try:
            opened = await self._callers.hello(self._caller)
        except Problem as problem:
            self._link, self._no_link = None, problem
            return self._retry(index, None, problem)
        self._link, self._no_link = self._caller.link, None
        self.verdicts[index] = frames.welcome(opened.session, opened.applied, self._received_at)
        return None

    async def _store(self) -> None:
        """Store what waits, in order, up to the first that cannot be."""
        group, self._waiting = self._waiting, []
        if group and self.problem is None and self._links.clock() - self._since > LATE_S:
            self.problem = _not_stored(Unavailable("it took too long"))
        if group and self.problem is None and not self._allowance.take(self._links.clock(), len(group)):
            self.problem = _not_stored(Backlogged(f"more than {self._allowance.per_s:.0f} critical messages a second"))
        if self.problem is None and group:
            assert self._link is not None
            self._link.heard_of({w.up.session for w in group})
            for w in group:
                self._link.numbers.saw(w.up.session, w.up.channel, w.up.seq)
            answers = await asyncio.gather(
                *(self._links.store(self._robot, w.up.msg_id, w.raw, self._received_at) for w in group),
                return_exceptions=True,
            )
        else:
            answers = [Unavailable("what came before it was not stored")] * len(group)
        for waiting, answer in zip(group, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, Unavailable):
                raise answer
            if isinstance(answer, Unavailable) and self.problem is None:
                self.problem = _not_stored(answer)
            if self.problem is not None:
                await self._not_stored(waiting, self.problem)
            else:
                if answer == "duplicate":
                    metrics.DUPLICATES.labels("gateway").inc()
                    self._links.duplicates.note(self._robot, waiting.up.type)
                self.verdicts[waiting.index] = waiting.verdict or frames.ack(waiting.up.msg_id, str(answer))

    async def _not_stored(self, waiting: Waiting, problem: Problem) -> None:
        self._links.counts["not stored"] += 1
        metrics.NOT_STORED.inc()
        up = waiting.up
        if not waiting.verdict and up.type in direct.TYPES:  # nobody waits for a store to know that a robot stands
            try:
                await self._links.direct.ask(direct.apply, up, self._received_at)
            except Exception as error:  # the robot sends it again
                log.warning("%s says that it stands; that could not be written: %s", up.robot, error)
            else:
                self.verdicts[waiting.index] = frames.ack(up.msg_id, "stored")
                return
        self._retry(waiting.index, up.msg_id, problem)

    def _retry(self, index: int, msg_id: UUID | None, problem: Problem) -> None:
        self.problem = self.problem or problem
        self.verdicts[index] = frames.not_taken(msg_id, "retry", problem.detail)

    async def acknowledge(self, ids: list[UUID]) -> list[str]:
        """The robot has these commands: the worker learns it on the same way as the robot's own words. One verdict each."""
        await self._find(ids)
        return [await self._acknowledge(id) for id in ids]

    async def _find(self, ids: list[UUID]) -> None:
        link = self._caller.link
        try:
            self._sent = await self._links.rows.ask(sent_commands, self._robot, ids) if ids else {}
        except DatabaseError:  # those that this process has handed out itself
            self._sent = {id: True for id, sending in (link.commands.items() if link else ()) if sending.sent}

    async def _acknowledge(self, id: UUID) -> str:
        link = self._link or self._caller.link
        sending = link.commands.get(id) if link else None
        if id not in self._sent:
            self._links.counts["bad msg_id"] += 1
            metrics.bad("msg_id")
            return frames.ack(id, "invalid", "msg_id", "no command with it was sent to this robot")
        if not self._sent[id] or (sending is not None and sending.acknowledged):
            return frames.ack(id, "duplicate")
        verdict = await self._delivered(id)
        if self.problem is None:
            self._sent[id] = False
            if sending is not None:
                sending.acknowledged = True
        return verdict

    async def _delivered(self, command: UUID) -> str:
        try:
            if self.problem is not None:
                raise Unavailable("what came before it was not stored")
            msg_id, raw = frames.delivered(command, self._robot, self._received_at)
            await self._links.store(self._robot, msg_id, raw, self._received_at)
        except Unavailable as error:
            self.problem = self.problem or _not_stored(error)
            return frames.not_taken(command, "retry", self.problem.detail)
        return frames.ack(command, "stored")


def _not_stored(error: Unavailable) -> Problem:
    if isinstance(error, Backlogged):
        detail = f"{str(error)[:1].upper()}{str(error)[1:]}. Send what says retry again, in order."
        return Problem(429, "Slow down", detail, retry_after_s=5)
    detail = "It could not be stored. Send what says retry again, in order."
    return Problem(503, "Not stored", detail, retry_after_s=2)

"""One robot's open link: which commands are on their way over it, what of the robot's words is applied, how silent it is."""

import math
import zlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from telemetry import metrics, protocol
from telemetry.gateways.limits import Bucket
from telemetry.gateways.rows import Asked, OpenCommand

RETRY_S = (1, 2, 4, 8, 16)  # between sendings of a command that the robot does not acknowledge; the last one repeats
JITTER = 0.15  # each wait is longer or shorter by up to this share, so that a fleet does not repeat in step
SILENT_S = 20.0  # a robot that says nothing for so long is as good as gone: only stops are sent until it is heard again
TOLD = 100  # sessions of one robot whose watermarks it is told on a link; a welcome tells as many


@dataclass(slots=True)
class Sending:
    """A command on its way over this link."""

    command: OpenCommand
    sent: int = 0
    due: float = 0.0  # clock time
    acknowledged: bool = False


def spread(command: UUID, sent: int) -> float:
    """How much longer or shorter this wait is: by the command and the try, so that the same schedule is the same again."""
    return 1 - JITTER + 2 * JITTER * zlib.crc32(command.bytes + sent.to_bytes(4)) / 2**32


@dataclass(eq=False)
class Link:
    """`applied`: session → seq as far as this robot's messages are applied."""

    robot: str
    session: int
    credential: int | None  # None: its address on a broker is all there is
    send: Callable[[str], Awaitable[None]]
    close: Callable[[int], Awaitable[None]]
    applied: dict[int, int] = field(default_factory=dict)
    over: str = "WebSocket"
    heard: float = math.inf  # clock time of its last word; inf: nobody keeps track
    sessions: set[int] = field(default_factory=set)  # whose messages came over this link
    commands: dict[UUID, Sending] = field(default_factory=dict)
    lossy: Bucket = field(default_factory=Bucket)
    numbers: metrics.Sequence = field(default_factory=metrics.Sequence)
    handed: list[Sending] = field(default_factory=list)  # taken to be sent, and not yet counted
    spread: Callable[[UUID, int], float] = spread

    def ask(self, now: float = -math.inf) -> Asked:
        """What the next look asks for this link. What a silent robot is not sent is not marked as sent either."""
        sessions = sorted({self.session, *self.sessions})
        return Asked(self.robot, self.session, self.credential, sessions, quiet=self.silent(now))

    def silent(self, now: float) -> bool:
        return now - self.heard > SILENT_S

    def heard_of(self, sessions: Iterable[int]) -> None:
        """Messages of these sessions came: its robot waits for their watermarks. Of too many, the newest."""
        self.sessions |= set(sessions)
        if len(self.sessions) > TOLD:
            self.sessions = set(sorted(self.sessions)[-TOLD:])

    def passed(self, applied: dict[int, int]) -> None:
        """So far these sessions are applied."""
        self.applied |= applied
        if len(self.applied) > 2 * TOLD:
            self.applied = self.watermarks()

    def watermarks(self) -> dict[int, int]:
        """How far the sessions are applied whose messages the robot at its other end may still keep."""
        mine = self.sessions | {self.session}
        return {session: seq for session, seq in self.applied.items() if session in mine}

    def learn(self, commands: Iterable[OpenCommand]) -> None:
        """These are open now; what is not among them is done or no longer wanted."""
        known, self.commands = self.commands, {}
        for command in commands:
            self.commands[command.id] = known.get(command.id) or Sending(command)

    def take_due(self, now: float) -> list[str]:
        """Frames to send now: stops first, the rest in order. Nothing else while the robot is silent."""
        due = [s for s in self.commands.values() if not s.acknowledged and s.due <= now]
        due.sort(key=lambda s: s.command.kind not in protocol.URGENT)
        if self.silent(now):
            due = [s for s in due if s.command.kind in protocol.URGENT]
        for sending in due:
            if sending.sent:
                metrics.RETRIES.labels("command").inc()
            sending.due = now + RETRY_S[min(sending.sent, len(RETRY_S) - 1)] * self.spread(
                sending.command.id, sending.sent
            )
            sending.sent += 1
        self.handed += due
        return [s.command.body for s in due]

    def settle(self, not_sent: list[str]) -> tuple[list[UUID], list[UUID]]:
        """(sent, not sent) of what was taken. What could not leave was no try: it is due again with the next link."""
        handed, self.handed = self.handed, []
        failed = [s for s in handed if s.command.body in not_sent]
        for sending in failed:
            sending.sent -= 1
        return [s.command.id for s in handed if s not in failed], [s.command.id for s in failed]

    def acknowledge(self, command: UUID) -> Sending | None:
        """The robot has it. None when that is not news."""
        sending = self.commands.get(command)
        if sending is None or sending.acknowledged or not sending.sent:
            return None
        sending.acknowledged = True
        return sending

"""The link of a robot over HTTP: it can be sent commands while one of its long polls is open, and only then.

It is a `Link` like any other: asked about once a second and on each hint, replaced by a newer one, ended with its token.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from telemetry import protocol
from telemetry.gateways.limits import Bucket
from telemetry.gateways.link import Link
from telemetry.gateways.rows import Asked

HTTP = "http"  # the gateway of such a link in the database: any process may serve it
NEWER_POLL = "a newer poll of this robot has taken over"


@dataclass(eq=False)
class Poll:
    """One request that waits. `answer`: commands and a reason for having none, or the close code of the link."""

    until: float  # clock time
    answer: asyncio.Future[tuple[list[str], str] | int] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    asked: bool = False  # the database was asked after it began

    def give(self, answer: tuple[list[str], str] | int) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class PolledLink(Link):
    """One robot's session over HTTP, as this process knows it."""

    def __init__(
        self, robot: str, session: int, credential: int, applied: dict[int, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(robot, session, credential, self._no_frames, self._end, applied, over="HTTP")
        self.sessions |= set(sorted(applied)[-5:])  # another process may have taken what was sent again
        self.clock = clock
        self.ended: int | None = None  # close code
        self.poll: Poll | None = None
        self.lossy = Bucket()

    def begin(self, wait_s: float) -> Poll:
        """A poll; an older one answers at once, with nothing."""
        if self.poll is not None:
            self.poll.give(([], NEWER_POLL))
        self.poll = Poll(self.clock() + wait_s)
        if self.ended is not None:
            self.poll.give(self.ended)
        return self.poll

    def told(self) -> dict[int, int]:
        """How far the sessions are applied that this robot may still keep messages of."""
        mine = self.sessions | {self.session}
        return {session: seq for session, seq in self.applied.items() if session in mine}

    def done(self, poll: Poll) -> None:
        """This request is over."""
        if self.poll is poll:
            self.poll = None

    def ask(self, now: float = -math.inf) -> Asked:
        takes = self.poll is not None
        if self.poll is not None:
            self.poll.asked = True
        return super().ask(now)._replace(takes=takes)

    def take_due(self, now: float) -> list[str]:
        """Hands what is due to the poll; there is no connection to send on."""
        poll = self.poll
        if poll is None or poll.answer.done():
            return []
        due = super().take_due(now)
        if due or (poll.asked and now >= poll.until):
            poll.give((due, ""))
        return []

    async def _end(self, code: int) -> None:
        self.ended = code
        if self.poll is not None:
            self.poll.give(code)

    async def _no_frames(self, frame: str) -> None:
        raise AssertionError("a link over HTTP hands its commands to a poll")


@dataclass(slots=True)
class Ended:
    """What a robot is told whose link has ended: status, title, what to do."""

    status: int
    title: str
    detail: str


ENDED = {
    protocol.REPLACED: Ended(
        409,
        "Replaced",
        "A newer link of this robot has taken over. Say hello again, if only one program uses this identity.",
    ),
    protocol.COME_BACK: Ended(
        409, "Say hello", "The site may have lost what it stored. Say hello, then send again what is not applied."
    ),
    protocol.UNAUTHORISED: Ended(401, "Not authorised", "The token was revoked, or the robot is retired."),
}
NO_HELLO = Ended(409, "Say hello", "Post a hello to /robot/v1/events first: it opens a session.")

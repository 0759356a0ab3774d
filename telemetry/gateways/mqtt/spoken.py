"""A robot's words on their way to the store, and when all that a message says has got there."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol
from uuid import UUID

from telemetry import frames, metrics, protocol
from telemetry.drivers import contract
from telemetry.gateways import direct
from telemetry.protocol import Up


class Speaker(Protocol):
    """Who is told what became of a word."""

    def stored(self, word: contract.Say, verdict: str, at: datetime) -> None: ...

    def apply_directly(self, frame: bytes, at: datetime) -> None: ...


class Counts(Protocol):
    """The link whose words are numbered by us."""

    robot: str
    session: int
    said: int


class Receipt:
    """When all that a message says is stored, its broker may forget it."""

    __slots__ = ("_ack", "_open")

    def __init__(self, ack: Callable[[], None]) -> None:
        self._ack, self._open = ack, 1

    def wait(self) -> None:
        self._open += 1

    def done(self) -> None:
        self._open -= 1
        if not self._open:
            self._ack()


class Spoken:
    """A word of the robot on its way to the store."""

    __slots__ = ("_frame", "_link", "_receipt", "_speaker", "_sure", "_word", "msg_id", "numbered", "size")

    def __init__(self, speaker: Speaker, link: Counts, word: contract.Say, receipt: Receipt | None) -> None:
        """Raises what cannot be written as JSON."""
        self._speaker, self._link, self._word, self._receipt, self.msg_id = speaker, link, word, receipt, word.id
        self.numbered, self._frame, self._sure = bool(word.raw), word.raw, True
        self.size = len(word.raw) or len(self._numbered())

    def frame(self) -> bytes:
        if not self._frame:
            self._frame = self._numbered()
        return self._frame

    def _numbered(self) -> bytes:
        """A word that its robot does not number gets the next number of the link when it is stored, so there are no gaps."""
        word, link = self._word, self._link
        return frames.frame(
            Up(v=protocol.VERSION, msg_id=word.id, robot=link.robot, session=link.session, channel="critical",
               seq=link.said + 1, type=word.type, occurred_at=word.occurred_at, mission=word.mission,
               dispatch_no=word.dispatch_no, step=word.step, attempt=word.attempt, data=word.data)
        )  # fmt: skip

    def done(self, verdict: str, at: datetime) -> None:
        if not self.numbered and (verdict == "stored" or not self._sure):
            self._link.said += 1
        self._speaker.stored(self._word, verdict, at)
        if self._receipt is not None:
            self._receipt.done()

    def failed(self, at: datetime) -> None:
        self._sure = False  # it may be stored after all, under this number
        metrics.NOT_STORED.inc()
        if self._word.type in direct.TYPES:
            self._speaker.apply_directly(self._frame, at)


class Internal:
    """A word of ours about the robot, on the same way as its own."""

    __slots__ = ("_frame", "msg_id", "numbered", "size")

    def __init__(self, msg_id: UUID, frame: bytes) -> None:
        self.msg_id, self._frame, self.size, self.numbered = msg_id, frame, len(frame), True

    def frame(self) -> bytes:
        return self._frame

    def done(self, verdict: str, at: datetime) -> None: ...

    def failed(self, at: datetime) -> None: ...

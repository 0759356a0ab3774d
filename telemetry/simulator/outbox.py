"""What a robot has to say and keeps until the site has applied it: stamped once, resent in order.

Critical messages keep the session and seq of their first stamping. They are sent until acknowledged, and again on each
new link until the site's `applied` passes them.
"""

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from telemetry.simulator.memory import OutboxMemory
from telemetry.simulator.work import Event

WINDOW = 50  # critical messages under way at a time
RESEND_S = 2.0  # without an acknowledgement

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Kept:
    """A critical message. `sent_at`: when on this link, by the robot's clock in s."""

    session: int
    seq: int
    msg_id: str
    text: str
    sent_at: float | None = None
    acknowledged: bool = False


class Outbox:
    """One robot's messages. `new_id` is injected for tests."""

    def __init__(self, robot: str, new_id: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self._robot, self._new_id = robot, new_id
        self.session = 0
        self._seq = {"critical": 0, "lossy": 0}
        self._unstamped: deque[tuple[Event, datetime]] = deque()  # before the first session
        self._kept: deque[Kept] = deque()

    def __len__(self) -> int:
        return len(self._kept) + len(self._unstamped)

    def begin(self, session: int, applied: dict[str, int]) -> None:
        """A new link: everything that is not applied goes out again, the oldest first."""
        self.session, self._seq = session, {"critical": 0, "lossy": 0}
        for kept in self._kept:
            kept.sent_at, kept.acknowledged = None, False
        self.applied(applied)
        while self._unstamped:
            self._keep(*self._unstamped.popleft())

    def add(self, event: Event, at: datetime) -> None:
        """A critical event. `at` is the robot's wall clock (UTC)."""
        if self.session:
            self._keep(event, at)
        else:
            self._unstamped.append((event, at))

    def _keep(self, event: Event, at: datetime) -> None:
        seq, msg_id, text = self._stamp("critical", event, at)
        self._kept.append(Kept(self.session, seq, msg_id, text))

    def lossy(self, type: str, data: dict[str, Any], at: datetime) -> str:
        """A message that nobody keeps, ready to be sent."""
        return self._stamp("lossy", Event(type, data), at)[2]

    def _stamp(self, channel: str, event: Event, at: datetime) -> tuple[int, str, str]:
        self._seq[channel] += 1
        seq, msg_id = self._seq[channel], str(self._new_id())
        message = {
            "v": 1, "msg_id": msg_id, "robot": self._robot, "session": self.session, "channel": channel, "seq": seq,
            "type": event.type, "occurred_at": at.astimezone(UTC), "data": event.data,
        }  # fmt: skip
        about = ("mission", "dispatch_no", "step", "attempt", "traceparent")
        message |= {name: value for name in about if (value := getattr(event, name))}
        return seq, msg_id, _encode(message).decode()

    def due(self, now: float) -> list[str]:
        """What to send now, in order. Once one is overdue, all that followed it go out again behind it."""
        waiting = [k for k in self._kept if not k.acknowledged][:WINDOW]
        oldest = waiting[0].sent_at if waiting else None
        again = oldest is not None and now - oldest >= RESEND_S
        due = [k for k in waiting if again or k.sent_at is None]
        for kept in due:
            kept.sent_at = now
        return [k.text for k in due]

    def acknowledged(self, msg_id: str, verdict: str) -> None:
        """Stored: not sent again on this link. Invalid: nobody will ever take it."""
        for kept in self._kept:
            if kept.msg_id == msg_id:
                kept.acknowledged = True
                if verdict == "invalid":
                    self._kept.remove(kept)
                return

    def memory(self) -> OutboxMemory:
        """What has no number yet is left out: a robot without its first session has nothing of the site's to lose."""
        kept = [(k.session, k.seq, k.msg_id, k.text) for k in self._kept]
        return OutboxMemory(self.session, self._seq["critical"], kept)

    def remember(self, memory: OutboxMemory) -> None:
        """As after a loss of the link: until the next session begins, numbers go on in the last one."""
        self.session, self._seq["critical"] = memory.session, memory.seq
        self._kept = deque(Kept(*kept) for kept in memory.kept)

    def applied(self, watermarks: dict[str, int]) -> None:
        """The site has applied these sessions up to these numbers."""
        passed = {int(session): seq for session, seq in watermarks.items()}
        self._kept = deque(k for k in self._kept if k.seq > passed.get(k.session, 0))

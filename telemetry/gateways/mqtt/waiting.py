"""Messages of robots that wait to be heard: events all, of what says everything each time the newest, and never more than fits."""

from collections import deque
from collections.abc import Callable, Container, Iterator
from datetime import datetime

from telemetry import metrics
from telemetry.gateways.mqtt.broker import Incoming
from telemetry.gateways.mqtt.words import WINDOW

KEPT = 64  # messages of one part that wait, where only the newest counts: older ones go
CROWD, CROWD_BYTES = 2000, 32 * 2**20  # messages of all robots that wait: then only the newest of each part is kept
FLOOD, FLOOD_BYTES = 20_000, 128 * 2**20  # then events are let go of as well, and their robots begin anew

Message = tuple[Incoming, str, datetime]  # with its part, and when it came


class Crowd:
    """Messages of all robots that nobody has heard yet."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0

    def add(self, payload: bytes, sign: int = 1) -> None:
        self.messages += sign
        self.bytes += sign * len(payload)

    @property
    def is_large(self) -> bool:
        return self.messages > CROWD or self.bytes > CROWD_BYTES

    @property
    def is_flood(self) -> bool:
        """A broker that knows no window (MQTT 3.1.1) sends events as it likes."""
        return self.messages > FLOOD or self.bytes > FLOOD_BYTES


class Waiting:
    """One robot's, in the order of their coming. `newest`: parts of which the newest says everything; `ack` lets one go."""

    def __init__(self, newest: Container[str], crowd: Crowd, ack: Callable[[Incoming], None]) -> None:
        self._newest, self._crowd, self._ack = newest, crowd, ack
        self._line: deque[Message] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._line)

    def put(self, message: Incoming, part: str, at: datetime, *, is_throttled: bool) -> bool:
        """Take it. False: there is no room for one more event, as its robot sends more than it may for long."""
        if message.qos == 0 or part in self._newest:
            limit = 1 if self._crowd.is_large else KEPT
            if len(self._line) >= limit and self._count(part) >= limit:
                self._drop(next(n for n, waiting in enumerate(self._line) if waiting[1] == part))
                metrics.DROPPED.inc()
        elif (is_throttled and len(self._line) >= WINDOW) or self._crowd.is_flood:
            return False
        self._line.append((message, part, at))
        self._crowd.add(message.payload)
        return True

    def _count(self, part: str) -> int:
        return sum(waiting[1] == part for waiting in self._line)

    def _drop(self, n: int) -> None:
        message = self._line[n][0]
        del self._line[n]
        self._crowd.add(message.payload, -1)
        self._ack(message)

    def take(self) -> Message:
        """The next one."""
        taken = self._line.popleft()
        self._crowd.add(taken[0].payload, -1)
        return taken

    def put_back(self, message: Message) -> None:
        """It could not be heard: it is the next one again."""
        self._line.appendleft(message)
        self._crowd.add(message[0].payload)

    def clear(self) -> None:
        """Let go of all."""
        while self._line:
            self._drop(0)

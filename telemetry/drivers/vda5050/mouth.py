"""Says the robot's words once each, and again until they are stored."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from telemetry.drivers.contract import Say, derived

_AGAIN_S = (5, 10, 20, 40, 60)
_REMEMBERED = 1000  # ids of words that are stored


class Mouth:
    """`about`: what a word is about. Of words that change (a mode, a pause) only the newest about the same is repeated."""

    def __init__(self, robot: str) -> None:
        self._robot = robot
        self._open: dict[UUID, tuple[Say, str, int, datetime]] = {}
        self._stored: dict[UUID, None] = {}
        self._session, self._count = 0, 0

    def begin(self, session: int) -> None:
        self._session, self._count = session, 0

    def changing(self) -> UUID:
        """An id for a word that takes the place of an earlier one."""
        self._count += 1
        return derived(self._robot, self._session, self._count)

    def say(self, name: UUID, kind: str, at: datetime, now: datetime, *, about: str = "", **more: Any) -> Iterator[Say]:
        """At once, unless it is said already."""
        if name in self._open or name in self._stored:
            return
        if about:
            self._open = {key: row for key, row in self._open.items() if row[1] != about}
        word = Say(id=name, type=kind, occurred_at=at, **more)
        self._open[name] = word, about, 0, now + timedelta(seconds=_AGAIN_S[0])
        yield word

    def stored(self, name: UUID) -> None:
        self._open.pop(name, None)
        self._stored[name] = None
        if len(self._stored) > _REMEMBERED:
            del self._stored[next(iter(self._stored))]

    def forget(self, name: UUID) -> None:
        """It is asked for again: say it again when it is true."""
        self._stored.pop(name, None)

    def step(self, now: datetime) -> Iterator[Say]:
        for name, (word, about, times, due) in list(self._open.items()):
            if now >= due:
                pause = timedelta(seconds=_AGAIN_S[min(times + 1, len(_AGAIN_S) - 1)])
                self._open[name] = word, about, times + 1, now + pause
                yield word

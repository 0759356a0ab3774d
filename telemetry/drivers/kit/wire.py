"""The way between a robot and its gateway, in order, with the faults that a scenario wants."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Wire(Generic[Item]):
    """One direction, in order. `loses`: asked for each message by its number (from 1). `copies`: how often each comes."""

    def __init__(self) -> None:
        self.loses: Callable[[int], bool] = lambda number: False
        self.copies, self.held, self.count = 1, False, 0
        self._under_way: deque[Item] = deque()

    def put(self, item: Item) -> None:
        self.count += 1
        if not self.loses(self.count):
            self._under_way.extend([item] * self.copies)

    def take(self) -> list[Item]:
        if self.held:
            return []
        found = list(self._under_way)
        self._under_way.clear()
        return found

    def cut(self) -> None:
        """What is under way is gone."""
        self._under_way.clear()


def matches(pattern: str, topic: str) -> bool:
    """An MQTT filter."""
    parts, names = pattern.split("/"), topic.split("/")
    if parts[-1] == "#":
        parts, names = parts[:-1], names[: len(parts) - 1]
    return len(parts) == len(names) and all(p in ("+", n) for p, n in zip(parts, names, strict=True))

"""How commands to robots went out, in words: what became of each, how often it was tried, when and over which link."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from fleet.models import Command, CommandState, Delivery
from fleet.wording import Said

SHOWN = 20  # the newest of a mission or robot

NOT_SENT = Said("○", "Waits for the robot's link", "ok")
UNANSWERED = Said("◌", "Sent, not acknowledged", "info")
SETTLED: dict[str, Said] = {
    CommandState.DELIVERED: Said("●", "Delivered", "ok"),
    CommandState.WITHDRAWN: Said("╳", "Withdrawn", "off"),
    CommandState.DEAD: Said("△", "Dead letter", "warn"),
}


class Sent(NamedTuple):
    """One command and how it went. `delivery` is absent before its first try."""

    command: Command
    said: Said
    delivery: Delivery | None


def newest(commands: QuerySet[Command]) -> list[Sent]:
    """The newest of these, newest first. One query."""
    return [_sent(command) for command in commands.select_related("delivery").order_by("-order")[:SHOWN]]


def _sent(command: Any) -> Sent:
    delivery = getattr(command, "delivery", None)
    said = SETTLED.get(command.state) or (UNANSWERED if command.sent_at else NOT_SENT)
    return Sent(command, said, delivery)


def key(sent: Iterable[Sent]) -> list[tuple[str, int, datetime | None, str]]:
    """What changes when what the table says changes."""
    return [
        (s.said.word, s.delivery.tries, s.delivery.last_at, s.delivery.error) if s.delivery else (s.said.word, 0, None, "")
        for s in sent
    ]  # fmt: skip

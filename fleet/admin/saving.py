"""Saving a form: once, however often it is clicked, and not over what somebody else has saved meanwhile."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpRequest

from fleet.admin import once, seen
from fleet.models import Event


def add(request: HttpRequest, write: Callable[[], Any]) -> tuple[Any, Event | None]:
    """What `write` returns; or, of a click that was carried out before, None and the first event that came of it."""

    def together() -> Any:
        with transaction.atomic():
            return write()

    return once.carry_out(request, together)


def change(
    request: HttpRequest, row: Any, sent: Any, anew: Callable[[], Any], write: Callable[[], Any]
) -> tuple[Any, Event | None]:
    """The same for a row that is there. `sent`: the form; `anew` makes the same one of the row as it is by then."""

    def alone() -> Any:
        once.alone(f"{row._meta.label} {row.pk}")
        seen.check(request, sent, anew())
        return write()

    return add(request, alone)

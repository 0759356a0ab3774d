"""Five clicks, one thing: each page that makes something carries a random key, and the same wish is carried out once.

A wish is the key together with all that was filled in. Whoever goes back, changes something and sends it again wishes
for something else, and gets it. What came of a wish is found by its events: it is their cause.
"""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.db import connection, transaction
from django.http import HttpRequest
from django.utils import timezone

from fleet import logs
from fleet.history import cause_of
from fleet.models import Event

NAME = "once"  # of the hidden input, templates/admin/drover/_once.html
MAX_KEY = 64
REMEMBERED = timedelta(days=1)  # longer than anybody is signed in
_BUTTONS = {"csrfmiddlewaretoken", "_save", "_run"}  # which button it was makes no other wish


def key_of(request: HttpRequest) -> str:
    """What names the wish; empty when the page carried no key."""
    key = request.POST.get(NAME, "")
    if not key or len(key) > MAX_KEY or not key.isalnum():
        return ""
    said = sorted((name, values) for name, values in request.POST.lists() if name not in _BUTTONS)
    said += sorted((name, [_content(file)]) for name, file in request.FILES.items())
    return f"{key} {request.path} {hashlib.sha256(repr(said).encode()).hexdigest()}"


def _content(file: Any) -> str:
    found = hashlib.sha256()
    for chunk in file.chunks():
        found.update(chunk)
    file.seek(0)
    return found.hexdigest()


def carry_out(request: HttpRequest, wanted: Callable[[], Any]) -> tuple[Any, Event | None]:
    """What `wanted` returns; or, of a wish that was carried out before, None and the first event that came of it.

    Clicks of one moment wait for the first: all is one transaction, with what the session shows once.
    """
    wish = _wish(request)
    if not wish:
        return wanted(), None
    here = logs.about()
    with transaction.atomic(), logs.working_on(here.get("trace_id", ""), **{**_rest(here), logs.WISH: wish}):
        alone(wish)
        if (before := came_of(request)) is not None:
            return None, before
        done = wanted()
        if request.session.modified:
            request.session.save()
    return done, None


def alone(name: str) -> None:
    """Until the transaction ends nobody else passes here with the same name."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def say_again(request: HttpRequest, done: str = "drawn it up already") -> None:
    messages.info(request, f"Your first click has {done}: this is it.")


def _rest(here: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in here.items() if name != "trace_id"}


def _wish(request: HttpRequest) -> str:
    """The key as events carry it; empty when there is none."""
    key = key_of(request)
    return hashlib.sha256(f"{request.user.pk} {key}".encode()).hexdigest()[:32] if key else ""  # type: ignore[union-attr]


def came_of(request: HttpRequest) -> Event | None:
    """The first event of this wish, if it was carried out before."""
    wish = _wish(request)
    if not wish:
        return None
    by, since = str(request.user.pk), timezone.now() - REMEMBERED  # type: ignore[union-attr]
    theirs = Event.objects.filter(actor_kind="user", actor_id=by, recorded_at__gte=since)
    return theirs.filter(cause=cause_of(wish)).order_by("id").first()

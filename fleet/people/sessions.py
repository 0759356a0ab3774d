"""Who is signed in where: a record per session, which its owner and the admins see and can end."""

import ipaddress
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

from fleet.history import Origin
from fleet.models import SessionRecord
from fleet.people.actions import tell
from fleet.wording import ago

SEEN_EVERY_S = 60.0  # the record says when it was last seen, to the minute
KNOWN_MAX = 10_000
_noted: dict[str, float] = {}  # session key → when this process wrote it last, by its own clock


def address_of(request: HttpRequest) -> str:
    """The client's address."""
    return client_address(request.META.get("HTTP_X_FORWARDED_FOR", ""), request.META.get("REMOTE_ADDR", ""))


def client_address(forwarded: str, peer: str) -> str:
    """From X-Forwarded-For and the connection; behind `settings.PROXIES` proxies, as the outermost of ours has seen it."""
    hops = [hop.strip() for hop in forwarded.split(",") if hop.strip()]
    proxies = settings.PROXIES
    found = hops[-proxies] if proxies and len(hops) >= proxies else peer
    try:
        return str(ipaddress.ip_address(found))
    except ValueError:
        return ""


def address_or_none(request: HttpRequest) -> str | None:
    """As django-axes wants it."""
    return address_of(request) or None


def device_of(request: HttpRequest) -> str:
    return str(request.META.get("HTTP_USER_AGENT", "")).replace("\x00", "")[:300]


def note(request: HttpRequest, user: User) -> None:
    """Remember that this session was seen; at most once a minute and process."""
    key, now = request.session.session_key, time.monotonic()
    if not key or now - _noted.get(key, -SEEN_EVERY_S) < SEEN_EVERY_S:
        return
    if len(_noted) >= KNOWN_MAX:
        _noted.clear()
    _noted[key] = now
    at = timezone.now()
    what = {"user_id": user.pk, "address": address_of(request), "last_seen_at": at}
    if not SessionRecord.objects.filter(key=key).update(**what):
        SessionRecord.objects.get_or_create(key=key, defaults={**what, "device": device_of(request), "created_at": at})


@sync_and_async_middleware
def seen(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: notes the session of whoever was asked for. Requests with tokens cost nothing here."""

    def after(request: HttpRequest) -> None:
        user = getattr(request, "_cached_user", None)
        if user is not None and user.is_authenticated:
            with suppress(DatabaseError):  # what was asked for is done
                note(request, user)

    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> Any:
            response = await get_response(request)
            if getattr(request, "_cached_user", None) is not None:
                await sync_to_async(after)(request)
            return response

        return middleware

    def plain(request: HttpRequest) -> Any:
        response = get_response(request)
        after(request)
        return response

    return plain


def sessions_of(user: User) -> QuerySet[SessionRecord]:
    """Those that still open the door, the last seen first."""
    alive = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    return SessionRecord.objects.filter(user=user, key__in=alive)


def in_words(user: User, mine: str | None, now: datetime) -> list[dict[str, Any]]:
    """What a page says of each session that is open. `mine`: the key of the one that asks."""
    return [
        {
            "pk": r.pk, "device": device_in_words(r.device), "agent": r.device, "address": r.address or "–",
            "since": ago(r.created_at, now), "seen": ago(r.last_seen_at, now), "mine": r.key == mine,
        }
        for r in sessions_of(user)
    ]  # fmt: skip


def end_sessions(records: QuerySet[SessionRecord], *, by: Origin) -> int:
    """Sign these out, now: pages and sockets. How many there were."""
    with transaction.atomic():
        found = list(records.select_related("user"))
        for record in found:
            for gone in Session.objects.filter(pk=record.key):
                gone.delete()  # one by one: open pages are told by signal
            tell(
                record.user,
                "person.session_revoked",
                by=by,
                address=record.address,
                device=device_in_words(record.device),
            )
            record.delete()
    return len(found)


BROWSERS = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl", "python")  # the more special first
SYSTEMS = (("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("Mac OS", "macOS"),
           ("CrOS", "ChromeOS"), ("Linux", "Linux"))  # fmt: skip
NAMES = {"Edg": "Edge", "OPR": "Opera", "curl": "curl", "python": "a Python program"}


def device_in_words(agent: str) -> str:
    """`Firefox on Windows`: what a person needs to know a device again."""
    browser = next((NAMES.get(name, name) for name in BROWSERS if name in agent), "")
    system = next((name for part, name in SYSTEMS if part in agent), "")
    return " on ".join(part for part in (browser, system) if part) or agent[:60] or "an unknown device"

"""API tokens: a program acts for a person, with no more than that person's rights and within the token's scopes."""

import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from fleet.columns import kept_time
from fleet.commit import commit, load
from fleet.history import AGGREGATES, Change, Origin, asked_by
from fleet.models import ApiToken
from fleet.refusals import Refused
from fleet.robots.credentials import digest_of

# scope → what it says to people, and which permissions of its person it lets through
SCOPES: dict[str, tuple[str, frozenset[str]]] = {
    "missions:read": ("See missions", frozenset({"missions.view_mission"})),
    "missions:write": (
        "Draw up, run, pause and cancel missions",
        frozenset(f"missions.{verb}_mission" for verb in ("add", "change", "dispatch", "cancel", "pause", "resume")),
    ),
    "robots:read": (
        "See sites, places and robots",
        frozenset(f"fleet.view_{model}" for model in ("site", "place", "robot")),
    ),
    "robots:stop": ("Stop robots", frozenset({"fleet.stop_robot"})),
    "robots:release": ("Release stopped robots", frozenset({"fleet.release_robot"})),
}
USED_EVERY = timedelta(minutes=1)


def issue_token(
    user: User, *, label: str, scopes: Collection[str], by: Origin, expires_at: datetime | None = None
) -> str:
    """A new token of this person, shown this once: only its digest is kept."""
    label = label.strip()
    if not 1 <= len(label) <= 200 or "\x00" in label:
        raise Refused("label: Say in 1 to 200 characters what will use it.")
    if not scopes or set(scopes) - SCOPES.keys():
        raise Refused(f"scopes: Choose at least one of {', '.join(SCOPES)}.")
    now = timezone.now()
    if expires_at is not None and expires_at <= now:
        raise Refused("expires_at: Choose a time that is still to come.")
    if expires_at is not None:
        kept_time("expires_at", expires_at)
    token = f"drover_api_{secrets.token_urlsafe(32)}"
    with transaction.atomic():
        change = _person(user.pk, by, now)
        number, ordered = change.row.version + 1, sorted(scopes)
        change.record(
            "person.token_issued",
            tokens=[
                {"number": number, "label": label, "scopes": ordered, "issued_at": now, "expires_at": expires_at}
            ],
            label=label, may=", ".join(ordered),
        )  # fmt: skip
        change.children["tokens"][number].digest = digest_of(token)  # a secret stays out of the history
        commit([change], now=now)
    return token


def revoke_token(user_id: int, number: int, *, by: Origin) -> bool:
    """Worth nothing from now on. False when there was nothing to revoke."""
    now = timezone.now()
    with transaction.atomic():
        change = _person(user_id, by, now)
        token = change.children["tokens"].get(number)
        if token is None or token.revoked_at:
            return False
        change.record("person.token_revoked", tokens=[{"number": number, "revoked_at": now}], label=token.label)
        commit([change], now=now)
    return True


def token_of(secret: str, now: datetime) -> ApiToken | None:
    """The valid token, with its person and user, that this text belongs to."""
    found = (
        ApiToken.objects.filter(digest=digest_of(secret), revoked_at=None, person__user__is_active=True)
        .exclude(expires_at__lte=now)
        .select_related("person__user")
        .first()
    )
    if found and (found.last_used_at is None or now - found.last_used_at >= USED_EVERY):
        ApiToken.objects.filter(pk=found.pk).update(last_used_at=now)
    return found


def allows(token: ApiToken, permission: str) -> bool:
    """Whether one of the token's scopes lets the permission through; the person must have it too."""
    return any(permission in SCOPES[scope][1] for scope in token.scopes if scope in SCOPES)


def by_token(token: ApiToken) -> Origin:
    """The origin of what a program asks for: the token, and the person that it acts for."""
    return asked_by("api", f"{token.person_id}/{token.number}", f"{token.label} for {token.person}")


def _person(user_id: int, by: Origin, now: datetime) -> Change:
    change: Any = load(AGGREGATES["person"], [user_id]).get(user_id)
    if change is None:
        raise Refused("This person has no role yet. Give a role and sites first.")
    change.origin, change.now = by, now
    return change  # type: ignore[no-any-return]

"""Who may look at the live page, and at what of it: asked when a socket opens, and again and again while it is open."""

from types import SimpleNamespace
from typing import Any, NamedTuple

from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore

from fleet.people.access import sites_of
from telemetry.live.fragments import EVERYWHERE, View

VIEW = ("fleet.view_robot", "missions.view_mission")
SIGNED_OUT = 4401
NOT_ALLOWED = 4403


class Verdict(NamedTuple):
    """`refusal` is the close code for somebody who may not look, 0 for who may look at `sites`."""

    refusal: int
    sites: frozenset[int] | None


def user_of(session_key: str) -> Any:
    """The user of a session as it is in the database now; anonymous when it has ended."""
    return get_user(SimpleNamespace(session=SessionStore(session_key)))  # type: ignore[arg-type]


def verdict(user: Any) -> Verdict:
    code = refusal(user)
    return Verdict(code, frozenset() if code else sites_of(user))


def refusal(user: Any) -> int:
    """The close code for somebody who may not look; 0 for who may."""
    if not user.is_authenticated or not user.is_active:
        return SIGNED_OUT
    return 0 if user.has_perms(VIEW) and sites_of(user) != frozenset() else NOT_ALLOWED


def view(sites: frozenset[int] | None, asked: int | None) -> View:
    """What is shown to a person of these sites who asked for one of them, or for all."""
    if asked is None:
        return sites
    return frozenset({asked}) if sites is EVERYWHERE or asked in sites else frozenset()

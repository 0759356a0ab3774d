"""Who may look at the live page: asked when a socket opens, and again and again while it is open."""

from types import SimpleNamespace
from typing import Any

from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore

VIEW = ("fleet.view_robot", "missions.view_mission")
SIGNED_OUT = 4401
NOT_ALLOWED = 4403


def user_of(session_key: str) -> Any:
    """The user of a session as it is in the database now; anonymous when it has ended."""
    return get_user(SimpleNamespace(session=SessionStore(session_key)))  # type: ignore[arg-type]


def refusal(user: Any) -> int:
    """The close code for somebody who may not look; 0 for who may."""
    if not user.is_authenticated or not user.is_active:
        return SIGNED_OUT
    return 0 if user.has_perms(VIEW) else NOT_ALLOWED

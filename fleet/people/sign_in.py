"""Signing in and out as events, and what is said to whoever has guessed too often (django-axes counts)."""

from datetime import timedelta
from math import ceil
from typing import Any

from axes.helpers import get_cool_off
from axes.models import AccessAttempt
from axes.signals import user_locked_out
from axes.utils import reset
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from fleet.history import Origin, by_user
from fleet.models import Event
from fleet.people.actions import tell
from fleet.people.sessions import address_of, device_in_words, device_of, note

FAILED_EVERY = timedelta(minutes=1)  # a guesser writes one event a minute into somebody's history, not thousands


class SignInForm(AuthenticationForm):
    """Django's, which does not itself keep to the length of a user name; what counts wrong guesses cannot store a longer one."""

    def clean_username(self) -> str:
        name = str(self.cleaned_data["username"])
        if len(name) > User._meta.get_field("username").max_length:  # type: ignore[operator]
            raise self.get_invalid_login_error()
        return name


def locked_out(request: HttpRequest, *_: Any) -> HttpResponse:
    """The answer instead of a sign-in: why, and when to try again."""
    username = request.POST.get("username", "")
    last = AccessAttempt.objects.filter(username=username, ip_address=address_of(request) or None).first()
    until = (last.attempt_time if last else timezone.now()) + get_cool_off(request)
    minutes = max(1, ceil((until - timezone.now()).total_seconds() / 60))
    answer = render(request, "locked.html", {"minutes": minutes, "until": until, "username": username}, status=429)
    answer["Retry-After"] = str(60 * minutes)
    answer["Cache-Control"] = "no-store"
    return answer


def is_locked(user: User) -> bool:
    """Whether somebody has guessed at this account too often, from any address, and has to wait."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    tries = AccessAttempt.objects.filter(username=user.get_username(), attempt_time__gt=since)
    return tries.filter(failures_since_start__gte=settings.AXES_FAILURE_LIMIT).exists()


def unlock(user: User, *, by: Origin) -> None:
    """Forget the wrong passwords."""
    if reset(username=user.get_username()):
        tell(user, "person.unlocked", by=by)


def _signed_in(*, request: HttpRequest, user: User, **_: Any) -> None:
    if not request.session.session_key:
        request.session.save()  # its key is given out only now
    note(request, user)
    address, device = address_of(request), device_in_words(device_of(request))
    tell(user, "person.signed_in", by=by_user(user), address=address or "an unknown address", device=device)


def _signed_out(*, user: User | None, **_: Any) -> None:
    if user is not None:
        tell(user, "person.signed_out", by=by_user(user))


def _failed(*, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    _guessed(credentials.get("username"), request, "person.sign_in_failed")


def _locked(*, request: HttpRequest, username: str | None = None, **_: Any) -> None:
    _guessed(username, request, "person.locked_out")


def _guessed(username: str | None, request: HttpRequest | None, kind: str) -> None:
    user = User.objects.filter(username=username).first() if username and "\x00" not in username else None
    if user is None:
        return  # nobody's history; axes has counted it
    since = timezone.now() - FAILED_EVERY
    if Event.objects.filter(aggregate=f"person:{user.pk}", kind=kind, recorded_at__gt=since).exists():
        return
    address = address_of(request) if request else ""
    tell(user, kind, by=Origin("system", actor_name="Sign-in"), address=address or "an unknown address")


def connect() -> None:
    for signal, receiver in (
        (user_logged_in, _signed_in),
        (user_logged_out, _signed_out),
        (user_login_failed, _failed),
        (user_locked_out, _locked),
    ):
        signal.connect(receiver, dispatch_uid=f"fleet.people.sign_in.{receiver.__name__}")

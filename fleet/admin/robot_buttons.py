"""What the buttons of a robot's page do: each reads its few words from the POST and calls one action."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from fleet.history import by_user
from fleet.models import Robot
from fleet.refusals import Refused, named
from fleet.robots import actions, credentials, stopping

SHIFT_BEGINS_H = 6  # UTC: when robots that are out "until Monday" are wanted again


def stop(request: HttpRequest, robot: Robot) -> str:
    stopping.stop_robot(robot.pk, by=by_user(request.user), why=request.POST.get("reason", ""))
    return f"Stopping {robot.pk}… It stays on hold until someone releases it."


def release(request: HttpRequest, robot: Robot) -> str:
    if stopping.release_robot(robot.pk, number=number(request), by=by_user(request.user)):
        return f"Released: {robot.pk} may move again."
    return f"There was no such hold on {robot.pk}: somebody released it before."


def maintain(request: HttpRequest, robot: Robot) -> str:
    until = _until(request.POST.get("until", ""), request.POST.get("at", ""), timezone.now())
    try:
        actions.set_maintenance(robot.pk, why=request.POST.get("reason", ""), until=until, by=by_user(request.user))
    except Refused as refused:
        raise Refused(named(refused)[1]) from refused
    ends = f"until {until:%A %d %B, %H:%M} UTC" if until else "until someone releases it"
    return f"{robot.pk} is in maintenance {ends}. It gets no new work; what it is at goes on."


def retire(request: HttpRequest, robot: Robot) -> str:
    actions.retire_robot(robot.pk, by=by_user(request.user))
    return f"{robot.pk} is retired. Its history stays."


def reinstate(request: HttpRequest, robot: Robot) -> str:
    actions.reinstate_robot(robot.pk, by=by_user(request.user))
    return f"{robot.pk} is back in service."


def revoke(request: HttpRequest, robot: Robot) -> str:
    chosen = number(request)
    if chosen is None:
        raise Refused("Say which credential: use the button beside it.")
    credentials.revoke_credential(robot.pk, chosen, by=by_user(request.user))
    return f"Credential {chosen} of {robot.pk} is revoked: it opens no link any more."


def number(request: HttpRequest) -> int | None:
    """Of a hold or a credential."""
    text = request.POST.get("number", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused("That is no number of a hold or credential.")
    return int(text)


class End(NamedTuple):
    """A choice of when maintenance ends. `at` is empty for "until somebody releases it" and for a moment of one's own."""

    value: str
    label: str
    at: datetime | None = None


def ends(now: datetime) -> list[End]:
    """What is offered, in this order; the first is the usual one."""
    tomorrow = _morning(now, 1)
    monday = _morning(now, 7 - now.weekday())
    found = [End("tomorrow", f"Tomorrow, {tomorrow:%A} {tomorrow:%H:%M} UTC", tomorrow)]
    if monday != tomorrow:
        found.append(End("monday", f"Monday, {monday:%d %B} {monday:%H:%M} UTC", monday))
    else:
        found[0] = End("monday", f"Tomorrow, Monday {monday:%H:%M} UTC", monday)
    return [*found, End("hours", "In 4 hours", now + timedelta(hours=4)), End("", "Until someone releases it")]


def _morning(now: datetime, days: int) -> datetime:
    return (now + timedelta(days=days)).replace(hour=SHIFT_BEGINS_H, minute=0, second=0, microsecond=0)


def _until(choice: str, at: str, now: datetime) -> datetime | None:
    if choice != "at":
        known = {end.value: end.at for end in ends(now)}
        if choice not in known:
            raise Refused("Say until when: choose one of the moments offered, then repeat.")
        return known[choice]
    try:
        said = parse_datetime(at)
    except ValueError:
        said = None
    if said is None:
        raise Refused("Say until when: a day and a time, in UTC.")
    return said if said.tzinfo else said.replace(tzinfo=UTC)

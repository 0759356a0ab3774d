"""What people and programs can do with robots. Each verb is one transaction; a refusal is a sentence for people."""

import hashlib
import json
import re
import secrets
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Q
from django.utils import timezone
from psycopg.errors import LockNotAvailable

from fleet.commit import Conflict, commit, load, new
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import ROBOT_ID, Brand, Command, CommandState, Event, Robot, RobotCredential, Site
from fleet.refusals import Refused as Refused
from fleet.robots import addresses
from fleet.robots import decide as rules
from fleet.robots.commands import command

MAX_REASON = 500  # characters
LONGEST_HOLD = timedelta(days=366)
FIRST_TIME, END_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)  # of what people may say
AT_ONCE = 25  # robots in one transaction
WAIT_MS = 50  # for a row that somebody holds, before the next one has its turn
GIVE_UP_S = 5.0


def enrol_robot(
    *,
    id: str,
    name: str,
    site: Site | int,
    brand: Brand | int,
    address: str = "",
    profile: dict[str, Any] | None = None,
    by: Origin,
) -> Robot:
    """Make a robot known. `profile`: settings of its driver in which it is not as its brand."""
    if not re.fullmatch(ROBOT_ID, id):
        raise Refused("A robot id has 1 to 64 letters, digits, dots, dashes or underscores.")
    change = new(AGGREGATES["robot"], id)
    try:
        with transaction.atomic():
            addresses.alone()
            address, profile = addresses.checked(id, _brand(brand), address, profile or {})
            fact = rules.Enrol(_text(name or id), _pk(site), _pk(brand), address, profile)
            _tell(change, fact, by, timezone.now())
    except IntegrityError as error:  # its history begins with event 1, and that is there already
        if not Robot.objects.filter(pk=id).exists():
            raise
        raise Refused(f"{id} is already enrolled. Choose another id, or edit that robot.") from error
    return change.row  # type: ignore[no-any-return]


def edit_robot(
    robot_id: str,
    *,
    name: str,
    site: Site | int,
    brand: Brand | int,
    address: str | None = None,
    profile: dict[str, Any] | None = None,
    by: Origin,
) -> None:
    """Change name, site, brand, address, or settings. None: as it is, as far as the brand knows such a thing."""
    new: dict[str, Any] = {"name": _text(name), "site_id": _pk(site), "brand_id": _pk(brand)}

    def fact(change: Change) -> rules.Edit:
        row, told = change.row, dict(new)
        other = row.brand_id != told["brand_id"]
        addresses.alone()
        of = _brand(new["brand_id"])
        keeps = address is not None or not other or addresses.has_any(of)
        told["address"], told["profile"] = addresses.checked(
            row.pk, of, (row.address if address is None else address) if keeps else "",
            (({} if other else row.profile) if profile is None else profile),
        )  # fmt: skip
        return rules.Edit(told, _edited(row, told))

    _change(robot_id, fact, by)


def _edited(row: Any, new: dict[str, Any]) -> dict[str, str]:
    """Column → what becomes of it, in words."""
    site, brand = Site.objects.filter(pk=new["site_id"]).first(), Brand.objects.filter(pk=new["brand_id"]).first()
    return {
        "name": f"name {row.name} → {new['name']}",
        "site_id": f"site {row.site} → {site}",
        "brand_id": f"brand {row.brand} → {brand}",
        "address": f"address {row.address or 'none'} → {new['address'] or 'none'}",
        "profile": "settings of its driver",
    }


def set_maintenance(robot_id: str, *, why: str, until: datetime | None = None, by: Origin) -> None:
    """Out of service: no new work until a person releases it, or until `until`. Again: the new reason and end count."""
    now, why = timezone.now(), accepted_text(why)
    if not why:
        raise Refused("why: Say why, for whoever wonders on Monday.")
    if until is not None and not now < until <= now + LONGEST_HOLD:
        raise Refused("until: Choose a moment in the future, within a year.")

    def fact(change: Change) -> rules.HoldBack:
        if change.row.retired_at:
            raise Refused(f"{robot_id} is retired already.")
        return rules.HoldBack("maintenance", by.actor_name, why, until)

    _change(robot_id, fact, by)


def retire_robot(robot_id: str, *, by: Origin) -> None:
    """Take a robot out of the fleet; its history stays and its tokens are worth nothing."""
    with transaction.atomic():
        _change(robot_id, rules.Retire(), by)
        if Robot(pk=robot_id).missions.filter(dispatched_at__isnull=False, ended_at=None).exists():
            raise Refused(f"{robot_id} has a mission. Cancel it or let it finish first.")


def reinstate_robot(robot_id: str, *, by: Origin) -> None:
    """Bring a retired robot back."""

    def fact(change: Change) -> rules.Reinstate:
        addresses.check_again(change)
        return rules.Reinstate()

    _change(robot_id, fact, by)


def stop_robots(robot_ids: Iterable[str], *, by: Origin, why: str = "") -> dict[str, str]:
    """Stop now and hold until released (I13): per robot `stopping`, or why not, in words. Idempotent, never versioned.

    Robots whose row somebody holds (the worker does, much of the time) keep none of the others waiting.
    """
    fact = rules.HoldBack("stopped", by.actor_name, accepted_text(why))
    return _each(robot_ids, lambda change: fact, by, "stopping", busy=lambda robots: _send_ahead(robots, fact.why, by))


def stop_site(site_id: int, *, by: Origin, why: str = "") -> dict[str, str]:
    """Stop every robot of the site that is in service."""
    return stop_robots(_in_service(site_id), by=by, why=why)


def stop_robot(robot_id: str, *, by: Origin, why: str = "") -> None:
    """Stop one. Never refused for a known robot."""
    said = stop_robots([robot_id], by=by, why=why)[robot_id]
    if said != "stopping":
        raise Refused(said)


def explain_stops(robot_ids: Iterable[str], *, why: str, by: Origin) -> dict[str, str]:
    """Say afterwards why these are stopped: per robot `explained`, `nothing to explain`, or why not."""
    fact = rules.Explain(by.actor_name, accepted_text(why))
    return _each(robot_ids, lambda change: fact, by, "explained", "nothing to explain")


def release_robots(robot_ids: Iterable[str], *, by: Origin) -> dict[str, str]:
    """Release the open stops of these: per robot `released`, `not stopped`, or why not."""
    return _each(robot_ids, lambda change: _release(change, by), by, "released", "not stopped")


def release_robot(robot_id: str, *, by: Origin, number: int | None = None) -> bool:
    """Release one hold by number, or every open stop. False when there was nothing to release."""
    return _change(robot_id, lambda change: _release(change, by, number), by) is rules.Verdict.APPLIED


def issue_credential(robot_id: str, *, label: str = "", by: Origin, once: bool = False) -> str:
    """A new bearer token, shown this once: only its digest is kept. `once`: refused when `by.cause` has issued one."""
    token = f"drover_{secrets.token_urlsafe(32)}"
    fact = rules.IssueCredential(_text(label), digest_of(token))

    def checked(change: Change) -> rules.IssueCredential:
        """The robot's row is locked: a form that is sent twice, even at once, issues one."""
        same = Event.objects.filter(aggregate=change.name, kind="robot.credential_issued", cause=by.cause)
        if once and same.exists():
            raise Refused("This token was issued and shown already. Issue another, and revoke the one that is lost.")
        return fact

    _change(robot_id, checked, by)
    return token


def revoke_credential(robot_id: str, number: int, *, by: Origin) -> None:
    """The token is worth nothing from now on; open links of the robot that used it are closed."""
    _change(robot_id, rules.RevokeCredential(number), by)


def digest_of(token: str) -> str:
    """SHA-256 of a token, in hex. A token has 256 random bits, so a plain hash suffices."""
    return hashlib.sha256(token.encode()).hexdigest()


def credential_of_token(token: str) -> RobotCredential | None:
    """The valid credential that this token belongs to, if its robot is in service."""
    return (
        RobotCredential.objects.filter(digest=digest_of(token), revoked_at=None, robot__retired_at=None)
        .select_related("robot")
        .first()
    )


def robot_of_token(token: str) -> str | None:
    """The id of the robot that may use this token."""
    credential = credential_of_token(token)
    return credential.robot_id if credential else None


def accepted_text(reason: str) -> str:
    """A reason that can always be kept: stop and cancel must not fail for the words that come with them (I13)."""
    return reason.replace("\x00", "").encode(errors="replace").decode().strip()[:MAX_REASON]


def _release(change: Change, by: Origin, number: int | None = None) -> rules.Release:
    """With what only the commands tell: a stop that is not sent yet, and cannot be while we hold its row."""
    unconfirmed = [h.since for h in change.children["holds"].values() if h.kind == "stopped" and not h.confirmed_at]
    unsent = False
    if unconfirmed:
        stops = Command.objects.filter(robot=change.row.pk, kind="robot.stop", created_at__gte=min(unconfirmed))
        sent = [command.sent_at for command in stops.select_for_update()]
        unsent = bool(sent) and not any(sent)
    return rules.Release(by.actor_name, number, unsent)


def _change(robot_id: str, fact: Any, by: Origin) -> rules.Verdict:
    """`fact`, or a function that makes it of the locked row."""
    now = timezone.now()
    with transaction.atomic():
        # credentials are few and a revoke must find the one it names
        found = load(AGGREGATES["robot"], [robot_id], children={"credentials": Q()})
        if robot_id not in found:
            raise Refused(f"There is no robot {robot_id!r}.")
        return _tell(found[robot_id], fact(found[robot_id]) if callable(fact) else fact, by, now)


def _tell(change: Change, fact: Any, by: Origin, now: datetime) -> rules.Verdict:
    change.origin = by
    verdict = rules.decide(change, fact, now)
    commit([change], now=now)
    return verdict


def _each(
    robot_ids: Iterable[str],
    fact: Callable[[Change], Any],
    by: Origin,
    done: str,
    not_so: str = "nothing to do",
    *,
    busy: Callable[[list[str]], None] = lambda robots: None,
) -> dict[str, str]:
    """The same for many: those whose rows are free at once, the rest one by one as they become free.

    `busy` is told which ones have to wait.
    """
    said = dict.fromkeys(robot_ids, "")
    words = {rules.Verdict.APPLIED: done}
    free = list(said)
    for start in range(0, len(free), AT_ONCE):
        told = _together(free[start : start + AT_ONCE], fact, by)
        said |= {robot: words.get(verdict, not_so) for robot, verdict in told.items()}
    if waiting := [robot for robot, word in said.items() if not word]:
        busy(waiting)
    ends = time.monotonic() + GIVE_UP_S
    while waiting := [robot for robot, word in said.items() if not word]:
        for robot in waiting:
            try:
                with transaction.atomic():
                    with connection.cursor() as cursor:
                        wait_ms = WAIT_MS if len(waiting) > 1 else int(GIVE_UP_S * 1000)
                        cursor.execute("SELECT set_config('lock_timeout', %s, TRUE)", [f"{wait_ms}ms"])
                    said[robot] = words.get(_change(robot, fact, by), not_so)
            except Refused as refused:
                said[robot] = str(refused)
            except (Conflict, IntegrityError, OperationalError) as error:
                if isinstance(error, OperationalError) and not isinstance(error.__cause__, LockNotAvailable):
                    raise
                if time.monotonic() > ends:
                    said[robot] = f"Not done: something else keeps {robot} busy. Do it again."
    return said


def _together(robot_ids: list[str], fact: Callable[[Change], Any], by: Origin) -> dict[str, rules.Verdict]:
    """One transaction for those whose rows nobody holds. Nothing is done when one of them cannot be written."""
    now = timezone.now()
    try:
        with transaction.atomic():
            found = load(AGGREGATES["robot"], robot_ids, skip_locked=True)
            verdicts = {}
            for robot, change in found.items():
                change.origin = by
                verdicts[robot] = rules.decide(change, fact(change), now)
            commit(found.values(), now=now)
    except (Conflict, IntegrityError):
        return {}
    return verdicts


def _send_ahead(robot_ids: list[str], why: str, by: Origin) -> None:
    """Stop commands for robots whose rows somebody holds: the robot need not wait until that is written (I13).

    The hold follows in a moment, with a stop of its own. Should this process end before, the worker opens it when the
    robot acknowledges (telemetry/translate.py).
    """
    now, robot = timezone.now(), AGGREGATES["robot"]
    known = Robot.objects.filter(pk__in=robot_ids).values_list("pk", flat=True)
    with transaction.atomic():
        changes = [Change(robot, Robot(pk=pk), {}, by, now) for pk in known]
        for change in changes:
            stop = command(change, "robot.stop", change.row.pk, data={"why": why}, msg_id=uuid.uuid4())
            stop.asker = json.dumps({"actor_kind": by.actor_kind, "actor_id": by.actor_id, "actor_name": by.actor_name,
                                     "cause": by.cause, "trace_id": by.trace_id})  # fmt: skip
            change.commands.append(stop)
        late = Command.objects.filter(robot__in=known, kind="robot.release", state=CommandState.OPEN)
        free = late.select_for_update(skip_locked=True).values_list("pk", flat=True)
        Command.objects.filter(pk__in=list(free)).update(state=CommandState.WITHDRAWN)
        commit(changes, now=now)


def _in_service(site_id: int) -> list[str]:
    return list(Robot.objects.filter(site=site_id, retired_at=None).values_list("pk", flat=True))


def _brand(brand: Brand | int) -> Brand:
    found = brand if isinstance(brand, Brand) else Brand.objects.filter(pk=brand).first()
    if found is None:
        raise Refused(f"brand: There is no brand {brand}. Choose one of the list.")
    return found


def _pk(thing: Any) -> int:
    return int(getattr(thing, "pk", thing))


def _text(text: str) -> str:
    if "\x00" in text:
        raise Refused("Text must not contain the NUL character.")
    if not storable(text):
        raise Refused("Text must be valid Unicode.")
    return text


def storable(text: str) -> bool:
    """Whether it can be written in UTF-8: half a surrogate pair, which JSON can spell, cannot."""
    return text.isascii() or text.encode(errors="replace").decode() == text


def kept_time(name: str, at: datetime) -> None:
    """Refuse a time that PostgreSQL keeps and Python cannot read back, in UTC: such a row breaks each list that it is in."""
    if not FIRST_TIME <= at < END_OF_TIME:
        raise Refused(f"{name}: Choose a time from {FIRST_TIME:%Y} to {END_OF_TIME.year - 1}.")

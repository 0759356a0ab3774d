"""What people and programs can do with robots. Each verb is one transaction; a refusal is a sentence for people."""

import hashlib
import re
import secrets
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from fleet import decide as rules
from fleet.commit import commit, load, new
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import ROBOT_ID, Brand, Robot, RobotCredential, Site

MAX_REASON = 500  # characters


class Refused(ValueError):
    """It cannot be done, and the text says why and what to do next."""


def enrol_robot(*, id: str, name: str, site: Site | int, brand: Brand | int, by: Origin) -> Robot:
    """Make a robot known."""
    if not re.fullmatch(ROBOT_ID, id):
        raise Refused("A robot id has 1 to 64 letters, digits, dots, dashes or underscores.")
    change = new(AGGREGATES["robot"], id)
    try:
        with transaction.atomic():
            _tell(change, rules.Enrol(_text(name or id), _pk(site), _pk(brand)), by, timezone.now())
    except IntegrityError as error:  # its history begins with event 1, and that is there already
        if not Robot.objects.filter(pk=id).exists():
            raise
        raise Refused(f"{id} is already enrolled. Choose another id, or edit that robot.") from error
    return change.row  # type: ignore[no-any-return]


def edit_robot(robot_id: str, *, name: str, site: Site | int, brand: Brand | int, by: Origin) -> None:
    """Change name, site or brand."""
    _change(robot_id, rules.Edit(_text(name), _pk(site), _pk(brand)), by)


def retire_robot(robot_id: str, *, by: Origin) -> None:
    """Take a robot out of the fleet; its history stays and its tokens are worth nothing."""
    with transaction.atomic():
        _change(robot_id, rules.Retire(), by)
        if Robot(pk=robot_id).missions.filter(dispatched_at__isnull=False, ended_at=None).exists():
            raise Refused(f"{robot_id} has a mission. Cancel it or let it finish first.")


def reinstate_robot(robot_id: str, *, by: Origin) -> None:
    """Bring a retired robot back."""
    _change(robot_id, rules.Reinstate(), by)


def stop_robot(robot_id: str, *, by: Origin, why: str = "") -> None:
    """Stop now and hold until released (I13). Idempotent, never refused for a known robot."""
    _change(robot_id, rules.HoldBack("stopped", by.actor_name, accepted_text(why)), by)


def release_robot(robot_id: str, *, by: Origin, number: int | None = None) -> bool:
    """Release one hold by number, or every open stop. False when there was nothing to release."""
    return _change(robot_id, rules.Release(by.actor_name, number), by) is rules.Verdict.APPLIED


def issue_credential(robot_id: str, *, label: str = "", by: Origin) -> str:
    """A new bearer token, shown this once: only its digest is kept."""
    token = f"drover_{secrets.token_urlsafe(32)}"
    _change(robot_id, rules.IssueCredential(_text(label), digest_of(token)), by)
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


def _change(robot_id: str, fact: Any, by: Origin) -> rules.Verdict:
    now = timezone.now()
    with transaction.atomic():
        # credentials are few and a revoke must find the one it names
        found = load(AGGREGATES["robot"], [robot_id], children={"credentials": Q()})
        if robot_id not in found:
            raise Refused(f"There is no robot {robot_id!r}.")
        return _tell(found[robot_id], fact, by, now)


def _tell(change: Change, fact: Any, by: Origin, now: datetime) -> rules.Verdict:
    change.origin = by
    verdict = rules.decide(change, fact, now)
    commit([change], now=now)
    return verdict


def _pk(thing: Any) -> int:
    return int(getattr(thing, "pk", thing))


def _text(text: str) -> str:
    if "\x00" in text:
        raise Refused("Text must not contain the NUL character.")
    return text

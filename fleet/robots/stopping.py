"""Stopping robots and letting them go again, one, many, or a whole site: never refused for a known robot (I13)."""

import json
import uuid
from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from fleet.columns import accepted_text
from fleet.commit import commit
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Command, CommandState, Robot
from fleet.refusals import Refused
from fleet.robots import facts
from fleet.robots.commands import command
from fleet.robots.telling import tell, tell_each
from fleet.verdict import Verdict

MANY, AHEAD = 100, 500  # robots: from which on they are told ahead of their holds, and so many in one transaction


def stop_robots(robot_ids: Iterable[str], *, by: Origin, why: str = "") -> dict[str, str]:
    """Stop now and hold until released (I13): per robot `stopping`, or why not, in words. Idempotent, never versioned.

    Robots whose row somebody holds (the worker does, much of the time) keep none of the others waiting. Nor do the holds
    of a hundred that come first: the rest are told before those are written.
    """
    fact = facts.HoldBack("stopped", by.actor_name, accepted_text(why))
    ids = list(dict.fromkeys(robot_ids))
    for start in range(MANY, len(ids), AHEAD):
        _send_ahead(ids[start : start + AHEAD], fact.why, by)
    return tell_each(ids, lambda change: fact, by, "stopping", busy=lambda robots: _send_ahead(robots, fact.why, by))


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
    fact = facts.Explain(by.actor_name, accepted_text(why))
    return tell_each(robot_ids, lambda change: fact, by, "explained", "nothing to explain")


def release_robots(robot_ids: Iterable[str], *, by: Origin) -> dict[str, str]:
    """Release the open stops of these: per robot `released`, `not stopped`, or why not."""
    return tell_each(robot_ids, lambda change: _release(change, by), by, "released", "not stopped")


def release_robot(robot_id: str, *, by: Origin, number: int | None = None) -> bool:
    """Release one hold by number, or every open stop. False when there was nothing to release."""
    return tell(robot_id, lambda change: _release(change, by, number), by) is Verdict.APPLIED


def _release(change: Change, by: Origin, number: int | None = None) -> facts.Release:
    """With what only the commands tell: a stop that is not sent yet, and cannot be while we hold its row."""
    unconfirmed = [h.since for h in change.children["holds"].values() if h.kind == "stopped" and not h.confirmed_at]
    unsent = False
    if unconfirmed:
        stops = Command.objects.filter(robot=change.row.pk, kind="robot.stop", created_at__gte=min(unconfirmed))
        sent = [command.sent_at for command in stops.select_for_update()]
        unsent = bool(sent) and not any(sent)
    return facts.Release(by.actor_name, number, unsent)


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

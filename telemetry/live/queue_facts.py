"""What the queue's rule needs to know of a robot and of a mission, from the rows of the live page."""

from fleet.models import Presence
from missions.queue.reasons import MissionFacts, RobotFacts
from missions.queue.standing import held_words
from telemetry.live.loading import MissionRow, RobotRow, Waits
from telemetry.live.words import short


def robot_facts(row: RobotRow, battery: float | None) -> RobotFacts:
    """What the queue's rule needs to know of a robot."""
    return RobotFacts(
        id=row.id, name=short(row.name, 60) or row.id, site_id=row.site, capabilities=frozenset(row.capabilities or ()),
        own_word=row.own_word,
        presence=row.presence, presence_since=row.presence_since, mode=row.mode, fault=short(row.fault, 60),
        held=short(held_words(row.holds), 80), running=short(row.mission_title or "", 60) if row.mission else "",
        battery=battery, charge_below_pct=row.charge_below_pct, charge_until_pct=row.charge_until_pct or 100,
    )  # fmt: skip


def mission_facts(row: MissionRow, robot: RobotFacts | None) -> MissionFacts:
    """What the rule needs to know of a mission. A robot that is not in service is known by name only."""
    waits = row.waits or Waits()
    if robot is None and row.robot:
        name, presence = short(row.robot_name or row.robot, 60), row.robot_presence or Presence.UNKNOWN
        robot = RobotFacts(row.robot, name, row.site, presence=presence, retired=bool(row.robot_retired))
    return MissionFacts(
        id=row.id, title=row.title, site_id=row.site, state=row.state, robot=robot, commands=frozenset(waits.commands),
        priority=row.priority, important=waits.important, dispatched=row.dispatched_at is not None,
        delivered=row.delivered_at is not None, stopping=row.stop_requested_at is not None, queued_at=row.queued_at,
        not_before=waits.not_before, unapproved=waits.unapproved,
        after=tuple((short(title, 60), state) for title, state in waits.after), charger=short(waits.charger, 60),
        charger_taken_by=short(waits.charger_taken_by or "", 60), ahead=waits.ahead,
        behind=short(waits.behind or "", 60),
    )  # fmt: skip

"""Dirty signals and command hints: what was just committed is announced on the live Redis, as ids, never as data.

Hints only. The hub and the links ask the database on their own as well, so an announcement may be lost, but it
must never delay or fail the request that made the change.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import redis

from fleet.history import Change
from fleet.signals import alert_changed, mission_transitioned, robot_changed, silence_changed
from telemetry import snapshots

log = logging.getLogger(__name__)
REST_S = 2.0  # after a failure nothing is tried for so long
TIMEOUT_S = 0.2


class Announcer:
    """Publishes, or does not: one quick try, and a rest after a failure, of which the first is said."""

    def __init__(self, connect: Callable[[], redis.Redis], clock: Callable[[], float] = time.monotonic) -> None:
        self.connect, self.clock = connect, clock
        self.rests_until = 0.0  # 0: the last try went well

    def publish(self, messages: list[tuple[str, bytes]]) -> bool:
        """Send (channel, payload) pairs in one round trip; says whether they went out."""
        if not messages or self.clock() < self.rests_until:
            return False
        try:
            pipeline = self.connect().pipeline(transaction=False)
            for channel, payload in messages:
                pipeline.publish(channel, payload)
            pipeline.execute()
        except (redis.RedisError, OSError) as error:
            if not self.rests_until:
                log.warning("live Redis does not take signals (%s); pages follow the database meanwhile", error)
            self.rests_until = self.clock() + REST_S
            return False
        self.rests_until = 0.0
        return True


announcer = Announcer(lambda: snapshots.client(TIMEOUT_S))


def messages(changes: Iterable[Change], at_ms: int) -> list[tuple[str, bytes]]:
    """What a commit has to announce: the entities that changed, and the robots with new commands."""
    signals: dict[tuple[str, str], list[Any]] = {}
    commanded: dict[str, None] = {}
    for change in changes:
        prefix, row = change.aggregate.prefix, change.row
        robot_id = row.pk if prefix == "robot" else row.robot_id
        touched = [(prefix, str(row.pk))] + ([("robot", robot_id)] if robot_id and prefix != "robot" else [])
        if change.events:
            for kind, entity_id in touched:
                signals[kind, entity_id] = snapshots.signal(kind, entity_id, "row", at_ms)
        for command in change.commands:
            commanded[command.robot_id] = None
        if robot_id and any(target == "open" for _kinds, _from, target in change.command_moves):
            commanded[robot_id] = None
    found = []
    if commanded:  # first: a robot waits for them
        found.append((snapshots.COMMANDS, msgspec.json.encode(list(commanded))))
    if signals:
        found.append((snapshots.DIRTY, snapshots.encode_signals(signals.values())))
    return found


def announce(*, changes: list[Change], **_: Any) -> None:
    """Receiver of both signals of Drover; runs after the commit."""
    announcer.publish(messages(changes, snapshots.now_ms()))


def announce_alerts(**_: Any) -> None:
    """Receiver of what happens to alerts and silences: there are few, so pages look at all of them anew."""
    signal = snapshots.signal("alert", "", "row", snapshots.now_ms())
    announcer.publish([(snapshots.DIRTY, snapshots.encode_signals([signal]))])


def connect() -> None:
    robot_changed.connect(announce, dispatch_uid="live.dirty.robot")
    mission_transitioned.connect(announce, dispatch_uid="live.dirty.mission")
    alert_changed.connect(announce_alerts, dispatch_uid="live.dirty.alert")
    silence_changed.connect(announce_alerts, dispatch_uid="live.dirty.silence")

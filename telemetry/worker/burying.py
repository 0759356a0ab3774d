"""Dead letters of a batch: each has a row of its own, but of a robot's invalid ones only so many; the others are counted.

A robot that sends nothing else must not fill the table, and the first few hundred tell what is wrong. What is valid and
could not be applied is always kept whole (I3).
"""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings

from missions.alert_rules import buried
from missions.models import UNDECIDED, Direction

_NAMESPACE = uuid.UUID("6c1f3a0e-2c07-4d0b-9a52-7d3f0b6e1c55")


class Letter(NamedTuple):
    """`invalid`: nothing of it can ever be applied."""

    robot_id: str
    msg_id: uuid.UUID
    kind: str
    body: str
    reason: str
    tries: int
    invalid: bool


_KEEP = (
    "INSERT INTO missions_deadletter (direction, robot_id, msg_id, kind, body, reason, tries, created_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)
# One per robot and day: whatever was decided about yesterday's
_COUNT = (
    "INSERT INTO missions_deadletter AS d (direction, robot_id, msg_id, kind, body, reason, tries, created_at)"
    " VALUES (%(direction)s, %(robot)s, %(id)s, '', %(body)s, %(n)s || %(why)s, %(n)s, %(now)s)"
    " ON CONFLICT (direction, robot_id, msg_id) DO UPDATE SET tries = d.tries + EXCLUDED.tries, body = EXCLUDED.body,"
    " reason = d.tries + EXCLUDED.tries || %(why)s"
)


def bury(cursor: Any, letters: list[Letter], now: datetime) -> None:
    """Write them, in the transaction of their batch, and raise their alerts."""
    if not letters:
        return
    room = _room(cursor, {letter.robot_id for letter in letters if letter.invalid})
    kept: list[Letter] = []
    counted: dict[str, list[Letter]] = {}
    for letter in letters:
        if letter.invalid and room[letter.robot_id] <= 0:
            counted.setdefault(letter.robot_id, []).append(letter)
            continue
        kept.append(letter)
        if letter.invalid:
            room[letter.robot_id] -= 1
    direction = Direction.IN.value
    cursor.executemany(_KEEP, [(direction, *letter[:6], now) for letter in kept])
    for robot, more in counted.items():
        why = f" invalid messages more than are kept one by one; the last one: {more[-1].reason}"
        id = uuid.uuid5(_NAMESPACE, f"{robot} {now:%Y-%m-%d}")
        cursor.execute(
            _COUNT,
            {
                "direction": direction,
                "robot": robot,
                "id": id,
                "body": more[-1].body,
                "n": len(more),
                "why": why,
                "now": now,
            },
        )
    buried([(letter.robot_id, letter.kind, letter.reason) for letter in letters], now)


def _room(cursor: Any, robots: Iterable[str]) -> dict[str, int]:
    """How many more invalid ones of each robot are kept one by one."""
    room = dict.fromkeys(robots, settings.DEAD_LETTERS_PER_ROBOT)
    if room:
        cursor.execute(
            "SELECT robot_id, count(*) FROM missions_deadletter WHERE robot_id = ANY(%s) AND direction = %s"
            " AND state = ANY(%s) GROUP BY robot_id",
            [list(room), Direction.IN.value, [state.value for state in UNDECIDED]],
        )
        for robot, count in cursor.fetchall():
            room[robot] -= count
    return room

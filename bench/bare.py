"""The limit of the pipeline: the same rows written by bare SQL, in batches, durably, with nothing read but what is locked.

No decision, no triggers, no hashes, no outbox, no streams: what PostgreSQL and this disk allow for rows of this number and
size, with COPY for what is new and one UPDATE per table for the rest.
"""

import json
import uuid
from datetime import UTC, datetime

import psycopg
from django.db import connection, transaction

from bench.receipts import STEPS

EVENTS = 1.57  # per receipt: two for a step that is followed by another
DATA = json.dumps({"step": 3, "steps": [{"number": 3, "outcome": "completed", "result": "done", "ended_at": "x" * 24}]})


class Bare:
    """One mission per robot on the baseline's tables; `apply_all` writes batches as they come of so many receipts."""

    def __init__(self, robots: int) -> None:
        now = datetime.now(UTC)
        self.missions = [uuid.uuid4() for _ in range(robots)]
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO bench_plainmission (id, robot_id, state, version, current_step, steps, next_due_at)"
                " VALUES (%s, %s, 'executing', 1, 1, %s, %s)",
                [(pk, f"X-{n}", STEPS, now) for n, pk in enumerate(self.missions)],
            )
            cursor.execute(
                "INSERT INTO bench_plainstep (mission_id, number, outcome) SELECT id, n, ''"
                " FROM unnest(%s::uuid[]) AS id, generate_series(1, %s) AS n",
                [self.missions, STEPS],
            )
        self._version = 1

    def apply_all(self, count: int, limit: int) -> None:
        """Batches of `limit` receipts of a quarter as many robots, as they come from a partition."""
        at_once = max(1, limit // 4)
        for first in range(0, count, limit):
            start = first // 4 % len(self.missions)
            self._batch((self.missions * 2)[start : start + at_once], limit)

    def _batch(self, missions: list[uuid.UUID], receipts: int) -> None:
        self._version += 10
        now, first = datetime.now(UTC), self._version
        with transaction.atomic(), psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(
                "SELECT * FROM bench_plainmission WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [missions]
            )
            with cursor.copy(
                "COPY bench_plainevent (mission, seq, kind, data, state_from, state_to, actor, cause, occurred_at,"
                " recorded_at) FROM STDIN"
            ) as copy:
                for n in range(round(receipts * EVENTS)):
                    mission, seq = missions[n % len(missions)], first + n // len(missions)
                    copy.write_row(
                        (mission, seq, "mission.step_completed", DATA, "executing", "step_completed", "X", f"message:{mission}", now, now)
                    )  # fmt: skip
            cursor.execute(
                "UPDATE bench_plainmission SET state = 'executing', version = %s, current_step = 3, next_due_at = %s"
                " WHERE id = ANY(%s)",
                [self._version, now, missions],
            )
            cursor.execute(
                "UPDATE bench_plainstep SET outcome = 'completed', ended_at = %s WHERE mission_id = ANY(%s) AND number < 5",
                [now, missions],
            )
            with cursor.copy("COPY bench_plainmessage (robot_id, msg_id) FROM STDIN") as copy:
                for n in range(receipts):
                    copy.write_row((f"X-{n % 200}", uuid.uuid4()))

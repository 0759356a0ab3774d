"""Which MQTT gateway has which robots: by rows in PostgreSQL, fair shares, and each name for one process only.

One that has long heard no robot, or that the broker refuses, gets none while another hears. The name is the client id at
the broker. Two processes under one name would take the connection from each other for ever, so the second one does not
start. Two gateways that have the same robot for a moment do no harm: what they read off it has the same ids, and only the
newest session sends.
"""

import os
import socket
from typing import Any
from uuid import uuid4

from django.db import connection, transaction

from telemetry.partitions import LEASE_S, Partitions

PREFIX = "drover-"
DEAF_S = 10.0  # a broker that restarts is back by then
TABLES = {"partitions": "telemetry_gatewaypartition", "processes": "telemetry_gatewayprocess"}


class Clash(Exception):
    """Another process that lives has this name."""


def this_process() -> str:
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{uuid4().hex[:8]}"


class Share:
    """The robots' partitions of one gateway. `tend` a few times a second; `release` at the end."""

    def __init__(self, name: str, count: int, *, process: str = "", lease_s: float = LEASE_S) -> None:
        self.name, self.process, self.lease_s = name, process or this_process(), lease_s
        self._partitions = Partitions(name, count, lease_s=lease_s, able="w.shares", **TABLES)
        self._is_new = True

    @property
    def mine(self) -> frozenset[int]:
        return frozenset(self._partitions.fences)

    def tend(self, trouble: str = "", deaf_s: float = 0.0) -> frozenset[int]:
        """Renew, give back, take. `trouble`: why we hear no robot, for whoever looks, and since when (s).

        Raises `Clash`, and database errors.
        """
        with transaction.atomic():
            self._claim(trouble, deaf_s >= DEAF_S)
            if (
                self._is_new
            ):  # what a dead process of our name had is not ours by that: its lease would have to end first
                self._let_go()
            self._partitions.tend()
        self._is_new = False
        return self.mine

    def release(self) -> None:
        """Planned end: whoever lives may take over at once. Not what another process holds under our name by now."""
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {TABLES['processes']} WHERE name = %s AND process = %s FOR UPDATE",
                           [self.name, self.process])  # fmt: skip
            if cursor.fetchone():
                self._partitions.release()

    def _let_go(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {TABLES['partitions']} SET owner = '', until = NULL WHERE owner = %s", [self.name])

    def _claim(self, trouble: str, deaf: bool) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_CLAIM, {"name": self.name, "process": self.process, "lease_s": self.lease_s,
                                    "trouble": trouble[:500].replace("\0", ""), "deaf": deaf})  # fmt: skip
            if cursor.fetchone():
                return
            cursor.execute(f"SELECT process FROM {TABLES['processes']} WHERE name = %s", [self.name])
            found: Any = cursor.fetchone()
        host, pid, *_ = (found[0] if found else "?:?").split(":")
        raise Clash(
            f"the gateway {self.name} runs already (process {pid} on {host}). Each needs a name of its own: set"
            f" DROVER_GATEWAY to another one here, or end that one"
        )


# a process that was killed has no session any more; one that is frozen, or cut off, lives until its lease ends
_CLAIM = f"""
INSERT INTO {TABLES["processes"]} AS g (name, process, trouble, shares, started_at, until, backend, backend_start)
SELECT %(name)s, %(process)s, %(trouble)s,
  NOT (%(deaf)s AND EXISTS (SELECT FROM {TABLES["processes"]} o WHERE o.name <> %(name)s AND o.trouble = ''
    AND o.until > clock_timestamp())),
  clock_timestamp(), clock_timestamp() + %(lease_s)s * interval '1 second', pid, backend_start
FROM pg_stat_activity WHERE pid = pg_backend_pid()
ON CONFLICT (name) DO UPDATE SET process = EXCLUDED.process, trouble = EXCLUDED.trouble, until = EXCLUDED.until,
  shares = EXCLUDED.shares,
  started_at = CASE WHEN g.process = EXCLUDED.process THEN g.started_at ELSE EXCLUDED.started_at END,
  backend = EXCLUDED.backend, backend_start = EXCLUDED.backend_start
WHERE g.process = EXCLUDED.process OR g.until < clock_timestamp()
  OR NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = g.backend AND a.backend_start = g.backend_start)
RETURNING 1
"""

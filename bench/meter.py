"""Clocks of a measurement: wall time and the CPU of this process and of the PostgreSQL process that serves it."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.db import connection


@dataclass(slots=True)
class Meter:
    """Collects over several rounds; `count` is how many pieces of work each was."""

    rates: list[float] = field(default_factory=list)  # pieces per s
    took_ms: list[float] = field(default_factory=list)  # per piece
    worker_us: list[float] = field(default_factory=list)  # CPU per piece
    postgres_us: list[float] = field(default_factory=list)

    @contextmanager
    def measured(self, count: int = 1, *, server: int = 0) -> Iterator[None]:
        """`server`: pid of the PostgreSQL process, if its CPU is to be counted (in steps of 10 ms)."""
        postgres, worker, began = cpu_s(server), time.process_time(), time.perf_counter()
        yield
        took = time.perf_counter() - began
        self.rates.append(count / took)
        self.took_ms.append(took / count * 1e3)
        self.worker_us.append((time.process_time() - worker) / count * 1e6)
        self.postgres_us.append((cpu_s(server) - postgres) / count * 1e6)

    def p99_ms(self) -> float:
        return sorted(self.took_ms)[int(len(self.took_ms) * 0.99)]


def server_pid() -> int:
    """The PostgreSQL process of our connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used; 0 where the system does not tell."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

"""Telemetry from 1,000 robots to snapshot and dirty signal: messages a second over MQTT, WebSocket and HTTP in batches.

Real processes: Mosquitto and `manage.py gateway`, or the web process; robots that each have a connection, in one process
that costs less than the server. Every message counts when it, or a newer one of its robot, can be seen in the live Redis.
The baseline does the same write for the same messages and nothing else: bare paho, bare daphne.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import redis
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from bench import served
from bench.ground import BY, fleet_of, stores_in_words
from bench.report import Row, machine, row
from fleet.robots.credentials import issue_credential

NAMES = {"mqtt": "MQTT", "ws": "WebSocket", "http": "HTTP in batches"}
TARGETS = {"mqtt": 3_000, "ws": 3_000, "http": 10_000}
SURPLUS = 1.05  # of the schedule over the target: messages that come at exactly that rate could never be seen faster
WINDOW = {"mqtt": 500, "ws": 500, "http": 1_000}  # under way when it goes as fast as it can
BATCH = 50  # messages in a request
SECONDS = 5.0  # of a schedule


@dataclass
class Taken:
    """What became of the rounds of one side. CPU in µs for each message."""

    fast: list[float] = field(default_factory=list)  # messages a second, so many under way
    due: list[dict[str, float]] = field(default_factory=list)  # rounds on a schedule
    server_us: list[float] = field(default_factory=list)
    teller_us: list[float] = field(default_factory=list)
    broker_us: list[float] = field(default_factory=list)
    live_us: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """CPU of the generator against the server's."""
        return median(self.teller_us) / max(1.0, median(self.server_us))


def run(*, quick: bool, profile: bool = False) -> tuple[dict[str, Any], list[Row]]:
    """(machine, rows). Needs empty stores of its own. `profile` is not looked at."""
    served.need_mosquitto()
    robot_count, rounds, fast, scale = (20, 1, 400, 0.02) if quick else (1_000, 3, 10_000, 1.0)
    about = machine(Path(settings.VAR), **stores_in_words())
    call_command("migrate", verbosity=0)
    _, robots = fleet_of(robot_count)
    pairs = [(robot, issue_credential(robot, by=BY)) for robot in robots]
    connection.close()
    about |= {"robots": robot_count, "rounds": rounds, "batch": BATCH}
    rows: list[Row] = []
    for over, name in NAMES.items():
        found: dict[bool, Taken] = {}
        for bare in (False, True):
            with _served(over, bare) as (port, pids), _teller(over, port, pairs) as tell:
                found[bare] = _measure(tell, pids, over, rounds, fast, scale)
        rows += _rows(name, found[False], found[True], None if quick else TARGETS[over])
    return about, rows


def _rows(name: str, ours: Taken, bare: Taken, target: int | None) -> list[Row]:
    def due(side: Taken, what: str) -> float:
        return median(one[what] for one in side.due)

    rows = [
        row(f"{name}, on a schedule: seen", due(ours, "rate"), "1/s", baseline=due(bare, "rate"), at_least=target),
        row("… from when it was due, p50", due(ours, "p50_ms"), "ms", baseline=due(bare, "p50_ms")),
        row("… p99", due(ours, "p99_ms"), "ms", baseline=due(bare, "p99_ms")),
        row("… left out for a newer one, worst round", max(one["left_out"] for one in ours.due), "messages"),
        row("… newest not seen, worst round", max(one["unseen"] for one in ours.due), "robots", below=1),
        row("… as many as it takes", median(ours.fast), "1/s", baseline=median(bare.fast)),
        row("… CPU for a message, server", median(ours.server_us), "µs", baseline=median(bare.server_us)),
    ]
    if ours.broker_us:
        rows.append(row("… of the broker", median(ours.broker_us), "µs", baseline=median(bare.broker_us)))
    rows.append(row("… of the live Redis", median(ours.live_us), "µs", baseline=median(bare.live_us)))
    return [*rows, row("… of the robots, against the server's", ours.share, "times", baseline=bare.share)]


@contextmanager
def _served(over: str, bare: bool) -> Iterator[tuple[int, dict[str, int]]]:
    """Port for the robots, and pids of what serves them."""
    with ExitStack() as stack:
        if over == "mqtt":
            port, broker = stack.enter_context(served.mosquitto())
            server = stack.enter_context(served.mqtt_sink(port) if bare else served.gateway(port))
            pids = {"server": server, "broker": broker}
        else:
            application = "bench.sinks:application" if bare else "fleet.asgi:application"
            port, server = stack.enter_context(served.daphne(application))
            pids = {"server": server}
        yield port, pids | {"live": served.live_pid()}


def _teller(over: str, port: int, pairs: list[tuple[str, str]]) -> Any:
    """`tell(plan)` → what became of a round; see bench/telling.py."""
    each = {"each": [BATCH]} if over == "http" else {}
    return served.robots("bench.telling", over=over, port=port, robots=pairs, **each)


def _measure(tell: Any, pids: dict[str, int], over: str, rounds: int, fast: int, scale: float) -> Taken:
    """`scale`: of the schedule, in rate and length."""
    taken, per_s, seconds = Taken(), TARGETS[over] * SURPLUS * scale, max(1.0, SECONDS * scale)
    more = max(1, TARGETS[over] // 3_000)  # rounds of about the same time
    plans = {"fast": {"count": fast * more, "window": WINDOW[over]},
             "due": {"count": int(per_s * seconds), "per_s": per_s}}  # fmt: skip
    for number in range(rounds + 1):
        for kind, plan in plans.items():
            costs, before = served.Costs(**pids), _writes()
            done = tell(plan)
            spent, written = costs.spent(), _writes() - before
            if written != done["sent"] - done["left_out"]:
                raise RuntimeError(f"{done['sent'] - done['left_out']} messages made {written} writes")
            if not number:  # the first round warms up
                continue
            if kind == "due":
                taken.due.append(done)
                continue
            taken.fast.append(done["rate"])
            for name, us in (("server", taken.server_us), ("broker", taken.broker_us), ("live", taken.live_us)):
                if name in spent:
                    us.append(spent[name] / done["sent"] * 1e6)
            taken.teller_us.append(done["cpu_s"] / done["sent"] * 1e6)
    return taken


def _writes() -> int:
    """Of snapshots: the one SET of each script, or the baseline's."""
    with redis.from_url(settings.LIVE_REDIS_URL) as live:
        stats = live.info("commandstats")
    return int(stats.get("cmdstat_set", {}).get("calls", 0))

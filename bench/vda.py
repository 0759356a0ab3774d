"""VDA 5050: states of robots with missions a second, and how soon a mission shows what its robot's state says.

300 robots over a real Mosquitto, `manage.py gateway` and `manage.py worker`, states of about 2 kB. The baseline takes the
same states with bare paho, parses the JSON and writes where the robot is.
"""

from pathlib import Path
from statistics import median
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from bench import served
from bench.ground import BY, PLACE, analyse, fleet_of, stores_in_words
from bench.report import Row, machine, row
from bench.vda_robots import MAKER
from fleet.models import Event, Site
from missions import actions, drawing_up, invariants
from missions.models import DeadLetter, Mission

STATES_PER_S = 2_000
SURPLUS = 1.05  # of the schedule over the target, as in bench/ingest.py
SECONDS = 5.0
WINDOW = 500
LEG_S, BEAT_S = 4.0, 1.0


def run(*, quick: bool, profile: bool = False) -> tuple[dict[str, Any], list[Row]]:
    """(machine, rows). Needs empty stores of its own. `profile` is not looked at."""
    served.need_mosquitto()
    count, rounds, drives, fast, scale = (10, 1, 2, 400, 0.05) if quick else (300, 3, 5, 10_000, 1.0)
    leg_s = 0.5 if quick else LEG_S
    about = machine(Path(settings.VAR), **stores_in_words())
    call_command("migrate", verbosity=0)
    busy = {"driver": "vda5050", "profile": {"max_states_per_s": 200}}  # a fleet's worth of states from 300 robots
    site, robots = fleet_of(count, maker=MAKER, **busy)
    missions = [_mission(site, robot, drives) for robot in robots]
    analyse()
    connection.close()
    bare = _bare(robots, drives, rounds, fast, scale)
    ours, driven = _drover(robots, missions, rounds, fast, scale, leg_s)
    driven |= _stations()
    _check(missions, driven, drives)
    about |= {"robots": count, "rounds": rounds, "bytes of a state": ours["bytes"], "steps": driven["reached"]}
    return about, _rows(ours, bare, driven, quick)


def _bare(robots: list[str], drives: int, rounds: int, fast: int, scale: float) -> dict[str, Any]:
    with (
        served.mosquitto() as (port, broker),
        served.mqtt_sink(port) as sink,
        _robots(port, robots, made_up=drives) as tell,
    ):
        return _replay(tell, {"server": sink, "broker": broker}, rounds, fast, scale)


def _drover(
    robots: list[str], missions: list[Any], rounds: int, fast: int, scale: float, leg_s: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(states replayed, missions driven)."""
    with (
        served.mosquitto() as (port, broker),
        served.worker() as worker,
        served.gateway(port) as pid,
        _robots(port, robots) as tell,
    ):
        for mission in missions:
            actions.dispatch_mission(mission, by=BY)
        connection.close()
        tell({"orders": 1})
        pids = {"server": pid, "broker": broker, "worker": worker}
        ours = _replay(tell, pids, rounds, fast, scale)
        costs = served.Costs(**pids)
        driven = tell({"leg_s": leg_s, "beat_s": BEAT_S})
        driven |= {f"{name}_s": spent for name, spent in costs.spent().items()}
        served.until(lambda: _ended(missions), "every mission's end")
    return ours, driven


def _rows(ours: dict[str, Any], bare: dict[str, Any], driven: dict[str, Any], quick: bool) -> list[Row]:
    def pair(figure: str, name: str, unit: str, **more: Any) -> Row:
        return row(figure, ours[name], unit, baseline=bare[name], **more)

    return [
        pair("states on a schedule: seen", "rate", "1/s", at_least=None if quick else STATES_PER_S),
        pair("… from when it was due, p50", "p50_ms", "ms"),
        pair("… p99", "p99_ms", "ms"),
        pair("… as many as it takes", "fast", "1/s"),
        pair("… CPU for a state, gateway", "server_us", "µs"),
        pair("… of the broker", "broker_us", "µs"),
        pair("… of the robots, against the gateway's", "share", "times"),
        row("state to mission status, p50", driven["p50_ms"], "ms"),
        row("… p95", driven["p95_ms"], "ms", below=None if quick else 100),
        row("… p99", driven["p99_ms"], "ms"),
        row("… of the p50: until the gateway has it", driven["heard_ms"], "ms"),
        row("… and then until a worker decides it", driven["decided_ms"], "ms"),
        row("… steps completed meanwhile", driven["seen"] / driven["took_s"], "1/s"),
        row("… states meanwhile", driven["states_per_s"], "1/s"),
        row("… gateway busy", 100 * driven["server_s"] / driven["took_s"], "%"),
        row("… worker busy", 100 * driven["worker_s"] / driven["took_s"], "%"),
    ]


def _mission(site: Site, robot: str, drives: int) -> Any:
    work = [{"command": "navigate", "params": {"place": PLACE}, "timeout_s": 600}] * drives
    return drawing_up.draft_mission(title="Round", site=site, robot=robot, steps=work, by=BY)


def _robots(port: int, robots: list[str], **more: Any) -> Any:
    """`tell(plan)` → what came of it; see bench/vda_robots.py."""
    return served.robots("bench.vda_robots", port=port, robots=robots, **more)


def _replay(tell: Any, pids: dict[str, int], rounds: int, fast: int, scale: float) -> dict[str, Any]:
    """Medians. `scale`: of the schedule, in rate and length."""
    per_s, seconds = STATES_PER_S * SURPLUS * scale, max(1.0, SECONDS * scale)
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        costs = served.Costs(**pids)
        quick = tell({"count": fast, "window": WINDOW})
        spent = {f"{name}_us": cpu / fast * 1e6 for name, cpu in costs.spent().items()}
        due = tell({"count": int(per_s * seconds), "per_s": per_s})
        if number:  # the first round warms up
            share = quick["cpu_s"] / max(0.01, spent["server_us"] * fast / 1e6)
            one = spent | {"fast": quick["rate"], "share": share, "bytes": due["bytes"]}
            for name, value in (one | {k: due[k] for k in ("rate", "p50_ms", "p99_ms")}).items():
                found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items()}


def _stations() -> dict[str, float]:
    """Medians of where a completed step was on its way; what is left is the commit and its announcement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM p.received_at - e.occurred_at)),"
            " percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM p.applied_at - p.received_at))"
            " FROM fleet_event e JOIN telemetry_processedmessage p ON e.cause = 'message:' || p.msg_id"
            " WHERE e.kind = 'mission.step_completed'"
        )
        heard_s, decided_s = cursor.fetchone()
    return {"heard_ms": float(heard_s) * 1e3, "decided_ms": float(decided_s) * 1e3}


def _ended(missions: list[Any]) -> bool:
    try:
        return not Mission.objects.filter(pk__in=missions).exclude(state__in=("success", "aborted")).exists()
    finally:
        connection.close()


def _check(missions: list[Any], driven: dict[str, Any], drives: int) -> None:
    """A figure counts only if the work was done."""
    states = set(Mission.objects.values_list("state", flat=True))
    completed = Event.objects.filter(kind="mission.step_completed").count()
    if states != {"success"} or completed != len(missions) * drives or driven["seen"] != completed:
        raise RuntimeError(f"missions ended as {states}, {completed} steps, {driven['seen']} seen")
    if wrong := [*DeadLetter.objects.all(), *invariants.check()]:
        raise RuntimeError(f"not all is well: {wrong}")

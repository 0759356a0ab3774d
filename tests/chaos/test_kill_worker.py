"""kill -9 of workers, again and again: nothing is lost (I3), nothing happens twice, the next one takes over soon."""

import json
import math
import signal
import time
from collections import Counter
from itertools import pairwise

import pytest
import redis
from django.conf import settings
from django.db import connection

from fleet.brands.actions import edit_brand
from fleet.models import Event, Robot
from missions import invariants
from missions.models import DeadLetter, Mission
from telemetry import stream
from telemetry.models import FailedTry, Partition, ProcessedMessage, Watermark
from telemetry.partitions import LEASE_S
from tests.actors import SYSTEM
from tests.chaos.scripted_robots import Cast, fleet_of
from tests.eventually import eventually
from tests.telemetry.robots_talk import message, whole_life

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]

HOOKS = ("before_decide", "before_commit", "before_ack")
VICTIMS, ROBOTS, STEPS = 2, 12, 6
TAKEN_OVER_S = 3.0  # from a death to the next event, as promised
KILLS = {
    3: TAKEN_OVER_S,
    21: 4 * TAKEN_OVER_S,
}  # how many, and how long that may take: the many have other tests beside them


@pytest.mark.parametrize("kills", [pytest.param(3, marks=pytest.mark.quiet), 21])
def test_workers_killed_at_every_hook_lose_nothing_and_double_nothing(
    site, brand, start_worker, tmp_path, capsys, kills
):
    missions = fleet_of(site, brand, ROBOTS, STEPS)
    note, cast = tmp_path / "deaths", Cast()
    lives = 0

    def another():
        nonlocal lives
        hook, after = (HOOKS[lives % 3], 1 + lives % 4) if lives < kills else ("", 1)
        lives += 1
        return start_worker(die_at=hook, after=after, note=str(note))

    lines = {m.robot_id: whole_life(m, STEPS) for m in missions}
    share = STEPS + 2
    start_worker()  # one is spared
    alive, deaths = [another() for _ in range(VICTIMS)], 0
    give_up = time.monotonic() + 240
    while deaths < kills and time.monotonic() < give_up:
        for worker in [w for w in alive if w.poll() is not None]:
            assert worker.returncode == -signal.SIGKILL
            deaths += 1
            alive.remove(worker)
            alive.append(another())
        told = math.ceil(share * (deaths + 1) / (kills + 1))  # missions move on as the killing does
        cast.play([next_line(cast, robot, lines[robot], share - told) for robot in lines])
        time.sleep(0.1)
    while any(lines.values()):
        cast.play([next_line(cast, robot, lines[robot], 0) for robot in lines if lines[robot]])
    said = [(robot, line["msg_id"]) for robot, every in cast.said.items() for line in every]
    eventually(lambda: ProcessedMessage.objects.count() == len(said), what="everything said is applied")
    eventually(lambda: pending() == 0, what="everything applied is acknowledged")

    assert deaths == kills
    wounds = [json.loads(line) for line in note.read_text().splitlines()]
    assert {w["where"] for w in wounds} == set(HOOKS)
    processed = ProcessedMessage.objects.values_list("robot_id", "msg_id")
    assert Counter((robot, str(msg)) for robot, msg in processed) == Counter(said)
    assert_one_event_per_edge(missions)
    assert dict(Watermark.objects.values_list("robot_id", "applied_seq")) == {r: len(s) for r, s in cast.said.items()}
    assert not DeadLetter.objects.exists()
    assert not FailedTry.objects.exists()  # being killed is no fault of a message
    assert invariants.check() == []
    gaps = take_over_times(wounds)
    with capsys.disabled():
        print(f"\n  {deaths} workers killed, {len(said)} messages; from a death to the next event of its partitions: "
              f"median {gaps[len(gaps) // 2]:.2f} s, worst {gaps[-1]:.2f} s")  # fmt: skip
    assert gaps[-1] < KILLS[kills]


def next_line(cast: Cast, robot: str, mine: list[dict], keep: int) -> dict:
    """The robot's next receipt while more than `keep` are left, else small talk."""
    if len(mine) > keep:
        return {**mine.pop(0), "seq": cast.next_seq(robot)}
    return cast.state(robot)


def pending() -> int:
    client = redis.from_url(settings.REDIS_URL)
    with client:
        return sum(client.xpending(name, stream.GROUP)["pending"] for name in client.keys("in:*"))


def assert_one_event_per_edge(missions: list[Mission]) -> None:
    """By SQL, straight from the history: each edge of each mission once, in order, and no other."""
    steps = [f"mission.step_{what}" for _ in range(STEPS - 1) for what in ("completed", "started")]
    expected = ["mission.started", *steps, "mission.step_completed", "mission.succeeded"]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT aggregate, array_agg(kind ORDER BY seq), count(*), count(DISTINCT seq), max(seq) FROM fleet_event"
            " WHERE aggregate LIKE 'mission:%' GROUP BY aggregate"
        )
        rows = cursor.fetchall()
    assert len(rows) == len(missions)
    for aggregate, kinds, count, distinct, last in rows:
        assert kinds == ["mission.drafted", "mission.dispatched", *expected], aggregate
        assert count == distinct == last
    assert set(Mission.objects.values_list("state", flat=True)) == {"success"}


def take_over_times(wounds: list[dict]) -> list[float]:
    """Seconds from each owner's death to the next event of its partition, or from that event's arrival if it came later.

    A heir that dies first starts it anew.
    """
    applied: dict[int, list[tuple[float, float]]] = {}
    rows = ProcessedMessage.objects.order_by("applied_at").values_list("robot_id", "applied_at", "received_at")
    for robot, at, received in rows:
        applied.setdefault(stream.partition_of(robot), []).append((at.timestamp(), received.timestamp()))
    deaths: dict[int, list[float]] = {}
    for wound in wounds:
        for p in map(int, wound["partitions"]):
            deaths.setdefault(p, []).append(wound["at"])
    gaps = []
    for p, times in deaths.items():
        for died, heir_died in pairwise([*sorted(times), math.inf]):
            after, received = next((row for row in applied.get(p, ()) if row[0] > died), (math.inf, 0.0))
            if after < heir_died:
                gaps.append(after - max(died, received))
    return sorted(gaps)


def test_the_mission_of_a_robot_killed_for_good_ends_by_policy_and_the_robot_is_on_hold(site, brand, start_worker):
    edit_brand(brand.pk, suspect_after_s=1, offline_after_s=2, abandon_after_s=1, stop_s=3, by=SYSTEM)
    [mission] = fleet_of(site, brand, 1, 2)
    cast = Cast()
    start_worker(grace_s=0.5)
    cast.play([message(mission.robot_id, "mission.accepted", 1, mission=mission)])  # its last words
    eventually(lambda: Mission.objects.get(pk=mission.pk).state == "executing")
    eventually(lambda: Mission.objects.get(pk=mission.pk).state == "aborted")
    ended = Mission.objects.get(pk=mission.pk)
    assert (ended.abort_reason, ended.stop_confirmed) == ("robot_fault", False)
    assert "offline" in ended.abort_detail
    robot = Robot.objects.get(pk=mission.robot_id)
    assert robot.presence == "offline"
    hold = robot.holds.get()
    assert (hold.kind, hold.released_at, hold.mission) == ("unconfirmed", None, mission.pk)
    kinds = list(Event.objects.filter(aggregate=f"mission:{mission.pk}").order_by("seq").values_list("kind", flat=True))
    assert kinds.index("mission.robot_lost") < kinds.index("mission.stop_requested") < kinds.index("mission.aborted")


@pytest.mark.quiet
def test_a_lone_worker_started_again_applies_the_first_event_within_three_seconds(site, brand, start_worker, capsys):
    [mission] = fleet_of(site, brand, 1, 2)
    cast, took = Cast(), []
    worker = start_worker()
    eventually(lambda: Partition.objects.exclude(owner="").exists())
    for line in whole_life(mission, 2)[:3]:
        worker.kill()
        began = time.monotonic()
        worker.wait()
        worker = start_worker()  # as the supervisor does
        cast.play([line])
        eventually(lambda: ProcessedMessage.objects.filter(msg_id=line["msg_id"]).exists())  # noqa: B023
        took.append(time.monotonic() - began)
    with capsys.disabled():
        print(f"\n  a lone worker killed and started again: first event after {', '.join(f'{t:.2f}' for t in took)} s")
    assert sorted(took)[1] < 3.0


@pytest.mark.quiet
def test_a_worker_told_to_stop_gives_its_partitions_back_within_a_second(manage):
    worker = manage("worker")
    eventually(lambda: Partition.objects.exclude(owner="").count() == settings.PARTITIONS)
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert time.monotonic() - began < 1.0
    assert not Partition.objects.exclude(owner="").exists()
    assert "Traceback" not in worker.stderr.read()


@pytest.mark.quiet
def test_a_planned_restart_hands_over_without_a_gap(site, brand, start_worker, capsys):
    """Robots talk all the time while both workers are replaced, one after the other: no word waits for a lease to end."""
    fleet_of(site, brand, ROBOTS, 1)
    robots, cast = [f"RB-{n:03}" for n in range(ROBOTS)], Cast()
    workers = [start_worker(), start_worker()]
    eventually(lambda: Partition.objects.values("owner").distinct().count() == 2, what="both have a share")
    eventually(lambda: Partition.objects.exclude(owner="").count() == settings.PARTITIONS)

    def talk_until(predicate, within_s: float = 40.0) -> None:
        ends = time.monotonic() + within_s
        while not predicate() and time.monotonic() < ends:
            cast.play([cast.state(robot) for robot in robots])
            time.sleep(0.1)

    for old in workers:
        start_worker()
        talk_until(lambda: Partition.objects.values("owner").distinct().count() == 3)  # it is there, as one sees to it
        old.send_signal(signal.SIGTERM)
        talk_until(lambda: old.poll() is not None)  # noqa: B023
        talk_until(lambda: False, 1.0)
    said = sum(map(len, cast.said.values()))
    eventually(lambda: ProcessedMessage.objects.count() == said, what="everything said is applied")
    rows = ProcessedMessage.objects.values_list("applied_at", "received_at")
    waited = sorted((applied - received).total_seconds() for applied, received in rows)
    with capsys.disabled():
        print(f"\n  {said} messages while two workers were replaced: from a word to its effect median {waited[len(waited) // 2]:.3f} s,"
              f" worst {waited[-1]:.2f} s")  # fmt: skip
    assert invariants.check() == []
    assert waited[-1] < 1.0


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("before_apply", "has a newer owner than fence"),
        ("before_decide", "PostgreSQL does not answer, or refuses"),
        ("before_commit", "PostgreSQL does not answer, or refuses"),
    ],
)
def test_a_worker_frozen_between_read_and_commit_writes_nothing_when_it_wakes_up(
    site, brand, start_worker, tmp_path, where, says
):
    """Before its transaction the fence refuses it; inside it, PostgreSQL has ended its session."""
    [mission] = fleet_of(site, brand, 1, 2)
    p, note, log, cast = stream.partition_of(mission.robot_id), tmp_path / "note", tmp_path / "log", Cast()
    frozen = start_worker(die_at=where, how="SIGSTOP", note=str(note), log=log)
    eventually(lambda: Partition.objects.exclude(owner="").count() == settings.PARTITIONS)
    fence = Partition.objects.get(pk=p).fence
    accepted, first, *_ = whole_life(mission, 2)
    cast.play([accepted])
    eventually(note.exists, what="it has read and is frozen")
    frozen_at = json.loads(note.read_text())["at"]
    assert ProcessedMessage.objects.count() == 0
    start_worker()
    eventually(lambda: Mission.objects.get(pk=mission.pk).state == "executing", LEASE_S + 10)
    assert Partition.objects.get(pk=p).fence == fence + 1
    written = rows(mission)
    assert min(row[-1] for row in written).timestamp() > frozen_at  # by the heir: the other read its clock before

    frozen.send_signal(signal.SIGCONT)
    eventually(lambda: says in log.read_text(), what="its commit was refused")
    assert rows(mission) == written
    cast.play([first])
    eventually(lambda: Mission.objects.get(pk=mission.pk).current_step == 2)
    eventually(lambda: Partition.objects.values("owner").distinct().count() == 2, what="both have a share again")
    assert rows(mission)[: len(written)] == written
    assert ProcessedMessage.objects.count() == 2
    assert invariants.check() == []


def rows(mission: Mission) -> list[tuple]:
    """What was written about the accepted message: its own row and the events that came of it, whole; times last."""
    messages = ProcessedMessage.objects.order_by("applied_at", "id").values_list(
        "id", "msg_id", "seq", "verdict", "applied_at"
    )
    events = Event.objects.filter(aggregate=f"mission:{mission.pk}", actor_kind="robot").order_by("seq")
    return [*messages[:1], *events.values_list("id", "seq", "kind", "hash", "recorded_at")]

"""The demo: made once, resized on later runs, missions only for robots that are free."""

import itertools
import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, transaction

from fleet.history import Origin
from fleet.models import Place, Robot, Site
from fleet.ports import live
from fleet.robots.actions import retire_robot
from fleet.robots.credentials import robot_of_token
from fleet.robots.facts import Reported
from fleet.robots.stopping import stop_robot
from fleet.sites.actions import edit_place
from missions import facts
from missions.actions import cancel_mission, queue_mission
from missions.drawing_up import draft_mission
from missions.ledger import Ledger
from missions.models import Mission
from missions.queue.waiting import why_waiting_all
from telemetry.management.commands import demo as command
from telemetry.simulator import demo
from telemetry.simulator import traffic as going_on
from tests.actors import START, SYSTEM, online, tell

PASSWORDS = {"admin": "one", "supervisor": "two", "auditor": "three"}
ANA = Origin("user", "1", "Ana")


@pytest.fixture
def make(db, streams, tmp_path: Path, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick

    def make(count: int) -> list[dict]:
        file = tmp_path / "robots.json"
        demo.make(count, url="ws://127.0.0.1:1/robot/v1/ws", file=file, passwords=PASSWORDS)
        assert file.stat().st_mode & 0o777 == 0o600
        return json.loads(file.read_text())["robots"]

    return make


def ready(*robot_ids: str) -> None:
    """Their links are up and they say that they are idle."""
    for robot_id in robot_ids:
        online(robot_id)
        with transaction.atomic():
            ledger = Ledger.open([robot_id], now=START)
            ledger.tell_robot(robot_id, Reported(1, 1, "idle", None, None, ""), SYSTEM, START)
            ledger.commit()


def test_only_a_robot_that_is_enrolled_anew_starts_with_an_empty_disk(make, tmp_path):
    make(1)
    folder = tmp_path / "robots"
    folder.mkdir()
    for robot_id in ("RB-001", "RB-002"):
        (folder / f"{robot_id}.json").write_text("{}")
    make(2)
    assert list(folder.iterdir()) == [folder / "RB-001.json"]


def test_a_new_site_has_two_sites_three_brands_users_in_their_groups_and_working_tokens(make):
    robots = make(5)
    assert Site.objects.count() == 2
    assert {robot["brand"] for robot in robots} == set(demo.BRANDS)
    assert all(site.places.count() == 8 for site in Site.objects.all())
    assert [robot_of_token(robot["token"]) for robot in robots] == [f"RB-00{n}" for n in range(1, 6)]
    for robot in robots:
        assert robot["start"] in {place["name"] for place in robot["places"]}
    for role, password in PASSWORDS.items():
        user = User.objects.get(username=role)
        assert user.check_password(password)
        assert user.is_staff
        assert not user.is_superuser
        assert [group.name for group in user.groups.all()] == [role]


def test_a_second_run_changes_nothing(make):
    first = make(3)
    edit_place(Place.objects.filter(name="Dock A").earliest("pk").pk, x=5.5, by=SYSTEM)
    User.objects.filter(username="admin").update(username="boss")
    before = {robot.pk: robot.version for robot in Robot.objects.all()}
    second = make(3)
    assert [robot["token"] for robot in second] == [robot["token"] for robot in first]
    assert {robot.pk: robot.version for robot in Robot.objects.all()} == before
    assert Place.objects.filter(name="Dock A").earliest("pk").x == 5.5


def test_fewer_robots_retire_the_rest_and_more_bring_back_only_what_the_demo_retired(make):
    make(4)
    retire_robot("RB-003", by=ANA)
    assert [robot["id"] for robot in make(1)] == ["RB-001"]
    assert Robot.objects.filter(retired_at=None).count() == 1
    robots = make(4)
    assert [robot["id"] for robot in robots] == ["RB-001", "RB-002", "RB-004"]
    assert [robot_of_token(robot["token"]) for robot in robots] == ["RB-001", "RB-002", "RB-004"]


def test_who_cannot_be_retired_yet_is_run_on_without_new_missions(make, tmp_path, caplog):
    """Fewer robots, or robots of others in their stead: a mission that runs is not left without its robot."""
    make(2)
    robot = Robot.objects.get(pk="RB-002")
    wait = [{"command": "wait", "params": {"seconds": 1}}]
    queue_mission(draft_mission(title="Late", site=robot.site, robot=robot, steps=wait, by=ANA), by=ANA)
    robots = make(1)
    assert [(robot["id"], robot.get("leaves")) for robot in robots] == [("RB-001", None), ("RB-002", True)]
    assert robot_of_token(robots[1]["token"]) == "RB-002"
    assert demo.names(tmp_path / "robots.json") == ["RB-001"]
    assert f"RB-002 {demo.STAYS}: “Late” waits for RB-002" in caplog.text


def test_a_lost_token_file_gives_new_tokens(make, tmp_path):
    old = make(1)[0]["token"]
    (tmp_path / "robots.json").write_text("not json")
    new = make(1)[0]["token"]
    assert new != old
    assert robot_of_token(new) == "RB-001"


def test_missions_come_only_for_robots_that_are_free(make):
    make(4)
    ready("RB-001", "RB-002")
    stop_robot("RB-002", by=ANA)
    traffic = going_on.Traffic(["RB-001", "RB-002", "RB-004"])
    now = START
    for _ in range(60):
        now += timedelta(seconds=1)
        traffic.step(now)
    mission = Mission.objects.get(dispatched_at__isnull=False)
    assert (mission.robot_id, mission.created_by) == ("RB-001", "demo")


def test_a_few_missions_wait_for_all_kinds_of_reasons(make):
    make(4)
    ready("RB-001", "RB-002", "RB-003", "RB-004")
    titles: dict[str, set] = {}
    for seed in range(8):
        traffic = going_on.Traffic(["RB-001", "RB-002", "RB-003", "RB-004"], seed=seed)
        now = START
        for _ in range(120):
            now += timedelta(seconds=1)
            traffic.step(now)
        waiting = Mission.objects.filter(state="pending", queued_at__isnull=False, dispatched_at=None)
        assert 1 <= waiting.count() <= going_on.IN_LINE
        for mission, words in why_waiting_all(Mission.objects.filter(state="pending", dispatched_at=None)).items():
            titles.setdefault(" ".join(words.split()[:2]), set()).add(mission)
        for pk in waiting.values_list("pk", flat=True):
            cancel_mission(pk, by=ANA)
    assert {"It needs", "It comes", "No robot"} <= titles.keys()
    assert Mission.objects.filter(not_before__isnull=False).exists()
    assert Mission.objects.filter(needs_approval=True).count() == 1


def test_a_robot_rests_between_two_missions(make):
    make(1)
    ready("RB-001")
    traffic = going_on.Traffic(["RB-001"])
    now = START
    given = []
    for _ in range(300):
        now += timedelta(seconds=1)
        if traffic.step(now):
            given.append(now)
            mission = Mission.objects.filter(dispatched_at__isnull=False).latest("created_at")
            cancel_mission(mission.pk, by=ANA)
            tell(mission, facts.Cancelled(mission.dispatch_no, ""))
    pauses = [(b - a).total_seconds() for a, b in itertools.pairwise(given)]
    assert len(pauses) >= 3
    assert min(pauses) >= going_on.REST_S[0]
    assert max(pauses) <= going_on.REST_S[1] + 2


def test_every_job_can_be_drawn_up_for_every_brand(make):
    make(6)
    for seed in range(8):
        traffic = going_on.Traffic([f"RB-00{n}" for n in range(1, 7)], seed=seed)
        for robot in Robot.objects.select_related("brand"):
            traffic._draft(robot, robot)
    titles = {mission.title.split()[0].rstrip(":") for mission in Mission.objects.all()}
    assert titles == {"Carry", "Round", "Papers"}


def test_an_empty_battery_is_left_to_the_charge_policy(make, monkeypatch):
    make(1)
    ready("RB-001")
    monkeypatch.setattr(live, "source", lambda ids: {i: live.Facts(START, battery=20.0) for i in ids})
    traffic = going_on.Traffic(["RB-001"])
    for second in range(100):
        traffic.step(START + timedelta(seconds=second))
    assert not Mission.objects.exists()


def test_while_the_database_is_away_that_is_said_once(monkeypatch, caplog):
    answers = iter([OperationalError("away")] * 3 + [None, OperationalError("away"), KeyboardInterrupt()])

    class Busy:
        def step(self, now):
            if answer := next(answers):
                raise answer

    monkeypatch.setattr(command.time, "sleep", lambda _: None)
    monkeypatch.setattr(command, "close_old_connections", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        command.Command()._keep(Busy())
    assert caplog.text.count("no new missions while the database is away: away") == 2

"""What robots say and people impose: mode, fault, holds, presence, credentials."""

import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from fleet.columns import MAX_REASON
from fleet.history import Origin, by_user
from fleet.models import Command, Event, Hold, Robot, RobotCredential
from fleet.refusals import Refused
from fleet.robots import actions, credentials, stopping
from fleet.robots.facts import FaultCleared, Faulted, HoldBack, Reported, StoodStill
from missions.ledger import Ledger
from missions.models import Mission
from tests.actors import START, SYSTEM, online, tell


def say(robot, *facts):
    verdicts = []
    for number, fact in enumerate(facts):
        now = START + timedelta(seconds=number)
        with transaction.atomic():
            ledger = Ledger.open([robot.pk], now=now)
            verdicts.append(str(ledger.tell_robot(robot.pk, fact, Origin("robot", robot.pk, robot.name))))
            ledger.commit()
    robot.refresh_from_db()
    return verdicts


def test_newest_word_wins(robot):
    older = (Reported(7, 2, "idle"), Reported(7, 1, "idle"), Reported(6, 99, "manual"))
    assert say(robot, Reported(7, 2, "running"), *older) == ["applied", "stale", "stale", "stale"]
    assert robot.mode == "running"
    say(robot, Reported(8, 1, "charging"))
    assert robot.mode == "charging"


def test_same_mode_again_moves_the_watermark_only(robot):
    say(robot, Reported(7, 5, "idle"), Reported(7, 7, "idle"))
    since = robot.mode_since
    assert say(robot, Reported(7, 6, "running")) == ["stale"]
    assert (robot.mode, robot.mode_since, robot.word_seq) == ("idle", since, 7)


def test_fault_and_its_end(robot):
    say(robot, Faulted(7, 1, "left wheel blocked", "E42"))
    assert (robot.mode, robot.fault) == ("fault", "left wheel blocked")
    say(robot, FaultCleared(7, 2))
    assert (robot.mode, robot.fault) == ("unknown", "")
    assert say(robot, Faulted(7, 1, "old news")) == ["stale"]


def test_dangerous_fault_stops_the_mission(dispatched, robot):
    Command.objects.update(sent_at=START)
    say(robot, Faulted(7, 1, "smoke", danger=True))
    assert Mission.objects.get(pk=dispatched.pk).abort_reason == "safety"


def test_a_fault_without_danger_and_old_news_of_danger_stop_nothing(dispatched, robot):
    Command.objects.update(sent_at=START)
    assert say(robot, Faulted(7, 2, "low tyre"), Faulted(7, 1, "smoke", danger=True)) == ["applied", "stale"]
    assert Mission.objects.get(pk=dispatched.pk).stop_requested_at is None


def test_stop_is_latched_and_confirmed(robot, supervisor, monkeypatch):
    by = by_user(supervisor)
    monkeypatch.setattr(actions.timezone, "now", lambda: START)
    stopping.stop_robot(robot.pk, by=by, why="blocked aisle")
    hold = Hold.objects.get()
    assert (hold.kind, hold.why, hold.by, hold.confirmed_at) == ("stopped", "blocked aisle", "Ana", None)
    assert say(robot, StoodStill(7, 1)) == ["applied"]
    assert Hold.objects.get().confirmed_at == START


def test_no_words_and_no_name_keep_a_stop_from_being_made(robot, supervisor):
    supervisor.first_name, supervisor.last_name = "A" * 150, "B" * 150
    stopping.stop_robot(robot.pk, by=by_user(supervisor), why=" aisle\x00 " + "x" * 9000)
    hold = Hold.objects.get()
    assert (hold.why[:7], len(hold.why), len(hold.by)) == ("aisle x", MAX_REASON, 200)
    assert stopping.release_robot(robot.pk, by=by_user(supervisor)) is True


def test_stop_again_sends_again_under_one_hold(robot, supervisor):
    by = by_user(supervisor)
    for _ in range(3):
        stopping.stop_robot(robot.pk, by=by)
    assert Hold.objects.count() == 1
    assert Command.objects.filter(kind="robot.stop").count() == 3


def test_release_is_told_to_the_robot_once(robot, supervisor):
    by = by_user(supervisor)
    stopping.stop_robot(robot.pk, by=by)
    assert stopping.release_robot(robot.pk, by=by) is True
    assert stopping.release_robot(robot.pk, by=by) is False
    assert Command.objects.filter(kind="robot.release").count() == 1
    assert Hold.objects.get().released_by == "Ana"


def test_release_of_another_hold_lets_no_robot_move(robot, supervisor):
    say(robot, HoldBack("unconfirmed", "policy"))
    assert stopping.release_robot(robot.pk, number=Hold.objects.get().number, by=by_user(supervisor)) is True
    assert not Command.objects.filter(kind="robot.release").exists()


@pytest.mark.parametrize(
    ("mode", "dispatch_no", "ended", "lifts"),
    [("running", 1, "", False), ("idle", 2, "", False), ("idle", 1, "", True), ("running", 1, "cancelled", True)],
)
def test_only_the_word_that_it_has_ended_that_dispatch_lifts_an_unconfirmed_hold(
    robot, mode, dispatch_no, ended, lifts
):
    mission = uuid.uuid4()
    say(robot, HoldBack("unconfirmed", "policy", mission=mission, dispatch_no=1))
    say(robot, Reported(7, 1, mode, mission, dispatch_no, ended))
    assert (Hold.objects.get().released_at is not None) == lifts


def test_presence_is_recorded_when_it_changes(robot):
    before = Event.objects.count()
    online("RB-001")
    assert Event.objects.count() == before
    online("RB-001", "offline", START + timedelta(minutes=1))
    assert Robot.objects.get(pk="RB-001").presence == "offline"


def test_offline_and_back_reach_the_mission(dispatched):
    online("RB-001", "offline")
    lost = Mission.objects.get(pk=dispatched.pk)
    assert lost.robot_lost_due_at == lost.robot_lost_at + timedelta(seconds=60)  # the brand's abandon_after_s
    online("RB-001")
    assert Mission.objects.get(pk=dispatched.pk).robot_lost_at is None


def test_token_is_kept_as_a_digest_and_out_of_history(robot):
    token = credentials.issue_credential(robot.pk, label="gateway", by=SYSTEM)
    assert credentials.robot_of_token(token) == robot.pk
    credential = RobotCredential.objects.get()
    assert token not in f"{credential.digest}"
    assert not any(credential.digest in e.data or token in e.data for e in Event.objects.all())


def test_several_tokens_each_revocable(robot):
    first, second = (credentials.issue_credential(robot.pk, by=SYSTEM) for _ in range(2))
    credentials.revoke_credential(robot.pk, RobotCredential.objects.earliest("number").number, by=SYSTEM)
    assert (credentials.robot_of_token(first), credentials.robot_of_token(second)) == (None, robot.pk)


@pytest.mark.parametrize("token", ["", "drover_", "x" * 5000, "é\x00"])
def test_wrong_tokens_open_nothing(robot, token):
    credentials.issue_credential(robot.pk, by=SYSTEM)
    assert credentials.robot_of_token(token) is None


def test_retired_robot_is_shut_out_and_kept(robot):
    token = credentials.issue_credential(robot.pk, by=SYSTEM)
    actions.retire_robot(robot.pk, by=SYSTEM)
    assert credentials.robot_of_token(token) is None
    with pytest.raises(IntegrityError), transaction.atomic():
        Robot.objects.filter(pk=robot.pk)._raw_delete("default")
    actions.reinstate_robot(robot.pk, by=SYSTEM)
    assert credentials.robot_of_token(token) == robot.pk


def test_robot_with_a_mission_is_not_retired(dispatched):
    with pytest.raises(Refused, match="has a mission"):
        actions.retire_robot("RB-001", by=SYSTEM)
    assert Robot.objects.get(pk="RB-001").retired_at is None


@pytest.mark.parametrize("robot_id", ["", "a b", "x" * 65, "RB/1", "RB-1\n", "é"])
def test_robot_ids_have_a_form(site, brand, robot_id):
    with pytest.raises(Refused, match="A robot id has"):
        actions.enrol_robot(id=robot_id, name="X", site=site, brand=brand, by=SYSTEM)


def test_an_id_is_enrolled_once(robot, site, brand):
    with pytest.raises(Refused, match="already enrolled"):
        actions.enrol_robot(id="RB-001", name="X", site=site, brand=brand, by=SYSTEM)


def test_unknown_robots_cannot_be_stopped(db):
    with pytest.raises(Refused, match="no robot 'RB-404'"):
        stopping.stop_robot("RB-404", by=SYSTEM)


def test_pause_by_stop_needs_release_before_resume(dispatched, supervisor):
    from missions import actions as mission_actions
    from missions.facts import Accepted, Paused

    tell(dispatched, Accepted(1), Paused(1, 1, 1))
    stopping.stop_robot("RB-001", by=by_user(supervisor), why="spill")
    with pytest.raises(Refused, match="on hold. Stopped by Ana: spill"):
        mission_actions.resume_mission(dispatched.pk, by=by_user(supervisor))
    stopping.release_robot("RB-001", by=by_user(supervisor))
    mission_actions.resume_mission(dispatched.pk, by=by_user(supervisor))

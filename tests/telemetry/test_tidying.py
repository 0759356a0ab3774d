"""What is old goes, what is needed stays, and a message that was forgotten still has one effect."""

import threading
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from fleet.alerts.actions import clear_alert, raise_alert
from fleet.history import by_user
from fleet.models import Alert, AlertMail, Command, Delivery, Event, SessionRecord
from fleet.robots.stopping import stop_robot
from missions.models import DeadLetter
from telemetry.keeping import tidying
from telemetry.keeping.tidying import Tidying
from telemetry.models import FailedTry, Link, ProcessedMessage, Watermark
from tests.telemetry.robots_talk import NOW, message, say, work

pytestmark = pytest.mark.django_db
OLD = NOW - timedelta(days=1000)


def tidy(now: datetime = NOW) -> dict[str, int]:
    round = Tidying(rest=lambda s: None)
    round.whole_round(now)
    return dict(round.deleted)


def command(robot, state: str, at: datetime = OLD, *, kind: str = "mission.assign", mission=None) -> Command:
    return Command.objects.create(
        robot=robot, kind=kind, body="{}", state=state, created_at=at, mission=mission and mission.pk
    )


def test_commands_go_when_they_are_old_and_nobody_needs_them(robot, dispatched, other_robot, supervisor):
    gone = [command(robot, state) for state in ("delivered", "withdrawn", "dead")]
    stays = [
        command(robot, "delivered", NOW - timedelta(days=settings.KEEP_DAYS["commands"] - 1)),
        command(robot, "open", kind="mission.cancel"),  # a tombstone that the robot has not heard of
        command(robot, "delivered", mission=dispatched),
    ]
    gone.append(command(other_robot, "delivered", kind="robot.stop"))
    stop_robot("RB-001", by=by_user(supervisor))
    stays.append(command(robot, "delivered", kind="robot.stop"))  # its hold is open
    for one in (gone[0], stays[0]):
        Delivery.objects.create(command=one)
    assert tidy()["fleet_command"] == len(gone)
    assert Delivery.objects.get().command == stays[0]
    left = set(Command.objects.values_list("pk", flat=True))
    assert not left & {c.pk for c in gone}
    assert {c.pk for c in stays} <= left


def test_what_was_mailed_goes_when_its_alert_is_over_for_long():
    for cause in ("over", "open"):
        raise_alert(cause, severity="warning", text=cause, now=OLD)
        AlertMail.objects.create(alert=Alert.objects.get(cause=cause), news="opened", address="a@b.example", due_at=OLD)
    clear_alert("over", now=OLD)
    assert tidy() == {"fleet_alertmail": 1}
    assert AlertMail.objects.get().alert.cause == "open"


def test_sign_ins_go_once_nobody_is_signed_in_with_them(admin_person):
    for key, at, ends in (("gone", OLD, OLD), ("signed-in", OLD, None), ("lately", NOW, OLD)):
        SessionRecord.objects.create(key=key, user=admin_person, created_at=at, last_seen_at=at)
        Session.objects.create(session_key=key, session_data="", expire_date=ends or timezone.now() + timedelta(days=1))
    assert tidy() == {"django_session": 2, "fleet_sessionrecord": 1}
    assert set(SessionRecord.objects.values_list("key", flat=True)) == {"signed-in", "lately"}


def test_dead_letters_go_once_they_are_settled_for_long():
    for number, (state, at) in enumerate(
        [("applied", OLD), ("discarded", OLD), ("open", OLD), ("failed", OLD), ("requeued", OLD), ("applied", NOW)]
    ):
        DeadLetter.objects.create(
            direction="in", robot_id="RB-001", msg_id=uuid4(), body="{}", reason=str(number), created_at=OLD, state=state,
            settled_at=at,
        )  # fmt: skip
    assert tidy() == {"missions_deadletter": 2}
    assert set(DeadLetter.objects.values_list("reason", flat=True)) == {"2", "3", "4", "5"}


def test_failed_tries_go_by_the_time_in_their_entry():
    for at in (OLD, NOW):
        FailedTry.objects.create(partition=0, entry=f"{int(at.timestamp() * 1000)}-3", tries=1)
    assert tidy() == {"telemetry_failedtry": 1}


def remembered(seq: int, session: int = 1, robot: str = "RB-001", at: datetime = OLD) -> None:
    ProcessedMessage.objects.create(
        robot_id=robot, msg_id=uuid4(), session=session, seq=seq, verdict="applied", received_at=at, applied_at=at
    )


def left() -> set[tuple[int, int]]:
    return set(ProcessedMessage.objects.values_list("session", "seq"))


def test_old_messages_are_known_by_their_number_from_then_on(robot):
    Watermark.objects.create(robot=robot, session=1, applied_seq=3)
    Watermark.objects.create(robot=robot, session=2, applied_seq=1)
    for session, seq, at in ((1, 1, OLD), (1, 2, OLD), (1, 3, NOW), (2, 1, OLD), (0, 0, OLD)):
        remembered(seq, session, at=at)
    remembered(9, 4, robot="RB-GONE")
    assert tidy() == {"telemetry_processedmessage": 5}
    assert left() == {(1, 3)}
    assert dict(Watermark.objects.values_list("session", "forgotten_seq")) == {1: 2, 2: 1}


def test_nothing_above_the_watermark_is_forgotten_before_the_gap_is_given_up(robot):
    Watermark.objects.create(robot=robot, session=1, applied_seq=2)
    for seq in (1, 2, 5, 6, 8):
        remembered(seq)
    assert tidy() == {"telemetry_processedmessage": 2}
    assert Watermark.objects.get().applied_seq == 6  # given up: 3 and 4; 7 is the next to be
    letter = DeadLetter.objects.get()
    assert (letter.robot_id, letter.direction) == ("RB-001", "in")
    assert "numbers 3 to 4 of session 1 never came" in letter.reason
    assert tidy() == {"telemetry_processedmessage": 2}
    assert tidy() == {"telemetry_processedmessage": 1}
    assert left() == set()
    mark = Watermark.objects.get()
    assert (mark.applied_seq, mark.forgotten_seq) == (8, 8)


def test_a_gap_that_is_young_is_waited_for(robot):
    Watermark.objects.create(robot=robot, session=1, applied_seq=2)
    remembered(5, at=NOW)
    assert tidy() == {}
    assert Watermark.objects.get().applied_seq == 2
    assert not DeadLetter.objects.exists()


def test_a_number_far_ahead_of_its_turn_makes_nothing_of_what_follows_pass_for_said(robot):
    Watermark.objects.create(robot=robot, session=1, applied_seq=3)
    for seq, at in ((1, OLD), (2, OLD), (2**63 - 1, OLD), (3, NOW)):
        remembered(seq, at=at)
    for _ in range(3):
        tidy()
    mark = Watermark.objects.get()
    assert (mark.applied_seq, mark.forgotten_seq) == (3, 2)


def test_a_robot_whose_gap_is_given_up_counts_on_in_a_new_session(robot, other_robot):
    for one in (robot, other_robot):
        Link.objects.create(robot=one, session=2, gateway="host:1")
    remembered(2**63 - 1, session=2)
    remembered(9, session=1, robot=other_robot.pk)
    tidy()
    assert dict(Link.objects.values_list("robot_id", "gateway")) == {robot.pk: "", other_robot.pk: "host:1"}


def test_a_session_without_its_first_message_is_no_obstacle(robot):
    remembered(10**15)
    tidy()
    assert Watermark.objects.get().applied_seq == 10**15


def test_the_oldest_sessions_of_a_robot_are_forgotten_as_a_whole(robot, other_robot, settings):
    settings.KEEP_ROBOT_SESSIONS = 3
    for who in (robot, other_robot):
        Link.objects.create(robot=who, session=9)
    for session in range(1, 7):
        Watermark.objects.create(robot=robot, session=session, applied_seq=1)
    Watermark.objects.create(robot=other_robot, session=1, applied_seq=1)
    remembered(1, session=3, at=NOW)  # not forgotten: that session stays, and those after it
    assert tidy() == {"telemetry_watermark": 2}
    assert set(robot.watermark_set.values_list("session", flat=True)) == {3, 4, 5, 6}
    assert other_robot.watermark_set.count() == 1
    assert dict(Link.objects.values_list("robot", "forgotten_session")) == {"RB-001": 2, other_robot.pk: 0}
    ProcessedMessage.objects.all().delete()
    assert tidy() == {"telemetry_watermark": 1}


def test_many_rows_go_in_slices_and_a_step_ends_in_time(robot, monkeypatch):
    monkeypatch.setattr(tidying, "SLICE", 10)
    ticks = iter(range(10_000))
    round = Tidying(rest=lambda s: None, clock=lambda: float(next(ticks)))
    monkeypatch.setattr(tidying, "BUSY_S", 3.0)
    for _ in range(35):
        FailedTry.objects.create(partition=0, entry=f"{int(OLD.timestamp() * 1000)}-{uuid4().int % 10**9}")
    steps = 1
    while round.step(NOW):
        steps += 1
        assert steps < 100
    assert steps > 3
    assert round.deleted == {"telemetry_failedtry": 35}
    assert not round.step(NOW)  # the next round is an hour from now


def test_duplicates_of_forgotten_messages_have_no_second_effect(worker, clock, durable, robot):
    said = [message("RB-001", "robot.fault", n, data={"code": f"E{n}", "text": "stuck"}) for n in (1, 2)]
    say(*said)
    work(worker, clock)
    before = Event.objects.count()
    assert tidy(timezone.now() + timedelta(days=100))["telemetry_processedmessage"] == 2
    durable.delete(*durable.keys("seen:*"))
    say(*said)
    work(worker, clock)
    assert Event.objects.count() == before
    assert not ProcessedMessage.objects.exists()


def test_a_dry_run_says_how_much_and_deletes_nothing(robot, capsys):
    Watermark.objects.create(robot=robot, session=1, applied_seq=3)
    remembered(1)
    command(robot, "delivered")
    call_command("tidy", "--dry-run")
    said = capsys.readouterr().out
    assert "2 rows would go" in said
    assert ProcessedMessage.objects.exists()
    call_command("tidy")
    assert "2 rows deleted" in capsys.readouterr().out
    assert not ProcessedMessage.objects.exists()


def test_the_history_is_never_touched(robot, dispatched):
    before = list(Event.objects.values_list("id", flat=True))
    tidy(datetime(2200, 1, 1, tzinfo=UTC))
    assert list(Event.objects.values_list("id", flat=True)) == before


def test_nothing_is_deleted_whose_number_was_not_noted_after_all(robot):
    Watermark.objects.create(robot=robot, session=1, applied_seq=3)
    for seq in (1, 2, 3):
        remembered(seq)
    round = Tidying(rest=lambda s: None)
    with connection.cursor() as cursor:
        assert round._messages(cursor, NOW)
        Watermark.objects.update(forgotten_seq=2)  # as if a part of it had been lost
        assert not round._messages(cursor, NOW)
    assert left() == {(1, 3)}


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_left_for_the_next_round(robot):
    Watermark.objects.create(robot=robot, session=1, applied_seq=3)
    remembered(1)
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM telemetry_watermark FOR NO KEY UPDATE")
            held.set()
            over.wait(10)
        connection.close()

    somebody = threading.Thread(target=hold)
    somebody.start()
    held.wait(10)
    assert tidy() == {}
    over.set()
    somebody.join()
    assert tidy() == {"telemetry_processedmessage": 1}

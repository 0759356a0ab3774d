"""A message that cannot be applied costs nobody else anything and ends, in words, in the dead letters."""

from uuid import uuid4

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError

from fleet.commit import Conflict
from missions.models import DeadLetter, Mission
from telemetry import protocol, stream, translate
from telemetry.failures import Blame, blame
from telemetry.models import FailedTry, ProcessedMessage
from telemetry.partitions import Lost
from telemetry.worker import batch
from telemetry.worker.messages import RACES
from telemetry.worker.poison import TRIES
from tests.telemetry.robots_talk import message, say, whole_life, work


@pytest.fixture
def poisonous(monkeypatch):
    """Messages whose ids are added here raise in application code; returns the set and the tries seen."""
    ids, tries, tell = set(), [], translate.tell

    def told(ledger, up, received_at):
        if str(up.msg_id) in ids:
            tries.append(str(up.msg_id))
            raise ZeroDivisionError("a bug\x00")
        return tell(ledger, up, received_at)

    monkeypatch.setattr(translate, "tell", told)
    return ids, tries


def pending(durable) -> int:
    return sum(durable.xpending(name, stream.GROUP)["pending"] for name in durable.keys("in:*"))


def same_partition(*, other_than: str) -> str:
    """Another robot id of the same partition."""
    return next(
        f"RX-{n}" for n in range(1000) if stream.partition_of(f"RX-{n}") == stream.partition_of(other_than)
    )  # fmt: skip


@pytest.mark.parametrize("kind", [name for name, row in protocol.TYPES.items() if row.channel == "critical"])
@pytest.mark.parametrize("data", [{}, {"mode": "odd"}, {"reply_to": 7}])
def test_a_message_with_wrong_data_is_dead_at_once_and_fails_nothing(worker, clock, dispatched, caplog, kind, data):
    of = {"mission": str(uuid4()), "dispatch_no": 1, "step": 1, "attempt": 1}
    say(message("RB-001", kind, 1, data=data) | of)
    work(worker, clock)
    say(message("RB-001", "robot.state", 2, data={"mode": "idle"}))
    work(worker, clock)
    assert not [record for record in caplog.records if record.exc_info]
    assert not FailedTry.objects.exists()
    assert ProcessedMessage.objects.count() == 2


def test_a_poisonous_message_is_a_dead_letter_after_its_tries(worker, clock, dispatched, durable, poisonous, caplog):
    ids, tries = poisonous
    bad = message("RB-001", "robot.fault", 1, data={"code": "E1", "text": "boom"})
    ids.add(bad["msg_id"])
    say(bad)
    work(worker, clock)
    letter = DeadLetter.objects.get()
    assert (letter.direction, letter.robot_id, str(letter.msg_id)) == ("in", "RB-001", bad["msg_id"])
    assert (letter.kind, letter.tries) == ("robot.fault", TRIES + 1)
    assert letter.reason == "ZeroDivisionError: a bug\N{REPLACEMENT CHARACTER}"
    assert '"code": "E1"' in letter.body
    assert len(tries) == TRIES + 1
    assert ProcessedMessage.objects.get().verdict == "dead"
    assert (pending(durable), FailedTry.objects.count()) == (0, 0)
    assert [r for r in caplog.records if "dead letter" in r.message]


def test_a_race_that_is_lost_for_ever_counts_against_its_message(worker, clock, dispatched, monkeypatch):
    """Else a row that is broken would stop its partition for good."""
    lost = []

    def told(*_):
        lost.append(1)
        raise Conflict("somebody was faster")

    monkeypatch.setattr(translate, "tell", told)
    say(message("RB-001", "robot.fault_cleared", 1, data={"code": "E"}))
    work(worker, clock)
    assert len(lost) == RACES + TRIES + 1
    assert DeadLetter.objects.get().reason == "Conflict: somebody was faster"


def test_a_big_batch_with_one_poisonous_message_applies_all_the_others(
    worker, clock, dispatched, durable, poisonous, monkeypatch
):
    ids, _ = poisonous
    bad = message("RB-001", "robot.fault", 6, data={"code": "E1", "text": "boom"})
    ids.add(bad["msg_id"])
    sizes, apply = [], batch.apply
    monkeypatch.setattr(batch, "apply", lambda p, f, e, **kw: (sizes.append(len(e)), apply(p, f, e, **kw))[1])
    stranger = same_partition(other_than="RB-001")
    say(
        *whole_life(dispatched, 3),
        bad,
        *(message(stranger, "robot.fault_cleared", data={"code": "E"}) for _ in range(58)),
    )
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "success"
    assert DeadLetter.objects.filter(robot_id="RB-001").count() == 1
    assert ProcessedMessage.objects.count() == 64
    assert pending(durable) == 0
    assert len(sizes) < 30  # bisected: not one transaction per message


def test_the_later_messages_of_the_same_robot_wait_so_that_the_order_holds(worker, clock, dispatched, poisonous):
    ids, tries = poisonous
    accepted, *rest = whole_life(dispatched, 3)
    ids.add(accepted["msg_id"])
    say(accepted, *rest)
    worker.step(clock.now, clock.tick)
    assert len(tries) >= 1
    assert not ProcessedMessage.objects.exists()
    ids.clear()  # the bug is mended before the tries are used up
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "success"
    assert not DeadLetter.objects.exists()
    assert set(ProcessedMessage.objects.values_list("verdict", flat=True)) == {"applied"}  # none came early


def test_the_count_of_failed_tries_survives_the_worker(worker, clock, dispatched, poisonous):
    ids, tries = poisonous
    bad = message("RB-001", "robot.fault", 1, data={"code": "E1", "text": "boom"})
    ids.add(bad["msg_id"])
    say(bad)
    worker.step(clock.now, clock.tick)
    worker.step(clock.now, clock.tick)
    assert FailedTry.objects.get().tries == 2
    worker.partitions.fences, worker.messages.unfinished = {}, set()  # a new process knows nothing
    worker.partitions.release()
    clock.advance(1)
    work(worker, clock)
    assert len(tries) == TRIES + 1
    assert DeadLetter.objects.get().tries == TRIES + 1


@pytest.mark.parametrize(
    ("raw", "kind", "reason"),
    [
        (message("RB-001", "robot.dance"), "robot.dance", "type: robot.dance is not known"),
        (message("RB-001", "robot.fault", data={"code": 7}), "robot.fault", "data.code"),
        (message("RB-001", "mission.accepted"), "mission.accepted", "mission: mission.accepted needs it"),
        (b"{not json", "", "message"),
        (b'{"a": "\x00"}', "", "NUL"),
        (b"\xff\xfe", "", "UTF-8"),
    ],
    ids=["unknown type", "bad data", "mission missing", "not json", "nul", "not utf-8"],
)
def test_what_cannot_be_understood_is_a_dead_letter_at_once(worker, clock, robot, durable, raw, kind, reason):
    say(raw)
    work(worker, clock)
    letter = DeadLetter.objects.get()
    assert letter.kind == kind
    assert reason in letter.reason
    assert ProcessedMessage.objects.get().verdict == "dead"
    assert pending(durable) == 0


def test_a_message_of_an_unknown_robot_is_a_dead_letter(worker, clock, robot, durable):
    say(message("NOBODY", "robot.fault_cleared", data={"code": "E"}))
    work(worker, clock)
    assert DeadLetter.objects.get().reason == "there is no robot of this id"
    assert pending(durable) == 0


def test_a_message_that_speaks_for_another_robot_is_a_dead_letter(worker, clock, robot, other_robot):
    import json

    say(json.dumps(message("RB-002", "robot.state", data={"mode": "idle"})).encode(), robot="RB-001")
    work(worker, clock)
    assert DeadLetter.objects.get().reason == "it speaks for RB-002"


def test_a_constraint_that_the_message_breaks_counts_against_it(worker, clock, dispatched, monkeypatch):
    """IntegrityError may also mean a lost race: the name of the constraint tells them apart."""

    def forget_the_deadline(ledger, up, received_at):
        change = ledger.missions[dispatched.pk]
        change.now = received_at
        change.record("mission.delivered", undelivered_due_at=None)
        return "applied"

    monkeypatch.setattr(translate, "tell", forget_the_deadline)
    say(message("RB-001", "mission.accepted", mission=dispatched))
    work(worker, clock)
    letter = DeadLetter.objects.get()
    assert letter.tries == TRIES + 1
    assert "mission_dispatched_has_deadline" in letter.reason


class Raced(psycopg.errors.UniqueViolation):
    def __init__(self, constraint: str):
        self._constraint = constraint

    @property
    def diag(self):
        return type("Diag", (), {"constraint_name": self._constraint, "sqlstate": "23505"})()


def because(error: Exception, cause: Exception | None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ValueError("x"), Blame.MESSAGE),
        (KeyError("x"), Blame.MESSAGE),
        (Conflict("x"), Blame.RACE),
        (Lost("x"), Blame.LOST),
        (stream.redis.ConnectionError(), Blame.OUTAGE),
        (stream.redis.TimeoutError(), Blame.OUTAGE),
        (InterfaceError("connection is closed"), Blame.OUTAGE),
        (because(OperationalError(), None), Blame.OUTAGE),
        (because(OperationalError(), psycopg.OperationalError("server closed the connection")), Blame.OUTAGE),
        (because(IntegrityError(), Raced("event_seq_once")), Blame.RACE),
        (because(IntegrityError(), Raced("processed_once")), Blame.RACE),
        (because(IntegrityError(), Raced("mission_aborted_has_reason")), Blame.MESSAGE),
        (because(DatabaseError(), None), Blame.MESSAGE),
    ],
    ids=lambda value: getattr(value, "name", None) or repr(value),
)
def test_whose_fault_an_exception_is(error, fault):
    assert blame(error) is fault


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sqlstate", "fault"),
    [("40P01", Blame.RACE), ("40001", Blame.RACE), ("0A000", Blame.RACE), ("57P01", Blame.OUTAGE), ("53100", Blame.OUTAGE),
     ("25P03", Blame.OUTAGE), ("54000", Blame.MESSAGE), ("22001", Blame.MESSAGE), ("23514", Blame.MESSAGE)],
)  # fmt: skip
def test_what_postgresql_says_is_told_apart_by_its_code(sqlstate, fault):
    from django.db import connection, transaction

    with pytest.raises(DatabaseError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{sqlstate}'; END $$")
    assert blame(caught.value) is fault


def test_dead_letters_of_one_robot_in_one_batch_are_one_line_of_the_log(worker, clock, robot, caplog):
    work(worker, clock)
    say(*(message("RB-001", "robot.nonsense", seq) for seq in range(1, 31)))
    work(worker, clock)
    assert DeadLetter.objects.count() == 30
    assert [r.message[-13:] for r in caplog.records if "dead letter" in r.message] == ["(and 29 more)"]

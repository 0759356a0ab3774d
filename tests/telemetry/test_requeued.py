"""Dead letters that are requeued: applied exactly once, in their robot's order, and everybody is told what became of it."""

import pytest

from fleet.history import by_user
from fleet.models import Alert, Command, CommandState, Event, Hold
from fleet.robots import actions as fleet_actions
from fleet.robots import stopping
from missions import actions
from missions.letters import actions as letter_actions
from missions.letters.actions import discard_letter, requeue_letter
from missions.models import DeadLetter, LetterDecision, Mission
from telemetry import stream, translate
from telemetry.models import ProcessedMessage, Watermark
from telemetry.worker.poison import TRIES
from tests.actors import SYSTEM
from tests.telemetry.robots_talk import message, say, whole_life, work
from tests.together import together


@pytest.fixture
def bug(monkeypatch):
    """While it is set, every message raises in application code."""
    broken, tell = [True], translate.tell

    def told(ledger, up, received_at):
        if broken:
            raise ZeroDivisionError("a bug")
        return tell(ledger, up, received_at)

    monkeypatch.setattr(translate, "tell", told)
    return broken


@pytest.fixture
def letter(worker, clock, dispatched, bug) -> DeadLetter:
    """The robot's `accepted`, buried by a bug that is mended since."""
    say(message("RB-001", "mission.accepted", 1, mission=dispatched))
    work(worker, clock)
    bug.clear()
    return DeadLetter.objects.get()


def again(worker, clock) -> DeadLetter:
    clock.advance(2)
    work(worker, clock)
    return DeadLetter.objects.get()


def test_a_requeued_letter_is_applied_and_says_what_became_of_it(worker, clock, letter, supervisor):
    mark = Watermark.objects.get().applied_seq
    assert requeue_letter(letter.pk, by=by_user(supervisor)) == "requeued"
    assert DeadLetter.objects.get().state == "requeued"
    done = again(worker, clock)
    assert (done.state, done.result) == ("applied", "It was applied. “Fetch” is now executing.")
    assert (done.requeued_by, done.settled_at) == (supervisor.username, clock.now)
    assert Mission.objects.get().state == "executing"
    assert ProcessedMessage.objects.get().verdict == "applied"
    assert Watermark.objects.get().applied_seq == mark


def test_it_is_applied_after_what_the_robot_said_before_the_requeue(worker, clock, letter, dispatched, supervisor):
    """It goes to the end of its partition's stream, where its robot's other words are."""
    _, *rest = whole_life(dispatched, 3)
    say(*rest[:1])
    requeue_letter(letter.pk, by=by_user(supervisor))
    again(worker, clock)
    verdicts = list(
        Event.objects.filter(aggregate=f"mission:{dispatched.pk}").order_by("seq").values_list("kind", flat=True)
    )
    assert verdicts.index("mission.receipt_early") < verdicts.index("mission.started")
    assert Mission.objects.get().state in ("executing", "step_completed")


def test_a_word_that_it_stands_confirms_no_stop_of_after_it(worker, clock, robot, bug, supervisor, monkeypatch):
    say(message("RB-001", "robot.stopped", 1))
    work(worker, clock)
    bug.clear()
    monkeypatch.setattr(fleet_actions.timezone, "now", lambda: clock.now)
    clock.advance(3600)
    stopping.stop_robot("RB-001", by=SYSTEM)
    requeue_letter(DeadLetter.objects.get().pk, by=by_user(supervisor))
    assert again(worker, clock).state == "applied"
    assert Hold.objects.get().confirmed_at is None


def test_an_entry_that_comes_twice_has_one_effect(worker, clock, letter, supervisor):
    requeue_letter(letter.pk, by=by_user(supervisor))
    twice = [(letter.pk, letter.robot_id, letter.msg_id, letter.body.encode(), clock.now)] * 3
    worker.step(clock.now, clock.tick)
    worker.streams.requeue(twice)  # in the batch of the first
    first = again(worker, clock)
    worker.streams.requeue(twice)  # after it
    assert again(worker, clock).settled_at == first.settled_at
    assert first.state == "applied" and ProcessedMessage.objects.get().verdict == "applied"
    assert Event.objects.filter(kind="mission.started").count() == 1


def test_an_entry_whose_letter_nobody_requeued_is_passed_over(worker, clock, letter):
    worker.step(clock.now, clock.tick)
    worker.streams.requeue([(letter.pk, letter.robot_id, letter.msg_id, letter.body.encode(), clock.now)])
    assert again(worker, clock).state == "open"
    assert Mission.objects.get().state == "pending"


def test_what_the_stream_lost_is_put_there_again(worker, clock, letter, durable, supervisor):
    requeue_letter(letter.pk, by=by_user(supervisor))
    clock.advance(2)
    worker.requeued.step(clock.now, worker.fences)
    durable.flushdb()
    clock.advance(30)
    work(worker, clock)
    assert DeadLetter.objects.get().state == "requeued"
    clock.advance(60)
    assert again(worker, clock).state == "applied"


def test_one_that_fails_again_says_so_and_may_be_requeued_again(worker, clock, letter, bug, supervisor):
    bug.append(True)
    requeue_letter(letter.pk, by=by_user(supervisor))
    failed = again(worker, clock)
    assert (failed.state, failed.tries) == ("failed", TRIES + 1)
    assert failed.result == "It failed again: ZeroDivisionError: a bug"
    bug.clear()
    assert requeue_letter(letter.pk, by=by_user(supervisor)) == "requeued"
    assert again(worker, clock).state == "applied"
    assert LetterDecision.objects.get().requeues == 2


def test_one_that_can_never_be_understood_fails_again_at_once(worker, clock, robot, supervisor):
    say(b'{"a": "\x00"}')
    work(worker, clock)
    requeue_letter(DeadLetter.objects.get().pk, by=by_user(supervisor))
    failed = again(worker, clock)
    assert (failed.state, failed.result[:16]) == ("failed", "It failed again:")


def test_a_letter_that_came_too_late_says_so(worker, clock, letter, dispatched, supervisor):
    say(*whole_life(dispatched, 3, seq=2))
    again(worker, clock)
    requeue_letter(letter.pk, by=by_user(supervisor))
    done = again(worker, clock)
    assert done.state == "applied" and "too late" in done.result and "“Fetch” is now success" in done.result


def test_a_worker_leaves_letters_of_other_partitions_alone(worker, clock, letter, supervisor):
    requeue_letter(letter.pk, by=by_user(supervisor))
    others = set(worker.fences) - {stream.partition_of("RB-001")}
    assert worker.requeued.step(clock.now, dict.fromkeys(others, 1)) is False
    assert DeadLetter.objects.get().stored_at is None


# --- decisions


@pytest.mark.django_db(transaction=True)
def test_five_clicks_of_two_people_are_one_requeue(dispatched, supervisor, admin_person):
    letter = DeadLetter.objects.create(
        direction="in", robot_id="RB-001", msg_id=dispatched.pk, body="{}", reason="x", created_at=dispatched.created_at
    )
    people = (supervisor, admin_person) * 2 + (supervisor,)
    said = together(*(lambda p=p: requeue_letter(letter.pk, by=by_user(p)) for p in people))
    assert sorted(map(str, said)) == ["requeued"] + ["requeued already"] * 4
    assert Event.objects.filter(kind="letter.requeued").count() == 1


def test_discarding_needs_a_reason_and_leaves_a_trace(letter, supervisor):
    with pytest.raises(letter_actions.Refused, match="Say why"):
        discard_letter(letter.pk, by=by_user(supervisor), why="  ")
    assert discard_letter(letter.pk, by=by_user(supervisor), why="the bug is known") == "discarded"
    assert discard_letter(letter.pk, by=by_user(supervisor), why="again") == "discarded already"
    with pytest.raises(letter_actions.Refused, match="the bug is known"):
        requeue_letter(letter.pk, by=by_user(supervisor))
    event = Event.objects.get(aggregate=f"letter:{letter.pk}")
    assert (event.actor_name, event.site_id) == (supervisor.username, supervisor.person.memberships.get().site_id)
    assert "the bug is known" in event.data


def test_one_that_is_under_way_or_applied_is_not_discarded(worker, clock, letter, supervisor):
    requeue_letter(letter.pk, by=by_user(supervisor))
    with pytest.raises(letter_actions.Refused, match="has requeued it"):
        discard_letter(letter.pk, by=by_user(supervisor), why="x")
    again(worker, clock)
    with pytest.raises(letter_actions.Refused, match="nothing left to discard"):
        discard_letter(letter.pk, by=by_user(supervisor), why="x")
    assert requeue_letter(letter.pk, by=by_user(supervisor)) == "applied already"


def test_a_letter_of_an_unknown_robot_leaves_a_trace_without_a_site(worker, clock, robot, admin_person):
    say(message("NOBODY", "robot.fault_cleared", data={"code": "E"}))
    work(worker, clock)
    letter = DeadLetter.objects.get()
    requeue_letter(letter.pk, by=by_user(admin_person))
    assert again(worker, clock).result == "It failed again: there is no robot of this id"
    assert Event.objects.get(aggregate=f"letter:{letter.pk}").site_id is None


# --- commands


def _bury(command) -> DeadLetter:
    Command.objects.filter(pk=command.pk).update(state=CommandState.DEAD)
    return DeadLetter.objects.create(
        direction="out", robot_id=command.robot_id, msg_id=command.pk, kind=command.kind, body=command.body,
        reason="no answer", created_at=command.created_at,
    )  # fmt: skip


def test_a_requeued_command_is_open_again_with_the_same_msg_id(dispatched, supervisor):
    command = Command.objects.get(kind="mission.assign")
    letter = _bury(command)
    assert requeue_letter(letter.pk, by=by_user(supervisor)) == "requeued"
    assert Command.objects.get(kind="mission.assign").state == "open"
    assert requeue_letter(letter.pk, by=by_user(supervisor)) == "requeued already"


@pytest.mark.parametrize(("state", "words"), [("delivered", "has taken it"), ("withdrawn", "nobody wants it any more")])
def test_a_requeued_command_is_settled_when_it_was_taken_or_withdrawn(
    worker, clock, dispatched, supervisor, state, words
):
    letter = _bury(Command.objects.get(kind="mission.assign"))
    Command.objects.update(state=state)
    assert again(worker, clock).state == "open", "nobody has requeued it"
    Command.objects.update(state="dead")
    requeue_letter(letter.pk, by=by_user(supervisor))
    assert again(worker, clock).state == "requeued"
    Command.objects.update(state=state)
    done = again(worker, clock)
    assert done.state == "applied" and words in done.result


def test_a_command_of_a_mission_that_stops_or_has_ended_is_refused_in_words(dispatched, supervisor):
    command = Command.objects.get(kind="mission.assign")
    Command.objects.update(sent_at=command.created_at)
    actions.cancel_mission(dispatched.pk, by=SYSTEM)
    letter = _bury(command)
    with pytest.raises(letter_actions.Refused, match="is being stopped"):
        requeue_letter(letter.pk, by=by_user(supervisor))
    assert DeadLetter.objects.get().state == "open"
    assert not Event.objects.filter(kind="letter.requeued").exists()


def test_a_command_of_an_earlier_dispatch_is_refused_in_words(dispatched, supervisor):
    letter = _bury(Command.objects.get(kind="mission.assign"))
    Command.objects.update(dispatch_no=dispatched.dispatch_no + 1)
    with pytest.raises(letter_actions.Refused, match="belongs to an earlier dispatch"):
        requeue_letter(letter.pk, by=by_user(supervisor))
    assert Command.objects.get(kind="mission.assign").state == "dead"


def test_a_command_of_a_retired_robot_is_refused_in_words(robot, supervisor):
    stopping.stop_robot("RB-001", by=SYSTEM)
    fleet_actions.retire_robot("RB-001", by=SYSTEM)
    letter = _bury(Command.objects.get(kind="robot.stop"))
    with pytest.raises(letter_actions.Refused, match="is retired"):
        requeue_letter(letter.pk, by=by_user(supervisor))
    assert Command.objects.get(kind="robot.stop").state == "dead"
    fleet_actions.reinstate_robot("RB-001", by=SYSTEM)
    assert requeue_letter(letter.pk, by=by_user(supervisor)) == "requeued"


def test_a_command_that_dies_again_is_the_same_letter(dispatched, supervisor, clock):
    from missions.letters.rows import bury_command

    command = Command.objects.get(kind="mission.assign")
    letter = _bury(command)
    requeue_letter(letter.pk, by=by_user(supervisor))
    bury_command(command, "no answer after 5 tries", 5, clock.now)
    found = DeadLetter.objects.get()
    assert (found.pk, found.state, found.result) == (letter.pk, "failed", "It failed again: no answer after 5 tries")


def test_reasons_that_differ_only_in_numbers_and_ids_are_alike(dispatched):
    for n in (1, 25):
        DeadLetter.objects.create(
            direction="in", robot_id="RB-001", msg_id=f"00000000-0000-0000-0000-00000000000{n % 10}", body="",
            reason=f"event {n} of mission {dispatched.pk} is no event", created_at=dispatched.created_at,
        )  # fmt: skip
    assert set(DeadLetter.objects.values_list("reason_group", flat=True)) == {"event # of mission # is no event"}


@pytest.mark.parametrize("how", ["applied", "discarded"])
def test_the_alert_ends_with_the_last_of_its_letters(worker, clock, letter, supervisor, how):
    again(worker, clock)
    assert Alert.objects.get(cause="dead_letter:robot:RB-001").cleared_at is None
    if how == "applied":
        requeue_letter(letter.pk, by=by_user(supervisor))
    else:
        discard_letter(letter.pk, by=by_user(supervisor), why="the bug is known")
    assert again(worker, clock).state == how
    again(worker, clock)
    assert Alert.objects.get(cause="dead_letter:robot:RB-001").cleared_why == "its condition is gone"

"""History is the truth (I9), append-only and chained (I10), one with its rows (I2): what is folded, hashed, found."""

import json

import pytest
from django.db import connection, transaction

from fleet.commit import Conflict, commit, load
from fleet.history import AGGREGATES, HASHED, KINDS, digest, fold, sentence
from fleet.models import Event, Robot
from fleet.robots import actions
from missions import invariants
from missions.models import Mission, Step
from tests.actors import START, SYSTEM


def columns_without_event(model, prefix, outside):
    named = {name for kind in KINDS.values() if kind.name.startswith(prefix) for name in kind.sets}
    return {f.attname for f in model._meta.concrete_fields} - named - outside


def test_catalogue_covers_every_column():
    """Whatever can change has its event: key, version and what is derived are all that is left."""
    assert columns_without_event(Mission, "mission.", {"id", "state", "version", "next_due_at"}) == set()
    assert columns_without_event(Robot, "robot.", {"id", "version", "next_due_at"}) == set()
    for aggregate in AGGREGATES.values():
        for child, model in aggregate.children.items():
            named = {n.split(".")[1] for k in KINDS.values() for n in k.sets if n.startswith(f"{child}.")}
            known = {"id", "number", aggregate.parent(child), *aggregate.outside}
            assert {f.attname for f in model._meta.concrete_fields} - named - known == set(), model


def test_catalogue_names_only_columns_that_exist():
    for kind in KINDS.values():
        aggregate = AGGREGATES[kind.name.partition(".")[0]]
        for name in kind.sets:
            child, _, column = name.rpartition(".")
            model = aggregate.children[child] if child else aggregate.model
            assert column == "gone" or column in {f.attname for f in model._meta.concrete_fields}, (kind.name, name)


def test_catalogue_refuses_what_it_does_not_name(robot):
    with transaction.atomic():
        change = load(AGGREGATES["robot"], ["RB-001"])["RB-001"]
        change.now = START
        with pytest.raises(ValueError, match="robot.retired may not carry 'name'"):
            change.record("robot.retired", name="X")
        with pytest.raises(ValueError, match="may not set holds.kind"):
            change.record("robot.stop_confirmed", holds=[{"number": 3, "kind": "stopped"}])
        with pytest.raises(ValueError, match="already in the catalogue"):
            from fleet.history import kind

            kind("robot.retired", "again")


def test_each_event_covers_the_one_before(robot):
    actions.edit_robot("RB-001", name="Elsa “Ö” 🐴", site=robot.site, brand=robot.brand, by=SYSTEM)
    last, events = bytes(32), list(Event.objects.filter(aggregate="robot:RB-001").order_by("seq"))
    assert events[-1].kind == "robot.edited" and len(events) > 2
    for event in events:
        assert bytes(event.prev_hash) == last
        last = bytes(event.hash)
        assert last == digest(bytes(event.prev_hash), tuple(getattr(event, c) for c in HASHED))


@pytest.mark.parametrize("changed", ["prev", *HASHED])
def test_a_hash_covers_the_one_before_and_every_stored_field(changed):
    values = dict.fromkeys(HASHED, "a")
    other = {**values, changed: "b"} if changed != "prev" else values
    prev = bytes(32) if changed != "prev" else b"\1" * 32
    assert digest(prev, tuple(other.values())) != digest(bytes(32), tuple(values.values()))


def test_row_is_what_its_history_folds_to(dispatched):
    events = Event.objects.filter(aggregate=f"mission:{dispatched.pk}")
    folded = fold(AGGREGATES["mission"], dispatched.pk, events)
    assert folded.row.state == "pending" and folded.row.dispatched_at == dispatched.dispatched_at
    assert [s.params for s in folded.children["steps"].values()] == [s.params for s in dispatched.steps.all()]


def test_events_name_who_and_why(dispatched, supervisor):
    """I8, for what people ask for."""
    event = Event.objects.get(kind="mission.dispatched")
    assert (event.actor_kind, event.actor_id, event.actor_name) == ("user", str(supervisor.pk), "Ana")
    assert event.cause.startswith("request:") and len(event.trace_id) == 32
    assert event.occurred_at.tzinfo and event.recorded_at.tzinfo
    assert sentence(event) == "Dispatched to Ella"


def test_sentences_show_what_a_robot_said_as_it_is(robot):
    event = Event(kind="robot.faulted", data=json.dumps({"fault": "<b>{x}</b>"}))
    assert sentence(event) == "Fault: <b>{x}</b>"
    event = Event(kind="robot.faulted", data=json.dumps({"fault": "crash in main()"}))
    assert sentence(event) == "Fault: crash in main()"
    assert sentence(Event(kind="robot.unheard_of", data="{}")) == "robot.unheard_of"


def test_two_writers_of_one_version_are_not_both_right(robot):
    with transaction.atomic():
        first = load(AGGREGATES["robot"], ["RB-001"])["RB-001"]
        second = load(AGGREGATES["robot"], ["RB-001"])["RB-001"]
        for change, name in ((first, "A"), (second, "B")):
            change.now, change.origin = START, SYSTEM
            change.record("robot.edited", name=name)
        commit([first], now=START)
        with pytest.raises(Exception, match="event_seq_once|event_chain"), transaction.atomic():
            commit([second], now=START)
    assert Robot.objects.get(pk="RB-001").name == "A"


def test_a_row_that_is_read_for_a_change_is_locked(robot):
    def locked_by() -> int:
        return Robot.objects.extra(select={"holder": "xmax::text::bigint"}).values_list("holder", flat=True).get()

    before = locked_by()
    with transaction.atomic():  # a savepoint locks under a number of its own
        load(AGGREGATES["robot"], ["RB-001"])
        assert locked_by() != before


def test_rows_are_locked_in_the_order_of_their_keys(robot, other_robot):
    actions.edit_robot(
        "RB-001", name="Elsa", site=robot.site, brand=robot.brand, by=SYSTEM
    )  # what was written last lies last
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off")  # no order by chance
        assert list(load(AGGREGATES["robot"], ["RB-002", "RB-001"])) == ["RB-001", "RB-002"]


def test_a_row_that_moved_on_is_a_conflict(robot):
    with transaction.atomic():
        change = load(AGGREGATES["robot"], ["RB-001"])["RB-001"]
        change.now, change.origin, change.before, change.last_hash = START, SYSTEM, 77, b""
        change.row.version = 77
        change.record("robot.edited", name="A")
        with pytest.raises(Conflict, match="has no event 77"):
            commit([change], now=START)


def test_commit_needs_a_transaction(transactional_db):
    with pytest.raises(RuntimeError, match="transaction"):
        commit([], now=START)


TAMPERING = [
    ("UPDATE missions_step SET result = 'forged' WHERE number = 1", "I9 mission:{m} steps 1: result is 'forged'"),
    ("DELETE FROM missions_step WHERE number = 3", "I9 mission:{m} steps 3: only in history"),
    ("UPDATE fleet_robot SET name = 'X'", "I9 robot:RB-001: name is 'X', history says 'Ella'"),
    (
        "UPDATE fleet_event SET actor_name = 'X' WHERE kind = 'robot.enrolled'",
        "I10 robot:RB-001 event 1 is not what was hashed",
    ),
    (
        "UPDATE fleet_event SET data = '{{}}' WHERE kind = 'mission.dispatched'",
        "I10 mission:{m} event 2 is not what was hashed",
    ),
    ("DELETE FROM fleet_event WHERE aggregate = 'robot:RB-001' AND seq = 1", "I2 robot:RB-001 has no event 1"),
    ("DELETE FROM fleet_event WHERE kind = 'mission.dispatched'", "I2 mission:{m} is at version 2, its history at 1"),
    ("DELETE FROM fleet_event WHERE aggregate = 'robot:RB-001'", "I2 robot:RB-001 has a row and no history"),
    ("UPDATE missions_mission SET state = 'success', next_due_at = NULL", "I9 mission:{m}: state is 'success'"),
    ("UPDATE missions_mission SET version = 9", "I2 mission:{m} is at version 9"),
]


@pytest.mark.tampers
@pytest.mark.parametrize(("damage", "said"), TAMPERING)
def test_damage_behind_the_triggers_is_named(dispatched, damage, said):
    assert invariants.check() == []
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in ("fleet_event", "fleet_robot", "missions_mission"):
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute(damage.format())
    found = invariants.check()
    assert any(text.startswith(said.format(m=dispatched.pk)) for text in found), found


def test_edited_steps_shrink_and_grow(mission, supervisor):
    from fleet.history import by_user
    from fleet.refusals import Refused
    from missions import drawing_up as mission_actions

    wait = {"command": "wait", "params": {"seconds": 2}}
    common = {"title": "Fetch", "site": mission.site, "robot": mission.robot, "by": by_user(supervisor)}
    mission_actions.edit_mission(mission.pk, steps=[wait], version=1, **common)
    assert list(Step.objects.filter(mission=mission).values_list("number", "command")) == [(1, "wait")]
    mission_actions.edit_mission(mission.pk, steps=[wait] * 5, version=2, **common)
    assert Step.objects.filter(mission=mission).count() == 5
    with pytest.raises(Refused, match="changed since you looked"):
        mission_actions.edit_mission(mission.pk, steps=[wait], version=2, **common)


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("mission.stop_requested", {"abort_reason": "operator", "abort_detail": "aisle 3 is blocked"},
         "Stopping: cancelled by a person (aisle 3 is blocked)"),
        ("mission.aborted", {}, "Aborted"),  # the reason was given when it was told to stop
        ("mission.aborted", {"abort_reason": "timeout"}, "Aborted: timeout"),
        ("mission.aborted", {"abort_reason": "robot_fault", "abort_detail": "crash in main()"},
         "Aborted: robot fault (crash in main())"),
        ("mission.aborted", {"abort_reason": "of_later"}, "Aborted: of_later"),
        ("robot.mode_changed", {"mode": "idle"}, "Now idle"),
    ],
)  # fmt: skip
def test_sentences_word_codes_and_leave_out_what_is_not_there(kind, data, words):
    assert sentence(Event(kind=kind, data=json.dumps(data))) == words

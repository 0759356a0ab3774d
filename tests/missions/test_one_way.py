"""I1: nothing moves a mission backwards, out of a final state, or along an edge that is not in the table."""

import uuid
from datetime import UTC, datetime
from itertools import product

import pytest
from django.db import Error, IntegrityError, connection, transaction
from django_fsm import TransitionNotAllowed

from fleet import triggers
from fleet.history import AGGREGATES, HASHED, by_user, digest
from fleet.models import Event
from missions import actions, invariants
from missions.facts import Accepted, Cancelled, Delivered, Finished, StepCompleted
from missions.models import FINAL, Mission, State
from tests.actors import tell

TABLE = {
    "start": {State.PENDING: State.EXECUTING},
    "complete_step": {State.EXECUTING: State.STEP_COMPLETED},
    "next_step": {State.STEP_COMPLETED: State.EXECUTING},
    "succeed": {State.STEP_COMPLETED: State.SUCCESS},
    "abort": dict.fromkeys((State.PENDING, State.EXECUTING, State.STEP_COMPLETED), State.ABORTED),
}


@pytest.mark.parametrize(("state", "transition"), [*product(State, TABLE)])
def test_every_state_and_transition(state, transition):
    mission = Mission(state=state)
    target = TABLE[transition].get(state)
    if target is None:
        with pytest.raises(TransitionNotAllowed):
            getattr(mission, transition)()
        assert mission.state == state
    else:
        getattr(mission, transition)()
        assert mission.state == target


def test_transitions_are_hidden_from_templates():
    assert all(getattr(Mission, name).alters_data for name in TABLE)


def test_assigning_a_state_is_refused():
    mission = Mission(state=State.PENDING)
    with pytest.raises(AttributeError):
        mission.state = State.SUCCESS


def bring_to(mission, state, who):
    """The mission in `state`, by the ordinary way."""
    if state == State.PENDING:
        return
    if state == State.ABORTED:
        actions.cancel_mission(mission.pk, by=by_user(who))
        return
    actions.dispatch_mission(mission.pk, by=by_user(who))
    tell(mission, Delivered(), Accepted(1))
    if state != State.EXECUTING:
        tell(mission, *(StepCompleted(1, n, 1) for n in (1, 2, 3)))
    if state == State.SUCCESS:
        tell(mission, Finished(1))


def everything():
    """All rows that may not change when a way round is refused."""
    with connection.cursor() as cursor:
        found = []
        for table in ("missions_mission", "fleet_event", "missions_step"):
            cursor.execute(f"SELECT t::text FROM {table} t ORDER BY 1")
            found.append(cursor.fetchall())
    return found


def update(mission, state):
    Mission.objects.filter(pk=mission.pk).update(state=state)


def update_with_version(mission, state):
    Mission.objects.filter(pk=mission.pk).update(state=state, version=mission.version + 1)


def bulk_update(mission, state):
    mission.__dict__["state"] = state
    Mission.objects.bulk_update([mission], ["state"])


def save(mission, state):
    mission.__dict__["state"] = state
    mission.save()


def force_save(mission, state):
    mission.__dict__["state"] = state
    mission.version += 1
    mission.save(force_update=True)


def raw_sql(mission, state):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE missions_mission SET state = %s WHERE id = %s", [state, mission.pk])


def as_replica(mission, state):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE missions_mission SET state = %s WHERE id = %s", [state, mission.pk])


def merge(mission, state):
    with connection.cursor() as cursor:
        cursor.execute(
            "MERGE INTO missions_mission m USING (SELECT %s::uuid AS id, %s AS state) s ON m.id = s.id"
            " WHEN MATCHED THEN UPDATE SET state = s.state",
            [mission.pk, state],
        )


def upsert(mission, state):
    mission.__dict__["state"] = state
    Mission.objects.bulk_create([mission], update_conflicts=True, update_fields=["state"], unique_fields=["id"])


def forged_event(
    mission, state, *, kind="mission.succeeded", state_from=None, seq=None, prev=None, aggregate=None, hash=None
):
    last = Event.objects.filter(aggregate=f"mission:{mission.pk}").last()
    now = datetime.now(UTC)
    values = {
        "aggregate": aggregate or last.aggregate, "seq": seq or last.seq + 1, "kind": kind, "schema": 1, "data": "{}",
        "state_from": mission.state if state_from is None else state_from, "state_to": state, "actor_kind": "user", "actor_id": "",
        "actor_name": "Mallory", "cause": "", "trace_id": "", "span_id": "", "occurred_at": now, "recorded_at": now,
    }  # fmt: skip
    prev = bytes(last.hash) if prev is None else prev
    Event.objects.create(**values, prev_hash=prev, hash=hash or digest(prev, tuple(values[c] for c in HASHED)))


def forged_event_alone(mission, state):
    forged_event(mission, state)
    with connection.cursor() as cursor:  # what a commit would do
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def forged_event_and_row(mission, state):
    forged_event(mission, state)
    update_with_version(mission, state)


WAYS = [
    update, update_with_version, bulk_update, save, force_save, raw_sql, as_replica, merge, upsert, forged_event_alone,
    forged_event_and_row,
]  # fmt: skip


# a whole legal step, event and row, is no way round: test_a_forged_step_is_found
LEGAL = (forged_event_and_row, State.STEP_COMPLETED, State.SUCCESS)


def goes(way, mission, state):
    try:
        with transaction.atomic():
            way(Mission.objects.get(pk=mission.pk), state)
    except Error:
        return False
    return True


def test_nothing_else_of_it_changes_without_an_event_either(mission):
    before = everything()
    with pytest.raises(IntegrityError, match="event of its own"), transaction.atomic():
        Mission.objects.filter(pk=mission.pk).update(title="Forged")
    assert everything() == before


@pytest.mark.parametrize("state", State)
def test_every_way_round_from_every_state(mission, supervisor, state):
    bring_to(mission, state, supervisor)
    before = everything()
    tried = [(way, t) for way, t in product(WAYS, State) if t != state and (way, state, t) != LEGAL]
    assert [(way.__name__, target) for way, target in tried if goes(way, mission, target)] == []
    assert everything() == before
    assert len(tried) >= 4 * len(WAYS) - 1


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("create", [Mission.objects.create, lambda **v: Mission.objects.bulk_create([Mission(**v)])])
def test_no_mission_without_history(site, state, create):
    with pytest.raises(IntegrityError, match="is not what its last event says"), transaction.atomic():
        create(title="Forged", site=site, state=state, created_at=datetime.now(UTC), abort_reason="operator")
    assert not Mission.objects.exists()


def delete_mission(mission):
    Mission.objects.filter(pk=mission.pk)._raw_delete("default")


def delete_events(mission):
    Event.objects.filter(aggregate=f"mission:{mission.pk}").delete()


def rewrite_event(mission):
    Event.objects.filter(aggregate=f"mission:{mission.pk}").update(actor_name="Mallory")


def truncate_events(mission):
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("TRUNCATE fleet_event CASCADE")


def truncate_missions(mission):
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("TRUNCATE missions_mission CASCADE")


def new_id(mission):
    Mission.objects.filter(pk=mission.pk).update(id=uuid.uuid4())


@pytest.mark.parametrize(
    "way", [delete_mission, delete_events, rewrite_event, truncate_events, truncate_missions, new_id]
)
def test_history_is_append_only_and_missions_are_kept(mission, way):
    """I10."""
    before = everything()
    with pytest.raises(IntegrityError), transaction.atomic():
        way(mission)
    assert everything() == before


@pytest.mark.parametrize(
    ("forgery", "refused_as"),
    [
        (
            {"aggregate": "weather:1", "seq": 1, "prev": bytes(32), "state_from": "", "kind": "mission.drafted"},
            "may not move",
        ),
        (
            {
                "aggregate": "weather:1",
                "seq": 1,
                "prev": bytes(32),
                "state_from": "",
                "state": "",
                "kind": "weather.fair",
            },
            "may not move",
        ),
        (
            {
                "aggregate": "robot:RB-9",
                "seq": 1,
                "prev": bytes(32),
                "state_from": "",
                "state": "",
                "kind": "robot.lost",
            },
            "may not move",
        ),
        ({"kind": "robot.retired"}, "may not move"),
        ({"seq": 9}, "has no event 8"),
        ({"hash": b"short"}, "does not follow"),
        ({"prev": bytes(32)}, "does not follow"),
        ({"state_from": "executing"}, "does not follow"),
        ({"kind": "mission.unheard_of"}, "may not move"),
        ({"kind": "mission.started"}, "may not move"),
        ({"kind": "mission.drafted"}, "may not move"),
    ],
)
def test_forged_events(mission, forgery, refused_as):
    before = everything()
    with pytest.raises(IntegrityError, match=refused_as), transaction.atomic():
        forged_event(mission, **{"state": State.ABORTED, **forgery})
    assert everything() == before


@pytest.mark.tampers
def test_a_forged_step_is_found(dispatched, supervisor):
    """Whoever can write SQL can write a whole legal step; what it did not do to the columns is found (I9)."""
    tell(dispatched, Delivered(), Accepted(1), *(StepCompleted(1, n, 1) for n in (1, 2, 3)))
    forged = Mission.objects.get(pk=dispatched.pk)
    with transaction.atomic():
        forged_event(forged, State.SUCCESS)
        Mission.objects.filter(pk=forged.pk).update(state=State.SUCCESS, version=forged.version + 1, next_due_at=None)
    assert any("I9" in text and "next_due_at" in text for text in invariants.check())


@pytest.mark.parametrize("state", FINAL)
def test_final_missions_hear_and_stay(mission, supervisor, state):
    bring_to(mission, state, supervisor)
    tell(mission, Accepted(1), StepCompleted(1, 1, 1), Cancelled(1), Finished(1))
    assert Mission.objects.get(pk=mission.pk).state == state
    assert actions.cancel_mission(mission.pk, by=by_user(supervisor)) == "already ended"


def test_trigger_table_is_the_machines():
    """What the database allows is what the FSM says, kind by kind."""
    edges = triggers.edges()
    moves = {(f, t) for kind, f, t in edges if f != t and kind.startswith("mission.") and f}
    assert moves == {(str(s), str(t)) for row in TABLE.values() for s, t in row.items()}
    begins = [edge for edge in edges if edge[1] == "" and edge[0].startswith("mission.")]
    assert begins == [("mission.drafted", "", "pending")]
    assert {edge[1:] for edge in edges if edge[0].startswith("robot.")} == {("", "")}


@pytest.mark.tampers
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            "DROP TRIGGER drover_mission_update ON missions_mission",
            "drover_mission_update on missions_mission is missing",
        ),
        (
            "ALTER TABLE fleet_event DISABLE TRIGGER drover_event_insert",
            "drover_event_insert on fleet_event is not enabled",
        ),
        (
            "CREATE OR REPLACE FUNCTION drover_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "drover_event_update on fleet_event is not of this version",
        ),
    ],
)
def test_start_up_check_names_a_missing_trigger(damage, said):
    assert triggers.problems() == []
    with connection.cursor() as cursor:
        cursor.execute(damage)
    assert any(said in text and "manage.py migrate" in text for text in triggers.problems())


@pytest.mark.tampers
def test_start_up_check_names_a_trigger_that_a_session_of_a_replica_would_pass(db):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fleet_event ENABLE TRIGGER drover_event_update")  # and not ENABLE ALWAYS
    [text] = triggers.problems()
    assert text.startswith("trigger drover_event_update on fleet_event is not enabled")


def test_aggregates_are_registered():
    assert {"robot", "mission", "person"} <= set(AGGREGATES)

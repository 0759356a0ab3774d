"""Does the live database keep its promises? I1, I2, I5, I9, I10 and of I11 that rights follow history, each violation in words.

Reads the whole history once, aggregate by aggregate; needs no lock and changes nothing.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

from django.db import connection, transaction
from django.db.models import Model, Q
from django_fsm import TransitionNotAllowed

from fleet import rows
from fleet.history import AGGREGATES, GENESIS, HASHED, Aggregate, differences, digest, fold
from fleet.models import Event
from missions.deadlines import deadlines
from missions.decide.clocks import suspended
from missions.models import QUEUED, RUNNING, Mission, State

CHUNK = 2000  # events read at a time
TOGETHER = 200  # aggregates whose rows are read at a time


def check() -> list[str]:
    """Every violation found, in words; empty when all is well. Consistent: one snapshot of the database."""
    alone = not connection.in_atomic_block
    with transaction.atomic():
        if alone:  # one snapshot for all of it; a test inside a transaction sees its own
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return [*_nothing_hangs(), *_rights_follow_history(), *_rows_follow_history(), *_rows_without_history()]


def _nothing_hangs() -> Iterator[str]:
    """A robot runs one mission at a time, so they are few."""
    for mission in Mission.objects.filter(RUNNING | QUEUED & Q(next_due_at=None)):
        if mission.dispatched_at is None:
            yield f"I5 mission:{mission.pk} waits in the queue and nothing will look at it"
            continue
        if mission.next_due_at is None:
            yield f"I5 mission:{mission.pk} is dispatched and has no open deadline"
        yield from (f"I5 mission:{mission.pk} {text}" for text in _clocks(mission))


def _clocks(mission: Mission) -> Iterator[str]:
    """Clocks of what runs go, clocks of what stands still do not, and what stands still says so in the end."""
    due = {deadline.kind for deadline in deadlines(mission)}
    going = due & {"step", "retry", "gap", "finished", "mission"}
    if suspended(mission):
        if going:
            yield f"is suspended, and its deadline {min(going)} runs"
        if not due & {"paused", "held", "robot_lost", "stop", "undelivered", "accepted", "answer"}:
            yield "is suspended, and nothing says so in the end"
    elif mission.stop_requested_at:
        if "stop" not in due:
            yield "is being stopped, and nothing ends that"
    elif mission.step_left_s is not None or mission.mission_left_s is not None:
        yield "has time left of a suspension that is over"
    elif mission.state == State.EXECUTING and not due & {"step", "retry", "gap", "answer"}:
        yield f"is at step {mission.current_step}, and no deadline of that is open"
    elif mission.state == State.STEP_COMPLETED and not due & {"finished", "answer"}:
        yield "has done its steps, and nothing asks for its last word"


PEOPLE = """
SELECT u.id, coalesce(p.role, ''), u.is_staff, u.is_superuser,
  ARRAY(SELECT g.name FROM auth_user_groups m JOIN auth_group g ON g.id = m.group_id WHERE m.user_id = u.id),
  EXISTS(SELECT FROM auth_user_user_permissions WHERE user_id = u.id)
FROM auth_user u LEFT JOIN fleet_person p ON p.user_id = u.id ORDER BY u.id"""


def _rights_follow_history() -> Iterator[str]:
    """A person has the group of their role and nothing else: grant_access is the only door."""
    with connection.wrap_database_errors:
        people = rows.ask(PEOPLE).fetchall()
    for pk, role, is_staff, is_superuser, groups, own_permissions in people:
        if sorted(groups) != ([role] if role else []):
            yield f"I11 person:{pk} has the groups {', '.join(sorted(groups)) or 'none'}, history says {role or 'none'}"
        if own_permissions:
            yield f"I11 person:{pk} has permissions of their own, and only roles give any"
        if is_staff != (bool(role) or is_superuser):
            yield f"I11 person:{pk} has is_staff {is_staff}, and role {role or 'none'}"


def _histories() -> Iterator[tuple[str, list[Event]]]:
    """Aggregate's name and its events, oldest first; all of one kind of aggregate after each other."""
    events = Event.objects.order_by("aggregate", "seq").iterator(CHUNK)
    for name, history in groupby(events, key=lambda event: event.aggregate):
        yield name, list(history)


def _rows_follow_history() -> Iterator[str]:
    histories = _histories()
    while some := list(islice(histories, TOGETHER)):
        for prefix, mine in groupby(some, key=lambda item: item[0].partition(":")[0]):
            yield from _compared(AGGREGATES[prefix], list(mine))


def _compared(aggregate: Aggregate, histories: list[tuple[str, list[Event]]]) -> Iterator[str]:
    """A few aggregates of one kind, with one query for their rows and one for each kind of children."""
    to_python = aggregate.model._meta.pk.to_python  # type: ignore[union-attr]
    found = {to_python(name.partition(":")[2]): history for name, history in histories}
    present = {row.pk: row for row in _read(aggregate.model, aggregate.model._meta.pk.attname, found)}  # type: ignore[union-attr]
    children: dict[Any, dict[str, dict[int, Any]]] = {pk: {name: {} for name in aggregate.children} for pk in found}
    for name, model in aggregate.children.items():
        parent = aggregate.parent(name)
        for child in _read(model, parent, found):
            children[getattr(child, parent)][name][child.number] = child
    for pk, history in found.items():
        yield from _one(aggregate, aggregate.name(pk), present.get(pk), children[pk], history)


def _read(model: type[Model], column: str, values: Iterable[Any]) -> list[Any]:
    with connection.wrap_database_errors:
        return rows.fill(model, rows.select(model, column, values))


def _one(
    aggregate: Aggregate, name: str, row: Any, children: dict[str, dict[int, Any]], history: list[Event]
) -> Iterator[str]:
    yield from _chain(name, history)
    if row is None:
        yield f"I2 {name} has history and no row"
        return
    if row.version != history[-1].seq:
        yield f"I2 {name} is at version {row.version}, its history at {history[-1].seq}"
    try:
        folded = fold(aggregate, row.pk, history)
    except TransitionNotAllowed as error:
        yield f"I1 {name}: {error}"
    except (KeyError, ValueError) as error:
        yield f"I9 {name}: {error}"
    else:
        yield from (f"I9 {text}" for text in differences(folded, row, children))


def _rows_without_history() -> Iterator[str]:
    """One statement for all kinds of aggregates, and for what a mission names."""
    parts = [
        f"SELECT '{a.prefix}:' || t.{a.model._meta.pk.column} || ' has a row and no history'"  # type: ignore[union-attr]
        f" FROM {a.model._meta.db_table} t WHERE NOT EXISTS"
        f" (SELECT 1 FROM {Event._meta.db_table} e WHERE e.aggregate = '{a.prefix}:' || t.{a.model._meta.pk.column})"  # type: ignore[union-attr]
        for a in AGGREGATES.values()
    ]
    missions = Mission._meta.db_table
    parts.append(
        f"SELECT 'mission:' || m.id || ' was handed over to a mission that does not exist' FROM {missions} m"
        f" WHERE handed_over_to IS NOT NULL AND NOT EXISTS (SELECT FROM {missions} h WHERE h.id = m.handed_over_to)"
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts))
        for (text,) in cursor.fetchall():
            yield f"I2 {text}"


def _chain(name: str, history: list[Event]) -> Iterator[str]:
    last = GENESIS
    for number, event in enumerate(history, 1):
        if event.seq != number:
            yield f"I2 {name} has no event {number}"
            return
        if bytes(event.prev_hash) != last:
            yield f"I10 {name} event {number} does not name the hash before it"
        last = digest(bytes(event.prev_hash), tuple(getattr(event, column) for column in HASHED))
        if last != bytes(event.hash):
            yield f"I10 {name} event {number} is not what was hashed"
            last = bytes(event.hash)

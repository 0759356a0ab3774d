"""Does the live database keep its promises? I1, I2, I5, I9, I10 and of I11 that rights follow history, each violation in words.

Reads the whole history once, aggregate by aggregate; needs no lock and changes nothing.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django_fsm import TransitionNotAllowed

from fleet.history import AGGREGATES, GENESIS, HASHED, Aggregate, differences, digest, fold
from fleet.models import Event
from missions.models import QUEUED, RUNNING, Mission

CHUNK = 2000


def check() -> list[str]:
    """Every violation found, in words; empty when all is well. Consistent: one snapshot of the database."""
    alone = not connection.in_atomic_block
    with transaction.atomic():
        if alone:  # one snapshot for all of it; a test inside a transaction sees its own
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = [*_nothing_hangs(), *_rights_follow_history()]
        for aggregate in AGGREGATES.values():
            found += _aggregate(aggregate)
    return found


def _nothing_hangs() -> Iterator[str]:
    for pk in Mission.objects.filter(RUNNING, next_due_at=None).values_list("pk", flat=True):
        yield f"I5 mission:{pk} is dispatched and has no open deadline"
    for pk in Mission.objects.filter(QUEUED, next_due_at=None).values_list("pk", flat=True):
        yield f"I5 mission:{pk} waits in the queue and nothing will look at it"


def _rights_follow_history() -> Iterator[str]:
    """A person has the group of their role and nothing else: grant_access is the only door."""
    people = User.objects.select_related("person").prefetch_related("groups", "user_permissions").order_by("pk")
    for user in people.iterator(CHUNK):
        role = user.person.role if hasattr(user, "person") else ""
        groups = sorted(group.name for group in user.groups.all())
        if groups != ([role] if role else []):
            yield f"I11 person:{user.pk} has the groups {', '.join(groups) or 'none'}, history says {role or 'none'}"
        if user.user_permissions.all():
            yield f"I11 person:{user.pk} has permissions of their own, and only roles give any"
        if user.is_staff != (bool(role) or user.is_superuser):
            yield f"I11 person:{user.pk} has is_staff {user.is_staff}, and role {role or 'none'}"


def _aggregate(aggregate: Aggregate) -> list[str]:
    found: list[str] = []
    seen = set()
    events = Event.objects.filter(aggregate__startswith=f"{aggregate.prefix}:").order_by("aggregate", "seq")
    for name, history in groupby(events.iterator(CHUNK), key=lambda event: event.aggregate):
        pk = aggregate.model._meta.pk.to_python(name.partition(":")[2])  # type: ignore[union-attr]
        seen.add(pk)
        found += _one(aggregate, pk, list(history))
    without = aggregate.model._default_manager.exclude(pk__in=seen).values_list("pk", flat=True)
    return found + [f"I2 {aggregate.name(pk)} has a row and no history" for pk in without]


def _one(aggregate: Aggregate, pk: Any, history: list[Event]) -> list[str]:
    name = aggregate.name(pk)
    found = list(_chain(name, history))
    row = aggregate.model._default_manager.filter(pk=pk).first()
    if row is None:
        return [*found, f"I2 {name} has history and no row"]
    if row.version != history[-1].seq:
        found.append(f"I2 {name} is at version {row.version}, its history at {history[-1].seq}")
    try:
        folded = fold(aggregate, pk, history)
    except TransitionNotAllowed as error:
        return [*found, f"I1 {name}: {error}"]
    except (KeyError, ValueError) as error:
        return [*found, f"I9 {name}: {error}"]
    children = {
        child: {c.number: c for c in model._default_manager.filter(**{aggregate.parent(child): pk})}
        for child, model in aggregate.children.items()
    }
    return found + [f"I9 {text}" for text in differences(folded, row, children)]


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

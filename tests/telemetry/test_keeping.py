"""Every table and every key has a line that says what bounds it: a new one cannot be forgotten."""

from fnmatch import fnmatchcase

import pytest
import redis.asyncio
from django.conf import settings
from django.db import connection
from django.utils import timezone

from telemetry import snapshots
from telemetry.gateways.heard import Heard
from telemetry.keeping import rules
from telemetry.keeping.tidying import old_rows
from tests.telemetry.robots_talk import message, say, work


def tables() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        )
        return {name for (name,) in cursor.fetchall()}


LINES = [
    {rule.table for rule in rules.RULES},
    rules.OTHERWISE.keys(),
    rules.HISTORY.keys(),
    rules.CONFIGURATION,
]


@pytest.mark.django_db
def test_every_table_has_one_line_and_every_line_a_table():
    """A new table: is it history, configuration, or does it grow old (one line in RULES)?"""
    assert tables() == set().union(*LINES)
    assert sum(map(len, LINES)) == len(tables())


@pytest.mark.django_db
@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.table)
def test_every_rule_can_be_asked_and_is_read_by_an_index(rule):
    assert rule.days in settings.KEEP_DAYS
    with connection.cursor() as cursor:
        assert old_rows(cursor, rule, timezone.now()) == 0
        indexes = connection.introspection.get_constraints(cursor, rule.table).values()
    leading = {tuple(index["columns"])[:1] for index in indexes if index["index"] or index["primary_key"]}
    assert (rule.walk,) in leading


def keys_without_a_line(client, lines: dict) -> list[str]:
    found = []
    for key in client.scan_iter("*"):
        name = key.decode()
        line = next((bound for pattern, bound in lines.items() if fnmatchcase(name, _pattern(pattern))), None)
        if line is None or (isinstance(line, int) and not 0 < client.ttl(key) <= line):
            found.append(name)
    return found


def _pattern(pattern: str) -> str:
    return pattern.replace("[", "[[]")


def test_every_key_of_the_durable_redis_has_a_line(worker, clock, durable, robot, client):
    say(*(message("RB-001", "robot.fault_cleared", n, data={"code": "E"}) for n in range(1, 4)))
    work(worker, clock)
    client.get("/readyz")
    names = {key.decode().partition(":")[0] for key in durable.scan_iter("*")}
    assert {"in", "seen", "out", "ready"} <= names
    assert keys_without_a_line(durable, rules.DURABLE_KEYS) == []


async def test_every_key_of_the_live_redis_has_a_line():
    live = redis.asyncio.from_url(settings.LIVE_REDIS_URL)
    now = timezone.now()
    await snapshots.put(live, "RB-KEYS", 1, 1, now, {"x": 1.0, "y": 2.0})
    heard = Heard(live)
    heard.note("RB-KEYS", b"{}", now, "", "HTTP")
    await heard.step()
    await live.aclose()
    with redis.from_url(settings.LIVE_REDIS_URL) as client:
        assert keys_without_a_line(client, rules.LIVE_KEYS) == []


def test_a_key_that_nobody_knows_or_that_never_ends_is_found(durable):
    durable.set("seen:{1}:RB-001:x", 1)
    durable.set("new:1", 1)
    durable.set("out", 1)
    assert sorted(keys_without_a_line(durable, rules.DURABLE_KEYS)) == ["new:1", "seen:{1}:RB-001:x"]

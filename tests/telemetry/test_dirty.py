"""What a commit announces on the live Redis, and that announcing never delays or fails it."""

import logging
import socket
import time
from datetime import UTC, datetime
from uuid import uuid4

import msgspec
import pytest
import redis
from django.conf import settings
from django.db import transaction

from fleet.commit import commit
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Command, Robot, Site
from fleet.sites.actions import create_site
from missions.models import Mission
from telemetry.live import dirty

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def drafted(title: str) -> Change:
    change = Change(AGGREGATES["mission"], Mission(), {"steps": {}}, Origin("system"), NOW)
    site = Site.objects.filter(name="North").first() or create_site("North", by=Origin("system"))
    change.record("mission.drafted", title=title, site_id=site.pk, created_at=NOW, created_by="Ana")
    return change


@pytest.fixture
def heard():
    """Everything that was published so far, as (channel, decoded payload)."""
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as client, client.pubsub() as listener:
        listener.subscribe("dirty", "commands")
        for _ in range(2):
            listener.get_message(timeout=5)

        def read() -> list[tuple[str, object]]:
            client.publish("dirty", b"[]")  # everything before it has arrived when it does
            found = []
            while (message := listener.get_message(timeout=5))["data"] != b"[]":
                found.append((message["channel"].decode(), msgspec.json.decode(message["data"])))
            return found

        yield read


@pytest.mark.django_db(transaction=False)
def test_a_commit_announces_ids_after_it_and_nothing_before(heard, django_capture_on_commit_callbacks):
    made = [drafted("one"), drafted("two")]
    with django_capture_on_commit_callbacks(execute=True):
        with transaction.atomic():
            commit(made, now=NOW)
        assert heard() == []
    ((channel, signals),) = heard()
    assert channel == "dirty"
    assert [row[:3] for row in signals] == [["mission", str(c.row.pk), "row"] for c in made]
    assert all(abs(row[3] / 1000 - time.time()) < 60 for row in signals)


def change(prefix: str, row, *, events=True, commands=(), moves=()) -> Change:
    made = Change(AGGREGATES[prefix], row, {})
    made.events = [object()] if events else []
    made.commands, made.command_moves = list(commands), list(moves)
    return made


def announced(*changes: Change) -> list[tuple[str, object]]:
    return [(channel, msgspec.json.decode(payload)) for channel, payload in dirty.messages(changes, 5)]


def test_a_mission_makes_its_robot_dirty_too():
    mission = Mission(pk=uuid4(), robot_id="RB-001")
    assert announced(change("mission", mission)) == [
        ("dirty", [["mission", str(mission.pk), "row", 5], ["robot", "RB-001", "row", 5]])
    ]
    without = Mission(pk=uuid4())
    assert announced(change("mission", without)) == [("dirty", [["mission", str(without.pk), "row", 5]])]


@pytest.mark.parametrize(
    ("commands", "moves", "hinted"),
    [
        ([Command(robot_id="RB-001")], [], True),
        ([], [((), "dead", "open")], True),
        ([], [((), "open", "withdrawn")], False),
        ([], [], False),
    ],
)
def test_robots_with_new_open_commands_are_hinted_first(commands, moves, hinted):
    mission = Mission(pk=uuid4(), robot_id="RB-001")
    channels = announced(change("mission", mission, commands=commands, moves=moves))
    assert (channels[0] == ("commands", ["RB-001"])) is hinted
    assert channels[-1][0] == "dirty"


def test_one_signal_for_an_entity_however_many_changes():
    row = Mission(pk=uuid4(), robot_id="RB-001")
    robot = Robot(pk="RB-001")
    ((_, signals),) = announced(change("mission", row), change("robot", robot), change("mission", row))
    assert len(signals) == 2


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_dead_redis_costs_one_try_and_one_line_then_a_rest(caplog, unused_tcp_port):
    tries, clock = [], Clock()

    def connect() -> redis.Redis:
        tries.append(clock.now)
        return redis.Redis.from_url(f"redis://127.0.0.1:{unused_tcp_port}/0", socket_timeout=0.2)

    announcer = dirty.Announcer(connect, clock)
    with caplog.at_level(logging.WARNING):
        assert [announcer.publish([("dirty", b"[]")]) for _ in range(5)] == [False] * 5
        assert tries == [100.0]
        clock.now += dirty.REST_S
        announcer.publish([("dirty", b"[]")])
    assert len(tries) == 2 and len(caplog.records) == 1


def test_a_redis_that_hangs_is_left_alone_within_its_timeout(settings, caplog):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, never answers
        settings.LIVE_REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        before = time.monotonic()
        announcer = dirty.Announcer(dirty.announcer.connect)
        assert announcer.publish([("dirty", b"[]")]) is False
        assert time.monotonic() - before < 4 * dirty.TIMEOUT_S


def test_it_is_well_again_after_the_rest_and_its_next_outage_is_said_again(heard, caplog):
    clock, broken = Clock(), [True]

    def connect() -> redis.Redis:
        if broken.pop():
            raise redis.ConnectionError("down")
        return redis.Redis.from_url(settings.LIVE_REDIS_URL)

    announcer = dirty.Announcer(connect, clock)
    announcer.publish([("dirty", b'["lost"]')])
    clock.now += dirty.REST_S
    broken.append(False)
    assert announcer.publish([("dirty", b'["kept"]'), ("commands", b'["RB-001"]')])
    assert heard() == [("dirty", ["kept"]), ("commands", ["RB-001"])]
    broken.append(True)
    announcer.publish([("dirty", b'["lost"]')])
    assert len(caplog.records) == 2

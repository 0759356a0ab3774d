"""What Drover notices about itself opens one alert, which its end clears."""

import threading
from datetime import timedelta

import pytest
import redis
from django.utils import timezone

from fleet import live
from fleet.live import Facts
from fleet.models import Alert
from telemetry import stream, watch
from telemetry.clocks import Moment
from telemetry.models import Partition
from telemetry.watch import Beside, Watch

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def partitions(db, settings):
    for number in range(settings.PARTITIONS):
        Partition.objects.create(id=number, owner="w", until=timezone.now() + timedelta(minutes=5))


def causes() -> list[str]:
    return sorted(Alert.objects.filter(cleared_at=None).values_list("cause", flat=True))


def test_all_is_well():
    assert not Watch().step(timezone.now())
    assert causes() == []


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (None, ["redis_down"]),
        ({"used_memory": 95, "maxmemory": 100}, ["redis_full"]),
        ({"used_memory": 95, "maxmemory": 0}, []),
        ({"aof_last_write_status": "err"}, ["redis_disk"]),
    ],
)
def test_the_durable_redis(info, expected, monkeypatch, settings):
    told = {settings.REDIS_URL: info, settings.LIVE_REDIS_URL: {}}
    monkeypatch.setattr(watch, "_info", told.__getitem__)
    look = Watch()
    look.step(timezone.now())
    look.step(timezone.now())
    assert causes() == expected
    assert all(a.tally.count == 1 for a in Alert.objects.all())  # it holds on: that is not once more
    told[settings.REDIS_URL] = {}
    look.step(timezone.now())
    assert causes() == []


def test_a_store_that_does_not_answer(settings):
    settings.LIVE_REDIS_URL = "unix:///nowhere.sock"
    Watch().step(timezone.now())
    assert causes() == ["live_redis_down"]


def test_what_waits_too_long(settings):
    client = redis.from_url(settings.REDIS_URL)
    key = stream.key(0)
    old = int((timezone.now() - timedelta(minutes=5)).timestamp() * 1000)
    client.delete(key)
    client.xadd(key, {"robot": "x"}, id=f"{old}-1")
    client.xgroup_create(key, stream.GROUP, id="0")
    try:
        Watch().step(timezone.now())
        assert causes() == ["backlog"]
    finally:
        client.delete(key)
    Watch().step(timezone.now())
    assert causes() == []


def test_partitions_without_a_worker():
    Partition.objects.filter(pk__in=[1, 3]).update(until=timezone.now() - timedelta(minutes=1))
    Watch().step(timezone.now())
    assert causes() == ["worker_missing"]
    assert "partitions 1, 3" in Alert.objects.get().text


def test_a_clock_that_jumps():
    now = timezone.now()
    moments = iter(Moment(now + timedelta(hours=h, seconds=s), s) for h, s in ((0, 0.0), (1, 1.0), (1, 62.0)))
    look = Watch(moment=lambda: next(moments))
    look.step(now)
    assert causes() == []
    look.step(now)
    assert causes() == ["clock"]
    look.step(now)
    assert causes() == []


def test_a_store_that_keeps_the_watch_waiting_is_no_jump_of_the_clock(monkeypatch):
    """The time of the step is taken before its checks; some of them wait for a store."""
    look, now = Watch(), timezone.now()
    look.step(now)
    look.step(now - timedelta(seconds=7))
    assert causes() == []


def test_a_low_battery_stays_until_it_is_fine(robot, monkeypatch):
    level = {"battery": 9.0}
    monkeypatch.setattr(live, "source", lambda ids: {"RB-001": Facts(timezone.now(), battery=level["battery"])})
    look = Watch()
    for battery, expected in ((9, 1), (12, 1), (15, 0), (12, 0)):
        level["battery"] = battery
        look.step(timezone.now())
        assert len(causes()) == expected, battery
    alert = Alert.objects.get()
    assert (alert.subject, alert.site_id, alert.text) == (
        "robot:RB-001", robot.site_id, "RB-001 has 9 % battery left and is not charging",
    )  # fmt: skip


def test_a_loop_beside_the_worker_goes_on_after_an_error():
    stopping, again, told = threading.Event(), threading.Event(), []

    def step(now) -> None:
        told.append(now)
        if len(told) == 1:
            raise OSError("away")
        again.set()

    loop = Beside("test", step, 0.001, stopping)
    loop.start()
    assert again.wait(5)
    stopping.set()
    loop.join(5)
    assert not loop.is_alive()

"""What Drover notices about itself opens one alert, which its end clears."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.models import Alert
from fleet.ports import live
from fleet.ports.live import Facts
from fleet.robots import actions
from telemetry import metrics, snapshots, stream
from telemetry.clocks import Moment
from telemetry.models import FailedTry, GatewayProcess, Partition
from telemetry.watching import causes as words
from telemetry.watching import checks, notices
from telemetry.watching.checks import Checks
from telemetry.watching.watch import Beside, Watch
from tests.actors import SYSTEM

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def partitions(db, settings):
    for number in range(settings.PARTITIONS):
        Partition.objects.create(id=number, owner="w", until=timezone.now() + timedelta(minutes=5))
    settings.DISK_LOW_MB = 0  # whatever this machine has
    live_redis = snapshots.client()
    yield
    live_redis.delete(notices.KEY)


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
    monkeypatch.setattr(checks, "info", told.__getitem__)
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
    watch = Watch()
    watch.step(timezone.now())
    assert causes() == [], "it may be the moment after a database that was frozen, in which none could renew"
    watch.step(timezone.now())
    assert causes() == ["worker_missing"]
    assert "partitions 1, 3" in Alert.objects.get().text
    Watch().step(timezone.now())
    assert causes() == ["worker_missing"], "another worker's first look says nothing against it"


def test_while_the_durable_redis_is_away_nobody_is_told_to_start_a_worker(monkeypatch):
    Partition.objects.filter(pk=1).update(until=timezone.now() - timedelta(minutes=1))
    known = checks.info
    monkeypatch.setattr(checks, "info", lambda url: None if url == django_settings.REDIS_URL else known(url))
    looked_twice()
    assert causes() == ["redis_down"]


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


def text() -> str:
    return Alert.objects.get(cleared_at=None).text


def test_what_waits_is_named_by_partition_age_and_reason(monkeypatch):
    monkeypatch.setattr(stream.Streams, "ages_s", lambda self, partitions, now: {0: 2.0, 3: 45.0, 5: 300.0})
    Watch().step(timezone.now())
    assert "partition 3 for 45 s, partition 5 for 5 min. The workers do not keep up" in text()
    FailedTry.objects.create(partition=5, entry="1-1", tries=4)
    assert "failed 4 times" in Checks().backlog(timezone.now())["backlog"].text
    Partition.objects.filter(pk=3).update(until=None)
    assert "No worker owns them" in Checks().backlog(timezone.now())["backlog"].text


def test_little_space_is_said_before_it_is_gone(settings):
    settings.DISK_LOW_MB = 10**9
    Watch().step(timezone.now())
    assert causes() == ["database_space", "redis_space"]
    assert all("free on" in a.text and "docs/trouble/disk-is-full.md" in a.text for a in Alert.objects.all())
    settings.DISK_LOW_MB = 0
    Watch().step(timezone.now())
    assert causes() == []


def test_space_of_a_store_elsewhere_is_not_known(settings, monkeypatch):
    settings.DISK_LOW_MB = 10**9
    monkeypatch.setitem(connection.settings_dict, "HOST", "db.example.org")
    monkeypatch.setattr(checks, "is_here", lambda url: False)
    look, now = Checks(), timezone.now()
    assert (look.durable(now), look.database_space(now)) == ({}, {})


def test_a_durable_redis_that_died_of_a_full_disk(settings, monkeypatch):
    look, now = Checks(), timezone.now()
    look.durable(now)
    settings.REDIS_URL = "unix:///nowhere.sock"
    assert "disk is full" not in look.durable(now)["redis_down"].text
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda folder: checks.shutil._ntuple_diskusage(10**9, 10**9, 0))
    assert "its disk is full" in look.durable(now)["redis_down"].text


@pytest.mark.parametrize(
    ("database", "store", "said"),
    [
        (0.4, -1.9, None),
        (None, None, None),
        (7.0, 6.5, "The clock of "),
        (-7.0, 0.1, "PostgreSQL's clock is wrong"),
        (0.0, 700.0, "The durable Redis's clock is wrong"),
        (3.0, None, "One of them, or the clock of "),
        (7.0, -30.0, "PostgreSQL's clock or the durable Redis's clock is wrong"),
    ],
)
def test_clocks_that_differ_are_named(database, store, said, monkeypatch):
    ahead = {checks._redis_time: store}
    monkeypatch.setattr(checks, "_ahead", lambda ask: ahead.get(ask, database))
    found = Checks().clocks_agree(timezone.now())
    assert bool(found) == bool(said)
    if said:
        assert said in found["clocks_apart"].text


def test_clocks_of_one_machine_agree():
    assert Checks().clocks_agree(timezone.now()) == {}
    assert abs(checks._ahead(checks._redis_time)) < 0.5


def test_a_robots_wrong_clock_is_an_alert_of_that_robot(robot, monkeypatch):
    monkeypatch.setattr(live, "source", lambda ids: {"RB-001": Facts(timezone.now(), skew_s=-90.0)})
    Watch().step(timezone.now())
    alert = Alert.objects.get()
    assert (alert.cause, alert.severity, alert.robot_id) == ("robot_clock:robot:RB-001", "info", "RB-001")
    assert "90 s behind ours" in alert.text


REFUSED = """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
 $$ BEGIN RAISE EXCEPTION 'could not extend file "base/1": No space left on device' USING ERRCODE = '53100'; END $$;
 CREATE TRIGGER refuse BEFORE INSERT ON fleet_alerttally EXECUTE FUNCTION refuse()"""


def test_a_database_that_takes_no_writes_is_said_without_it(client, caplog, settings):
    """There can be no alert: the log, the figures and /readyz say it."""
    Partition.objects.all().delete()  # something to open an alert about
    look = Watch("w:1")
    with transaction.atomic(), connection.cursor() as cursor:
        settings.PARTITIONS = 1
        Partition.objects.create(id=0, owner="w", until=timezone.now() - timedelta(minutes=1))
        cursor.execute(REFUSED)
        for minutes in (-1, 0, 1, 2):  # of the first look comes nothing that has to be written
            assert not look.step(timezone.now() + timedelta(minutes=minutes))
        assert causes() == []
        transaction.set_rollback(True)
    assert "database_full: PostgreSQL's disk is full" in caplog.text
    assert metrics.REGISTRY.get_sample_value("drover_trouble", {"cause": "database_full"}) == 1
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "PostgreSQL's disk is full" in answer.json()["missing"]["database"]
    assert "docs/trouble/disk-is-full.md" in answer.json()["missing"]["database"]
    for number in range(settings.PARTITIONS):
        Partition.objects.create(id=number, owner="w", until=timezone.now() + timedelta(minutes=5))
    look.step(timezone.now() + timedelta(minutes=3))
    assert causes() == ["database_was_away"]
    assert "took no writes for 3 min" in text()
    assert metrics.REGISTRY.get_sample_value("drover_trouble", {"cause": "database_full"}) is None
    assert client.get("/readyz").status_code == 200


def test_what_is_only_slow_is_a_warning_of_readyz(client, monkeypatch):
    monkeypatch.setattr(stream.Streams, "ages_s", lambda self, partitions, now: {3: 45.0})
    Watch("w:1").step(timezone.now())
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert "partition 3 for 45 s" in answer.json()["warnings"]["backlog"]


def test_every_cause_has_a_page_that_names_it():
    pages = Path(django_settings.BASE_DIR) / "docs" / "trouble"
    for name, cause in words.CAUSES.items():
        if cause.page:
            assert f"`{name}`" in (pages / cause.page).read_text(), name
    checked = {name for names, _ in checks.CHECKS for name in names}
    assert checked <= words.CAUSES.keys()


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


def gateway(name: str, trouble: str = "", s: int = 300) -> None:
    now = timezone.now()
    GatewayProcess.objects.update_or_create(
        name=name, defaults={"started_at": now, "until": now + timedelta(seconds=s), "trouble": trouble}
    )


def looked_twice() -> None:
    watch = Watch()
    for _ in range(2):
        watch.step(timezone.now())


def test_a_gateway_that_hears_no_broker_is_named_until_it_does():
    gateway("drover-a", "the broker is away")
    gateway("drover-b")
    Watch().step(timezone.now())
    assert causes() == [], "as of a worker that is missing: one look is not enough"
    looked_twice()
    assert causes() == ["broker_down:drover-a"]
    assert "drover-a hears no robot over MQTT: the broker is away" in Alert.objects.get().text
    gateway("drover-a")
    Watch().step(timezone.now())
    assert causes() == []


def test_gateways_that_come_and_go_hide_none_that_hears_nothing():
    watch = Watch()
    gateway("drover-a", "the broker is away")
    for n in range(4):
        gateway(f"drover-{n}", "not connected yet")  # each start is another process
        gateway(f"drover-{n - 1}", s=-1)
        watch.step(timezone.now())
    assert causes() == ["broker_down:drover-a"]
    gateway("drover-a")
    gateway("drover-4", "not connected yet")
    watch.step(timezone.now())
    assert causes() == ["broker_down:drover-3"], "what holds no more is cleared meanwhile"


def test_robots_that_talk_over_mqtt_only_need_a_gateway(robot, brand, site):
    Watch().step(timezone.now())
    assert causes() == []
    foreign = create_brand("Foreign", driver="vda5050", capabilities=["navigate"], by=SYSTEM)
    actions.enrol_robot(id="RB-007", name="Seven", site=site, brand=foreign, address="KIT/0001", by=SYSTEM)
    gateway("drover-a", s=-1)  # it is dead
    looked_twice()
    assert causes() == ["gateway_missing"] and "and 1 robot is reached over MQTT" in Alert.objects.get().text
    gateway("drover-a")
    Watch().step(timezone.now())
    assert causes() == []

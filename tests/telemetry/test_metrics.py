"""Figures for Prometheus: what they count, whom they name (nobody), and who may read them."""

import urllib.error
import urllib.request
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from prometheus_client import generate_latest

from fleet.history import by_user
from fleet.robots import stopping
from missions.ledger import Ledger
from missions.models import DeadLetter
from telemetry import metrics, snapshots, translate
from telemetry.gateways.http.callers import Callers
from telemetry.live import hub as hubs
from telemetry.watching import scrape, site_gauges
from tests.telemetry.post import Post
from tests.telemetry.robots_talk import NOW, message, say, whole_life, work
from tests.telemetry.wire import Wire


def value(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(f"drover_{name}", labels) or 0.0


@pytest.fixture
def since():
    """since(name, **labels): how much it has grown since it was first asked for."""
    before: dict[tuple, float] = {}

    def grown(name: str, **labels: str) -> float:
        key = (name, *sorted(labels.items()))
        return value(name, **labels) - before.setdefault(key, value(name, **labels))

    return grown


# --- what is counted


def test_applied_messages_are_counted_by_verdict_with_the_time_since_their_receipt(worker, clock, dispatched, since):
    stale = message("RB-001", "mission.accepted", 20, mission=dispatched, dispatch_no=9)
    late = message("RB-001", "mission.step_completed", 21, mission=dispatched, step=1, attempt=1)
    counts = [("applied", 5), ("stale", 1), ("late", 1)]
    for verdict, _ in counts:
        since("messages_applied_total", verdict=verdict)
    since("received_to_applied_seconds_count"), since("received_to_applied_seconds_sum")
    say(*whole_life(dispatched, 3), stale, late)
    clock.advance(3)
    work(worker, clock)
    assert [(v, since("messages_applied_total", verdict=v)) for v, _ in counts] == counts
    assert since("received_to_applied_seconds_count") == 7
    assert 21 <= since("received_to_applied_seconds_sum") < 22


def test_what_is_rolled_back_counts_nothing(worker, clock, dispatched, since, monkeypatch):
    since("messages_applied_total", verdict="applied"), since("batch_entries_count")
    say(message("RB-001", "mission.accepted", mission=dispatched))

    def dies(where: str) -> None:
        if where == "before_commit":
            raise RuntimeError("here")

    worker.messages.hook = dies
    worker.step(clock.now, clock.tick)
    assert since("messages_applied_total", verdict="applied") == 0
    assert since("batch_entries_count") == 0


def test_duplicates_dead_letters_and_tries(worker, clock, robot, durable, since, caplog):
    said = message("RB-001", "robot.state", data={"mode": "idle"})
    since("duplicates_total", where="worker"), since("dead_letters_total", direction="in")
    since("retries_total", what="message")
    say(said)
    work(worker, clock)
    durable.delete(*durable.keys("seen:*"))
    say(said, b"no message at all")
    work(worker, clock)
    assert since("duplicates_total", where="worker") == 1
    assert since("dead_letters_total", direction="in") == 1


def test_timeouts_are_counted_by_kind_and_events_by_theirs(dispatched, since, django_capture_on_commit_callbacks):
    since("timeouts_total", kind="undelivered"), since("events_total", kind="mission.undelivered")
    with django_capture_on_commit_callbacks(execute=True):
        due = dispatched.undelivered_due_at + timedelta(seconds=1)
        ledger = Ledger.open((), [dispatched.pk], now=due)
        translate.due(ledger, dispatched.pk, due)
        ledger.commit()
    assert since("timeouts_total", kind="undelivered") == 1
    assert since("events_total", kind="mission.undelivered") == 1


def test_backlog_age_is_of_owned_partitions_only(worker, clock, robot):
    worker.step(clock.now, clock.tick)
    assert value("partitions_owned") == 8
    metrics.backlog({3: 12.5})
    assert value("backlog_age_seconds", partition="3") == 12.5
    assert metrics.REGISTRY.get_sample_value("drover_backlog_age_seconds", {"partition": "4"}) is None


@pytest.mark.parametrize(
    ("seqs", "gaps"),
    [([1, 2, 3], 0), ([1, 4], 2), ([1, 2, 1, 2, 3], 0), ([7, 8], 0), ([1, 3, 2, 6], 3), ([1, 2**63 - 1, 3], 1)],
    ids=["none", "two lost", "resent", "begins later", "out of order", "a wrong number"],
)
def test_gaps_are_numbers_that_never_came(seqs, gaps, since):
    since("seq_gaps_total", channel="lossy")
    numbers = metrics.Sequence()
    for seq in seqs:
        numbers.saw(1, "lossy", seq)
    assert since("seq_gaps_total", channel="lossy") == gaps


@pytest.mark.django_db(transaction=True)
async def test_gateway_counts_links_gaps_bad_and_refused(durable, token, since):
    for name, labels in (("seq_gaps_total", {"channel": "lossy"}), ("bad_messages_total", {"field": "data"}),
                         ("unauthorised_total", {}), ("duplicates_total", {"where": "gateway"})):  # fmt: skip
        since(name, **labels)
    async with Wire("wrong") as wire:
        await wire.closed()
    async with Wire(token) as wire:
        await wire.hello()
        assert value("robot_links") == 1
        state = await wire.say("robot.state", {"mode": "idle"})
        await wire.hear()
        await wire.send(state)
        await wire.hear()
        for seq in (1, 5):
            await wire.say("robot.heartbeat", seq=seq)
            await wire.hear()
        await wire.say("robot.state", {"mode": "asleep"})
        await wire.hear()
    assert value("robot_links") == 0
    assert since("unauthorised_total") == 1
    assert since("duplicates_total", where="gateway") == 1
    assert since("seq_gaps_total", channel="lossy") == 3
    assert since("bad_messages_total", field="data") == 1


@pytest.mark.django_db(transaction=True)
async def test_gaps_over_http_are_counted_across_requests(durable, token, since):
    for channel in ("critical", "lossy"):
        since("seq_gaps_total", channel=channel)
    robot = Post(token)
    try:
        await robot.hello()
        for seq in (1, 4):
            await robot.post(robot.message("robot.heartbeat", seq=seq))
            await robot.post(robot.message("robot.state", {"mode": "idle"}, seq=seq))
    finally:
        await Callers.leave()
    assert since("seq_gaps_total", channel="lossy") == 2
    assert since("seq_gaps_total", channel="critical") == 2


async def test_from_change_to_frame(since, monkeypatch):
    since("changed_to_pushed_seconds_count", scope="row"), since("changed_to_pushed_seconds_sum", scope="row")
    monkeypatch.setattr(snapshots, "now_ms", lambda: 5_000)
    hub = hubs.Hub()
    hub._hear([["robot", "RB-001", "row", 4_900], ["robot", "RB-001", "row", 3_000], ["robot", "RB-001", "what", 1]])
    assert hub._since == {"row": 3_000}
    hubs._observe(hub._since)
    assert since("changed_to_pushed_seconds_count", scope="row") == 1
    assert since("changed_to_pushed_seconds_sum", scope="row") == 2.0


# --- the site as a whole


def asked(**options) -> dict[tuple, float]:
    found = {}
    for family in site_gauges.Site(lambda: True, **options).collect():
        found |= {(s.name.removeprefix("drover_"), *s.labels.values()): s.value for s in family.samples}
    return found


def test_gauges_of_the_site(dispatched, other_robot, supervisor):
    stopping.stop_robot("RB-002", by=by_user(supervisor), why="blocked aisle")
    DeadLetter.objects.create(direction="in", robot_id="RB-9", msg_id=uuid4(), body="", reason="", created_at=NOW)
    found = asked()
    assert found["missions_open", "pending"] == 1
    assert found["robots", "online"] == 2
    assert found["holds_open", "stopped"] == 1
    assert found["dead_letters_kept", "in"] == 1
    assert found["commands_open",] == 2
    assert found["site_known",] == 1


def test_only_the_owner_of_partition_0_tells_of_the_site(db, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert list(site_gauges.Site(lambda: False).collect()) == []


def test_scrapes_share_an_answer_for_a_few_seconds(db, django_assert_num_queries):
    now = [0.0]
    site = site_gauges.Site(lambda: True, clock=lambda: now[0])
    with django_assert_num_queries(len(site_gauges.QUESTIONS)):
        for now[0] in (0.0, 1.0, site_gauges.KEEP_S):
            list(site.collect())
    now[0] = site_gauges.KEEP_S + 0.1
    with django_assert_num_queries(len(site_gauges.QUESTIONS)):
        list(site.collect())


def test_no_question_about_the_site_reads_a_long_table_as_a_whole(db):
    """What grows with the years is read by an index of what is open."""
    for question in site_gauges.QUESTIONS:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("EXPLAIN " + question.sql)
            plan = "\n".join(row[0] for row in cursor.fetchall())
        for table in ("missions_mission", "fleet_command", "fleet_hold"):
            assert f"Seq Scan on {table}" not in plan, (question.name, plan)


# --- whom they name


def families() -> list:
    return [*metrics.REGISTRY.collect(), *site_gauges.Site(lambda: True).describe()]


def test_labels_are_words_of_ours_never_ids(db):
    allowed = set(metrics.LABELS) | {"le"}
    for family in families():
        for sample in family.samples:
            assert set(sample.labels) <= allowed, sample
    declared = {label for _, labels in metrics.declared() for label in labels}
    declared |= {question.label for question in site_gauges.QUESTIONS} - {""}
    assert declared <= set(metrics.LABELS)
    for word in ("robot", "mission", "user", "id", "path", "site", "msg_id"):
        assert word not in declared


def test_what_others_send_makes_no_new_label(since):
    since("bad_messages_total", field="other")
    for field in ("data.mode", "seq", "RB-001", "x" * 100, "../../etc"):
        metrics.bad(field)
    assert since("bad_messages_total", field="other") == 3
    assert b"RB-001" not in generate_latest(metrics.REGISTRY)


# --- who may read them


@pytest.mark.parametrize(
    ("token", "headers", "address", "status"),
    [
        ("", {}, "127.0.0.1", 200),
        ("", {}, "::1", 200),
        ("", {}, "10.0.0.7", 403),
        ("", {}, "", 403),
        ("", {"X-Forwarded-For": "10.0.0.7"}, "127.0.0.1", 403),
        ("", {"Forwarded": "for=10.0.0.7"}, "127.0.0.1", 403),
        ("", {"X-Forwarded-Proto": "https"}, "127.0.0.1", 403),
        ("", {"Authorization": "Bearer "}, "10.0.0.7", 403),
        ("secret", {"Authorization": "Bearer secret"}, "10.0.0.7", 200),
        ("secret", {"Authorization": "Bearer secret", "X-Forwarded-For": "10.0.0.7"}, "127.0.0.1", 200),
        ("secret", {"Authorization": "Bearer secres"}, "127.0.0.1", 403),
        ("secret", {"Authorization": "Bearer sécret"}, "127.0.0.1", 403),
        ("secret", {}, "127.0.0.1", 403),
    ],
)
def test_who_may_read_the_figures_of_web(settings, token, headers, address, status):
    settings.METRICS_TOKEN = token
    response = Client().get("/metrics", headers=headers, REMOTE_ADDR=address)
    assert response.status_code == status
    assert (b"drover_live_sockets" in response.content) is (status == 200)
    assert b"drover_" not in response.content or status == 200


def test_figures_change_nothing(client):
    assert client.post("/metrics").status_code == 405


@pytest.fixture
def exporter(tmp_path):
    started = scrape.Exporter("worker", host="127.0.0.1", port=0, folder=tmp_path)
    started.start()
    yield started
    started.stop()
    assert not started.file.exists()


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_worker_serves_its_own_figures_and_says_where(exporter, settings):
    url = f"http://{exporter.file.read_text().strip()}/metrics"
    status, body = get(url)
    assert status == 200
    assert "drover_received_to_applied_seconds_bucket" in body
    assert "process_cpu_seconds_total" in body
    assert get(url.replace("/metrics", "/"))[0] == 404
    settings.METRICS_TOKEN = "secret"
    assert get(url)[0] == 403
    assert get(url, Authorization="Bearer secret")[0] == 200


def test_a_gateway_says_where_its_figures_are_under_a_name_of_its_own(exporter, tmp_path):
    """The pages of docs/trouble read `metrics/worker-*`: what answers there is a worker."""
    gone = exporter.file.with_name("gateway-4194305")  # above what Linux gives
    gone.write_text("127.0.0.1:1\n")
    gateway = scrape.Exporter("gateway", host="127.0.0.1", port=0, folder=tmp_path)
    gateway.start()
    try:
        assert {file.name.partition("-")[0] for file in exporter.file.parent.iterdir()} == {"worker", "gateway"}
        assert get(f"http://{gateway.file.read_text().strip()}/metrics")[0] == 200
        assert not gone.exists()
    finally:
        gateway.stop()


def test_a_worker_opens_its_figures_to_others_only_with_a_token(tmp_path, settings):
    with pytest.raises(ValueError, match="set METRICS_TOKEN as well"):
        scrape.Exporter("worker", host="0.0.0.0", port=0, folder=tmp_path)  # noqa: S104


# --- pages


def test_pages_are_timed_by_method_and_class_of_status(client, since):
    for status in ("2xx", "4xx"):
        since("http_request_seconds_count", method="GET", status=status)
    since("http_request_seconds_count", method="other", status="4xx")
    client.get("/healthz")
    client.get("/no-such-page-RB-001")
    client.generic("BREW", "/metrics")
    assert since("http_request_seconds_count", method="GET", status="2xx") == 1
    assert since("http_request_seconds_count", method="GET", status="4xx") == 1
    assert since("http_request_seconds_count", method="other", status="4xx") == 1


async def test_the_same_under_asgi(async_client, since):
    since("http_request_seconds_count", method="GET", status="2xx")
    await async_client.get("/healthz")
    assert since("http_request_seconds_count", method="GET", status="2xx") == 1

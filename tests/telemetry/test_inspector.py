"""The last messages of a robot, as they came, with our verdicts: also the invalid ones, bounded, and always as text."""

import json

import pytest
import redis
from django.utils import timezone

from fleet.robots import credentials
from telemetry import snapshots
from telemetry.gateways.heard import KEPT, SHOWN, Heard
from telemetry.gateways.http.callers import Callers
from telemetry.pages import inspector
from tests.actors import SYSTEM
from tests.telemetry.post import Post
from tests.telemetry.wire import Wire

pytestmark = pytest.mark.usefixtures("streams")
PAGE = "/fleet/robots/RB-001/messages"
HOSTILE = '<img src=x onerror="alert(1)"></pre><script>alert(1)</script>'


def lines():
    return inspector.last_messages("RB-001", timezone.now())


@pytest.mark.django_db(transaction=True)
async def test_a_socket_leaves_good_and_bad_messages_with_their_verdicts(ask, robot):
    token = await ask(lambda: credentials.issue_credential("RB-001", by=SYSTEM))
    async with Wire(token) as wire:
        await wire.hello()
        await wire.say("robot.state", {"mode": "idle"})
        await wire.hear()
        await wire.say("robot.state", {"mode": "asleep"})
        await wire.hear()
        await wire.send("no json")
        await wire.hear()
        await wire.say("robot.heartbeat", {"battery": 71})
        await wire.hear()
    found = lines()
    assert [(line.type, line.said.word) for line in reversed(found)] == [
        ("hello", "Welcome"), ("robot.state", "Stored"), ("robot.state", "Invalid"), ("", "Invalid"),
        ("robot.heartbeat", "Seen"),
    ]  # fmt: skip
    assert found[2].why.startswith("data.mode: ")
    assert found[1].body == "no json"
    assert {line.over for line in found} == {"WebSocket"}


@pytest.mark.django_db(transaction=True)
async def test_http_leaves_them_too(ask, robot):
    token = await ask(lambda: credentials.issue_credential("RB-001", by=SYSTEM))
    post = Post(token)
    await post.hello()
    await post.post(post.message("robot.state", {"mode": "idle"}), post.message("robot.state", {"mode": "asleep"}))
    await Callers.leave()
    assert [(line.type, line.said.word, line.over) for line in reversed(lines())] == [
        ("hello", "Welcome", "HTTP"), ("robot.state", "Stored", "HTTP"), ("robot.state", "Invalid", "HTTP"),
    ]  # fmt: skip


async def noted(count: int, raw: str = "{}") -> None:
    live = redis.asyncio.from_url(snapshots.settings.LIVE_REDIS_URL)
    heard = Heard(live)
    for _ in range(count):
        heard.note("RB-001", raw, timezone.now(), "", "HTTP")
    await heard.step()
    await live.aclose()


async def test_only_the_newest_are_kept_and_long_ones_are_cut():
    await noted(3, "[" + "9" * 60_000 + "]")
    await noted(KEPT + 20, json.dumps({"type": "x" * 100, "n": 1}))
    assert len(lines()) == KEPT
    assert {line.type for line in lines()} == {"x" * 60}
    await noted(1, "y" * 5000)
    assert (lines()[0].cut, len(lines()[0].body)) == (5000 - SHOWN, SHOWN)


async def test_a_dead_live_redis_costs_nothing():
    live = redis.asyncio.from_url("redis://127.0.0.1:1", socket_connect_timeout=0.2)
    heard = Heard(live)
    heard.note("RB-001", b"{}", timezone.now(), "", "HTTP")
    await heard.step()
    assert heard._new == {}
    await live.aclose()


def put(raw: bytes, answer: str = "") -> None:
    from telemetry.gateways import heard

    note = heard.Noted(1_764_000_000_000, raw, len(raw), answer, "HTTP")
    snapshots.client().rpush(heard.key("RB-001"), heard._encode(note))


@pytest.mark.parametrize(
    "raw",
    [
        HOSTILE.encode(),
        json.dumps({"type": HOSTILE, "a": HOSTILE}).encode(),
        b"\x00\xff\xfe",
        b"[" * 2000,
        "\u202eabc".encode(),
    ],
)
def test_what_a_robot_says_is_text(client, auditor, robot, raw):
    put(raw, json.dumps({"verdict": "invalid", "field": HOSTILE, "reason": HOSTILE}))
    client.force_login(auditor)
    html = client.get(PAGE).content.decode()
    assert "<img src=x" not in html and "<script>alert" not in html and "\x00" not in html


def test_what_is_no_note_is_passed_over(client, auditor, robot):
    snapshots.client().rpush("heard:RB-001", b"rubbish")
    put(b"{}")
    client.force_login(auditor)
    assert len(client.get(PAGE).context["lines"]) == 1


def test_the_page_without_messages_and_without_redis(client, auditor, robot, monkeypatch):
    client.force_login(auditor)
    assert "Nothing yet" in client.get(PAGE).content.decode()
    monkeypatch.setattr(inspector.snapshots, "client", lambda: redis.Redis(port=1, socket_connect_timeout=0.2))
    assert "does not answer" in client.get(PAGE).content.decode()


def test_another_sites_people_do_not_know_the_robot(client, other_supervisor, robot):
    client.force_login(other_supervisor)
    assert client.get(PAGE).status_code == 404


def test_an_answer_of_another_version_is_said_as_it_is():
    assert inspector._verdict("")[0].word == "Taken"
    assert inspector._verdict("[]")[0].word == "Taken"
    assert inspector._verdict('{"verdict": "odd"}')[0].word == "odd"


@pytest.mark.parametrize("part", ['"type": "\\ud800"', '"data": "\\udc00\\ud800"', '"n": ' + "9" * 5000])
def test_text_that_no_page_can_hold_is_shown_as_it_came(client, auditor, robot, part):
    """Half a surrogate pair: JSON can spell it, UTF-8 cannot, and the page broke on the message it was opened for."""
    put(b"{" + part.encode() + b"}")
    client.force_login(auditor)
    answer = client.get(PAGE)
    assert answer.status_code == 200 and part[-6:].strip('"') in answer.content.decode()

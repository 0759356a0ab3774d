"""Robots over HTTP: a request that is wrong as a whole is told what is wrong with it, and takes no room."""

import asyncio
import gzip
import tracemalloc

import pytest

from telemetry.gateways.http import bodies
from telemetry.gateways.http.callers import Callers
from tests.telemetry.post import begun
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"mode": "idle"}


@pytest.mark.parametrize(
    ("status", "field", "body", "headers"),
    [
        (400, "body", b"{", {}),
        (400, "body", b"[1, 2", {}),
        (400, "body", b"", {}),
        (400, "body", b'{"a": "\xff"}', {}),
        (413, "body", b"[" + b"{}," * 500 + b"{}]", {}),
        (413, None, b"", {"content_length": str(bodies.MAX_BODY + 1)}),
        (413, None, b"", {"content_length": "9" * 5000}),
        (400, "Content-Length", b"", {"content_length": "-1"}),
        (413, None, [b" " * bodies.MAX_BODY, b" "], {}),
        (415, "Content-Type", b"{}", {"content_type": "text/html"}),
        (415, "Content-Type", b"{}", {"content_type": ""}),
        (415, "Content-Encoding", b"{}", {"content_encoding": "br"}),
        (400, "Content-Encoding", b"{}", {"content_encoding": "gzip"}),
        (400, "Content-Encoding", gzip.compress(b"[]", mtime=0)[:-9], {"content_encoding": "gzip"}),
        (413, None, gzip.compress(b" " * (bodies.MAX_BODY + 1)), {"content_encoding": "gzip"}),
    ],
)
async def test_a_wrong_request_is_refused_with_a_problem_that_names_what_is_wrong(
    post, streams, status, field, body, headers
):
    reply = await post.request("POST", "/robot/v1/events", body, **headers)
    assert (reply.status, reply.body["status"], reply.body.get("field")) == (status, status, field)
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.body["detail"]
    assert stored(streams) == []
    assert Callers._here.flight.bytes == 0


async def test_a_deeply_nested_body_is_refused(post):
    assert (await post.post("[" * 200_000)).body["field"] == "body"
    assert (await post.post("[" + "[" * 60_000 + "]" * 60_000 + "]")).status in (200, 400)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "events", 405),
        ("PUT", "events", 405),
        ("POST", "commands", 405),
        ("GET", "commands/ack", 405),
        ("GET", "", 404),
        ("GET", "ws", 404),
        ("POST", "events/", 404),
    ],
)
async def test_other_methods_and_addresses(post, method, path, status):
    reply = await post.request(method, f"/robot/v1/{path}")
    assert reply.status == status
    assert ("allow" in reply.headers) == (status == 405)


def test_a_small_body_that_unpacks_to_a_large_one_takes_no_room(monkeypatch):
    monkeypatch.setattr(bodies, "MAX_BODY", 10_000)
    bomb = gzip.compress(b" " * 20_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(bodies.Problem, match="Too long"):
            bodies._unpacked(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("query", ["wait=-1", "wait=25.1", "wait=nan", "wait=soon", "session=x", "session=-1"])
async def test_a_poll_with_a_wrong_parameter_names_it(post, query):
    reply = await post.request("GET", "/robot/v1/commands", query=query)
    assert (reply.status, reply.body["field"]) == (400, query.split("=")[0])


@pytest.mark.parametrize("body", ["[]", "{}", '{"msg_ids": ["x"]}', '{"msg_id": "x"}', "{"])
async def test_a_wrong_acknowledgement_names_what_is_wrong(post, body):
    reply = await post.request("POST", "/robot/v1/commands/ack", body.encode())
    assert reply.status == 400
    assert reply.body["field"] in ("msg_ids", "body")


async def test_a_body_that_does_not_come_is_not_waited_for(post, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_S", 0.05)
    reply = await post.request("POST", "/robot/v1/events", [], content_length="100")
    assert reply.status == 408
    assert Callers._here.flight.bytes == 0


async def test_a_robot_that_hangs_up_in_the_middle_of_its_body_gets_no_answer(post):
    gone = asyncio.Event()
    gone.set()
    assert (await post.request("POST", "/robot/v1/events", [], gone=gone)).status == 0


async def test_there_is_room_for_so_many_bytes_at_a_time(post, monkeypatch):
    monkeypatch.setattr(bodies, "IN_FLIGHT", bodies.LEAST + 100)
    poll = asyncio.create_task(post.poll(wait=25))
    await begun()
    reply = await post.post(post.message("robot.state", STATE))
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert (await post.post(post.message("robot.state", STATE))).verdicts == ["stored"]


async def test_a_robot_cannot_forge_a_line_of_the_log(post, caplog):
    caplog.set_level("INFO")
    await post.post(post.message("robot.state", {"mode": "x\nERROR forged"}))
    [line] = [r.getMessage() for r in caplog.records if "bad message from RB-001" in r.getMessage()]
    assert "forged" in line
    assert "\n" not in line

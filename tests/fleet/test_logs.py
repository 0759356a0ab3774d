"""Log lines: bounded, on one line, without secrets, and joined to the history by request and trace."""

import asyncio
import json
import logging
import os
import sys

import pytest
from django.core.exceptions import RequestAborted
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory
from django.urls import reverse

from fleet import logs
from fleet.history import by_user
from fleet.models import Event
from fleet.running.console import Console, complain
from telemetry.watching import health


def written(formatter: logging.Formatter, message: str, *args: object, exc_info=None) -> str:
    return formatter.format(logging.LogRecord("drover", logging.ERROR, __file__, 1, message, args, exc_info))


def test_json_is_one_object_per_line_with_time_level_and_trace():
    with logs.working_on("a" * 32, msg_id="m-1"):
        said = json.loads(written(logs.Json(), "try %d", 3))
    assert said["message"] == "try 3"
    assert (said["level"], said["logger"], said["trace_id"], said["msg_id"]) == ("error", "drover", "a" * 32, "m-1")
    assert said["time"].endswith("+00:00")
    assert "trace_id" not in json.loads(written(logs.Json(), "after it"))


def test_a_line_for_people_ends_with_the_start_of_the_trace():
    with logs.working_on("abcdef0123456789" * 2):
        assert written(logs.Line(), "hello %s", "Ella") == "ERROR drover: hello Ella [abcdef01]"


@pytest.mark.parametrize("formatter", [logs.Line(), logs.Json()], ids=["line", "json"])
def test_what_robots_say_forges_no_line_and_fills_no_disk(formatter):
    evil = "bad\nERROR drover: all is well\r\x1b[2J\u2028\x00" + "x" * 100_000
    text = written(formatter, "message from %s", evil)
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert len(text) < 3000


@pytest.mark.parametrize("formatter", [logs.Line(), logs.Json()], ids=["line", "json"])
def test_a_traceback_is_kept_and_bounded(formatter):
    try:
        raise ValueError("bad\x1b[2J")
    except ValueError:
        text = written(formatter, "failed", exc_info=sys.exc_info())
    assert "ValueError: bad" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer S3CRET",
        "authorization='Bearer S3CRET'",
        "redis://:S3CRET@cache:6379/0 does not answer",
        "postgresql://drover:S3CRET@db/drover",
        "password=S3CRET host=db",
        '{"token": "S3CRET"}',
        "Cookie: drover_session_8000=S3CRET; other=1",
        "GET /x?token=S3CRET&y=1",
    ],
)
def test_secrets_are_not_written(text):
    assert "S3CRET" not in logs.one_line(text)


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:8000/metrics", "RB-001: session 7: seq 8", "user@example.org wrote", "tokens: 3 issued"]
)
def test_what_is_no_secret_stays(text):
    assert logs.one_line(text) == text


# --- what other programs print, for machines


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        ("FATAL:  could not write: No space left on device", "critical", "FATAL:  could not write: No space left on device"),
        ("ready\x1b[2J", "info", "ready\\x1b[2J"),
        ("{not an object", "info", "{not an object"),
        ("{" * 200_000, "info", None),
        ('{"level": "warning", "message": "by itself\x9b"}', "warning", "by itself\x9b"),
        ("", "info", ""),
    ],
)  # fmt: skip
def test_whatever_a_program_prints_is_an_object_with_its_name(line, level, message):
    text = logs.of_program("postgres", line)
    said = json.loads(text)
    assert (said["program"], said["level"]) == ("postgres", level)
    assert message is None or said["message"] == message
    assert len(text) < 3000 and "\x1b" not in text and "\x9b" not in text


@pytest.mark.parametrize("kind", ["", "json"])
def test_why_a_process_ends_is_for_people_or_for_machines(kind, monkeypatch, capsys):
    monkeypatch.setenv("LOG_FORMAT", kind)
    complain("redis://:S3CRET@cache does not answer")
    said = capsys.readouterr().err
    if not kind:
        assert said.startswith("drover: redis://")
        return
    told = json.loads(said)
    assert told["message"] == "redis://:…@cache does not answer"
    assert (told["level"], told["logger"], told["process"]) == ("critical", "drover", os.getpid())


def test_the_supervising_process_prints_objects_only_for_machines(tmp_path, monkeypatch):
    monkeypatch.setenv("LOG_FORMAT", "json")
    with (tmp_path / "log").open("w") as file:
        console = Console(file.fileno())
        console.say("starting")
        console.line("robots", "RB-001: crash, as it was told to")
        console.line("worker", json.dumps({"message": "hello", "logger": "telemetry.worker.loop"}))
        console.close(5)
    told = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(t["program"], t["logger"], t["message"]) for t in told] == [
        ("drover", "drover", "starting"),
        ("robots", "robots", "RB-001: crash, as it was told to"),
        ("worker", "telemetry.worker.loop", "hello"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"password": "hunter2"}',
        '{"a": [{"token": ["hunter2"]}]}',
        '{"message": "mqtt://bob:hunter2@broker refuses"}',
        '{"message": "said \\"password\\": \\"hunter2\\""}',
        '{"a": NaN, "password": "hunter2"}',
        '{"a": 1e999}',
        '{"a": "one\u2028two\x85three\x9b"}',
        '{"a": ' + "[" * 100_000,
        '{"\\ud800": "\\ud800"}',
        "{not json, mqtt://bob:hunter2@broker}",
        "one\u2028two\x1b[31m\ufffd",
        "redis://:pass@hunter2@host:1",
        "Authorization: Basic hunter2",
        "",
    ],
)  # fmt: skip
def test_whatever_a_program_prints_is_one_object_without_its_secrets(line):
    def no_word_of_json(constant):
        raise AssertionError(constant)

    said = logs.of_program("foreign", line)
    assert said.splitlines() == [said]
    assert json.loads(said, parse_constant=no_word_of_json)["program"] == "foreign"
    assert "hunter2" not in said


def test_what_a_line_is_about_does_not_break_it():
    with logs.working_on("t", msg_id="one\u2028two\x85"):
        said = logs.Json().format(logging.LogRecord("x", logging.INFO, "", 0, "m", (), None))
    assert said.splitlines() == [said]
    assert json.loads(said)["msg_id"] == "one\u2028two\x85"


def test_a_long_traceback_is_not_cut_into_half_a_secret():
    for more in range(logs.LONGEST_TRACE - 60, logs.LONGEST_TRACE, 5):
        error = ValueError("redis://user:hunter2@host" + "\n" + "y" * 1000 + "\n" * (more - 1000))
        record = logging.LogRecord("x", logging.ERROR, "", 0, "m", (), (ValueError, error, None))
        assert "hunter2" not in logs.Json().format(record)
        assert "unter2@" not in logs.Json().format(record)


# --- requests


def test_answers_carry_an_id_that_is_new_each_time(client):
    first, second = (client.get("/healthz")["X-Request-Id"] for _ in range(2))
    assert len(first) == 32
    assert first != second


async def test_the_same_under_asgi():
    assert len((await AsyncClient().get("/healthz"))["X-Request-Id"]) == 32


def test_the_id_in_the_answer_finds_the_events(dispatched, client, supervisor):
    client.force_login(supervisor)
    response = client.post(reverse("robot-stop", args=["RB-001"]), headers={"Accept": "application/json"})
    assert response.status_code == 200
    event = Event.objects.get(kind="robot.hold_opened")
    assert event.cause == f"request:{response['X-Request-Id']}"
    assert event.trace_id == response["X-Request-Id"]


def test_a_callers_trace_is_kept(dispatched, client, supervisor):
    client.force_login(supervisor)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"Accept": "application/json", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    response = client.post(reverse("robot-stop", args=["RB-001"]), headers=headers)
    event = Event.objects.get(kind="robot.hold_opened")
    assert (event.trace_id, event.cause) == (trace, f"request:{response['X-Request-Id']}")


@pytest.mark.parametrize("header", ["", "nonsense", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "00-XYZ-1-01"])
def test_a_traceparent_that_is_not_in_order_counts_as_none(header):
    assert logs.trace_of(header) == ""


def test_nothing_of_a_request_is_left_for_the_next(supervisor):
    seen = []

    def view(request):
        seen.append(dict(logs.about()))
        return HttpResponse()

    logs.Traced(view)(RequestFactory().get("/"))
    assert seen[0]["request_id"] == seen[0]["trace_id"]
    assert logs.about() == {}
    assert by_user(supervisor).trace_id != seen[0]["trace_id"]


def test_an_unhandled_error_is_logged_with_the_request_it_belongs_to(client, monkeypatch, caplog):

    def broken() -> str:
        caplog.handler.setFormatter(logs.Json())
        raise RuntimeError("here")

    monkeypatch.setitem(health.CHECKS, "database", broken)
    caplog.handler.setFormatter(logs.Json())
    response = Client(raise_request_exception=False).get("/readyz")
    assert response.status_code == 500
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    assert any(line.get("request_id") == response["X-Request-Id"] for line in lines)


@pytest.mark.parametrize(
    ("error", "logged"), [(RequestAborted(), 0), (asyncio.CancelledError(), 0), (ValueError("other"), 1)]
)
def test_a_browser_or_a_probe_that_went_away_is_no_trouble(error, logged):
    handler = logging.getLogger().handlers
    ours = next(h for h in handler if logs.nobody_waits in h.filters)
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "never retrieved", (), (type(error), error, None))
    assert bool(ours.filter(record)) is bool(logged)

"""Log lines: one form for people, one for machines, both with the trace that joins them to the history.

LOG_FORMAT=line (a person reads it) or json (one object per line). What robots and users sent is kept to one bounded line
with its control characters escaped, and what looks like a secret is not written at all.
"""

import contextvars
import json
import logging
import logging.config
import os
import re
import sys
import threading
import time
import uuid
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import RequestAborted
from django.http import HttpRequest, HttpResponse

LONGEST = 2000  # characters of a message
LONGEST_TRACE = 8000  # of a traceback
REQUEST, MESSAGE, WISH = "request_id", "msg_id", "wish"
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_SECRETS = (
    re.compile(r"(://[^\s/:@]*:)[^\s/]+(?=@)"),  # a password in a URL, also one that holds an @
    re.compile(r"(?i)(\bbearer\s+|\bauthorization[\"']?\s*[=:]\s*[\"']?(?:basic|digest)\s+)[^\s\"',;]+"),
    re.compile(
        r"(?i)(\b(?:password|passwd|token|secret|secret_key|sessionid|csrftoken|cookie|authorization|drover_session_\w+|"
        r"drover_csrf_\w+)[\"']?\s*[=:]\s*[\"']?)(?!(?:bearer|basic|digest)\b)[^\s\"'&;,]+"
    ),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]|\n|\t")

_about: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("about", default={})  # noqa: B039  (never changed)
log = logging.getLogger(__name__)


def about() -> dict[str, str]:
    """What this thread or task is working on: trace_id, and request_id or msg_id, or the wish of a page. Do not change it."""
    return _about.get()


@contextmanager
def working_on(trace_id: str, **what: str) -> Iterator[None]:
    """Log lines from here on carry these."""
    before = _about.set({"trace_id": trace_id, **what})
    try:
        yield
    finally:
        _about.reset(before)


def trace_of(traceparent: str) -> str:
    """Trace id of a W3C `traceparent`; empty when it is not in order."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    return found[1] if found and found[1].strip("0") else ""


def without_secrets(text: str) -> str:
    """As far as they look like such."""
    for secret in _SECRETS:
        text = secret.sub(r"\1…", text)
    return text


def one_line(text: str, longest: int = LONGEST) -> str:
    """Text of others as one bounded line: control characters escaped, secrets left out."""
    text = without_secrets(text)
    text = _CONTROL.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest} more)"


class Line(logging.Formatter):
    """For people: level, who, what, and the end of the trace id."""

    def format(self, record: logging.LogRecord) -> str:
        trace = about().get("trace_id", "")
        line = f"{record.levelname} {record.name}: {one_line(record.getMessage())}" + (
            f" [{trace[:8]}]" if trace else ""
        )
        return "\n".join([line, *(one_line(row) for row in _traceback(self, record).splitlines())])


class Json(logging.Formatter):
    """For machines: one object per line. `time` is UTC."""

    def format(self, record: logging.LogRecord) -> str:
        more = about()
        if trace := _traceback(self, record):
            rows = "\n".join(one_line(row) for row in trace.splitlines())
            more = more | {"exception": rows[-LONGEST_TRACE:]}  # not cut before: half a secret does not look like one
        return _object(
            record.created, record.levelname, record.name, record.getMessage(), process=record.process, **more
        )


def _object(at: float, level: str, logger: str, message: str, **more: Any) -> str:
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    said = {"time": when, "level": level.lower(), "logger": logger, "message": one_line(message), **more}
    return _written(said)


def _written(said: Any) -> str:
    """One line, for whatever splits lines. Raises `ValueError` for what JSON has no word for."""
    return _CONTROL.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(said, ensure_ascii=False, allow_nan=False))


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


FORMATS = {"line": {"()": Line}, "json": {"()": Json}}
# PostgreSQL's own words
_LEVELS = {"WARNING:": "warning", "ERROR:": "error", "FATAL:": "critical", "PANIC:": "critical"}


def configure(config: dict[str, Any]) -> None:
    """For Django's LOGGING_CONFIG. For machines, what Python warns of is a line as well."""
    logging.config.dictConfig(config)
    if is_json():
        logging.captureWarnings(True)
    catch()


def catch() -> None:
    """For machines, what nobody catches is a line from here on."""
    if is_json():
        sys.excepthook = _uncaught
        sys.unraisablehook = threading.excepthook = _uncaught_there


def is_json() -> bool:
    """Do machines read what this process says? Known before there are settings, and where there are none."""
    return os.environ.get("LOG_FORMAT") == "json"


def _uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    text = "this process ends by an error that nobody expected"
    ends = log.makeRecord(log.name, logging.CRITICAL, "", 0, text, (), (kind, error, trace))
    if logging.root.handlers:
        log.handle(ends)
    else:  # there are no settings, it may be for want of one
        sys.stderr.write(f"{Json().format(ends)}\n")


def _uncaught_there(told: Any) -> None:
    """In a thread, or while an object was thrown away: the process goes on."""
    if told.exc_type is not SystemExit:
        where = getattr(told, "thread", None) or getattr(told, "object", None)
        log.error(
            "an error that nobody expected, in %r", where, exc_info=(told.exc_type, told.exc_value, told.exc_traceback)
        )


def last_words(text: str) -> str:
    """For people, or for machines, why this process ends: for `SystemExit`, which writes it to stderr."""
    return _object(time.time(), "critical", "drover", text, process=os.getpid()) if is_json() else f"drover: {text}"


def of_program(name: str, line: str) -> str:
    """For machines, what a program printed. What is such an object already only learns whose it is."""
    if line.startswith("{"):
        with suppress(ValueError, RecursionError):
            return _written({**_cleaned(json.loads(line)), "program": name})
    level = next((_LEVELS[word] for word in line.split(maxsplit=1)[:1] if word in _LEVELS), "info")
    return _object(time.time(), level, name, line, program=name)


def _cleaned(said: Any, name: str = "") -> Any:
    """Without the secrets of programs that are not ours."""
    if isinstance(said, dict):
        return {key: _cleaned(value, key) for key, value in said.items()}
    if isinstance(said, list):
        return [_cleaned(value, name) for value in said]
    if isinstance(said, str):
        return "…" if without_secrets(f"{name}: x") != f"{name}: x" else without_secrets(said)
    return said


def nobody_waits(record: logging.LogRecord) -> bool:
    """Filter: a browser or a probe that went away in the middle of its request is no trouble.

    When daphne cancels the request, Django leaves the task behind that noticed it, and asyncio reports it.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], (RequestAborted, CancelledError)))


class Traced:
    """Middleware: a request has an id, which its log lines, its events and its answer carry (X-Request-Id).

    A caller's `traceparent` becomes the trace; without one the request is its own.
    """

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]) -> None:
        self.get_response: Any = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if iscoroutinefunction(self.get_response):
            return self._later(request)
        with self._named(request) as number:
            return _signed(self.get_response(request), number)

    async def _later(self, request: HttpRequest) -> HttpResponse:
        with self._named(request) as number:
            return _signed(await self.get_response(request), number)

    @contextmanager
    def _named(self, request: HttpRequest) -> Iterator[str]:
        number = uuid.uuid4().hex
        with working_on(trace_of(request.headers.get("traceparent", "")) or number, request_id=number):
            yield number


def _signed(response: HttpResponse, number: str) -> HttpResponse:
    response["X-Request-Id"] = number
    return response

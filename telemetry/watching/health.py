"""Is this process alive, and is everything that it needs there? `/healthz`, `/readyz`."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.running import startup
from fleet.web import pool
from telemetry.partitions import somebody_works
from telemetry.watching import notices
from telemetry.watching.causes import CAUSES, of_database, words
from telemetry.watching.checks import read_only

TIMEOUT_S = 1.0  # a Redis that takes longer counts as missing
LIMIT_S = 2.0  # all checks together; a PostgreSQL that is frozen takes connections and never says a word


@require_safe
async def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers. No I/O, so it says nothing of anything else."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when all is there; else 503 naming what is missing. `warnings`: what will be, or makes things slow."""
    lacking, warnings = state()
    answer = {"ready": not lacking, "missing": lacking, "warnings": warnings}
    response = JsonResponse(answer, status=503 if lacking else 200)
    response._has_been_logged = True  # type: ignore[attr-defined]  # "not yet" is an answer, not a server error
    return response


def state() -> tuple[dict[str, str], dict[str, str]]:
    """What is missing → why, and what else is wrong → in words; both empty when all is well."""
    if connection.in_atomic_block:  # a test's transaction, which no other thread sees
        lacking = {name: check() for name, check in CHECKS.items()}
        notes = notices.read()
    else:
        answers = {name: _answer(name, check) for name, check in CHECKS.items()}
        told = _answer("notes", notices.read)
        wait([*answers.values(), told], timeout=LIMIT_S)
        lacking = {name: answer.result() if answer.done() else LATE[name] for name, answer in answers.items()}
        notes = told.result() if told.done() else {}
    lacking = {name: why for name, why in lacking.items() if why}
    for cause, text in notes.items():
        if (part := _part(cause)) and part not in lacking:
            lacking[part] = text
    store = next((name for name in ("database", "durable redis") if name in lacking), "")
    if store and "worker" in lacking:  # a worker says in the database that it works, but not while it waits for a store
        lacking["worker"] = f"unknown: see {store}"
    return lacking, {
        cause: text for cause, text in notes.items() if not _part(cause) and _seen_as(cause) not in lacking
    }


def _part(cause: str) -> str:
    known = CAUSES.get(cause.partition(":")[0])
    return known.part if known else ""


def _seen_as(cause: str) -> str:
    known = CAUSES.get(cause.partition(":")[0])
    return known.seen_as if known else ""


_under_way: dict[str, Future[Any]] = {}


def _answer(name: str, check: Callable[[], Any]) -> Future[Any]:
    """The answer of a check, in a thread of its own. One that hangs is not asked a second time meanwhile."""
    known = _under_way.get(name)
    if known is not None and not known.done():
        return known
    answer = _under_way[name] = Future()
    Thread(target=_ask, args=(check, answer), name=f"readyz {name}", daemon=True).start()
    return answer


def _ask(check: Callable[[], Any], answer: Future[Any]) -> None:
    try:
        pool.own()  # whether the database answers is not whether a connection is free
        answer.set_result(check())
    except Exception as error:  # raised again where it is waited for
        answer.set_exception(error)
    finally:
        connection.close()


def _database() -> str:
    try:
        found, why = startup.unsound(), read_only()
    except DatabaseError as error:
        told = of_database(error)
        return told[1] if told else f"answers with an error ({' '.join(str(error).split())[:200]})"
    if found:
        return "; ".join(found)
    return words("database_read_only", why=why) if why else ""


def _redis(url: str, *, writes: bool = False) -> Callable[[], str]:
    """`writes`: one that only answers is not enough, for it may be full."""

    def check() -> str:
        client = redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        try:
            client.ping()
            if writes:
                client.set("ready", 1, ex=10)
        except redis.ResponseError as exc:
            return f"refuses to write ({' '.join(str(exc).split())[:100]}); see docs/trouble/redis-is-full.md"
        except (redis.RedisError, OSError) as exc:
            return f"does not answer ({type(exc).__name__}); see docs/trouble/redis-is-full.md"
        finally:
            client.close()
        return ""

    return check


def _worker() -> str:
    try:
        alive = somebody_works()
    except DatabaseError:
        return "unknown: the database does not answer"
    return "" if alive else "no worker owns a partition; start `manage.py worker` (docs/trouble/stream-backs-up.md)"


_LATE = f"does not answer within {LIMIT_S:g} s"
LATE: dict[str, str] = {  # what to say when a check has no answer yet
    "database": f"{_LATE}; see docs/trouble/database-takes-no-writes.md",
    "durable redis": f"{_LATE}; see docs/trouble/redis-is-full.md",
    "live redis": f"{_LATE}; see docs/trouble/redis-is-full.md",
    "worker": f"unknown: the database {_LATE}",
}

CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "durable redis": _redis(settings.REDIS_URL, writes=True),
    "live redis": _redis(settings.LIVE_REDIS_URL),
    "worker": _worker,
}

"""Is this process alive, and is everything that it needs there? `/healthz`, `/readyz`."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet import startup
from telemetry.partitions import somebody_works

TIMEOUT_S = 1.0  # a Redis that takes longer counts as missing
LIMIT_S = 2.0  # all checks together; a PostgreSQL that is frozen takes connections and never says a word


@require_safe
async def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers. No I/O, so it says nothing of anything else."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when all is there; else 503 naming what is missing."""
    lacking = missing()
    response = JsonResponse({"ready": not lacking, "missing": lacking}, status=503 if lacking else 200)
    response._has_been_logged = True  # type: ignore[attr-defined]  # "not yet" is an answer, not a server error
    return response


def missing() -> dict[str, str]:
    """What → why; empty when all is there."""
    if connection.in_atomic_block:  # a test's transaction, which no other thread sees
        found = {name: check() for name, check in CHECKS.items()}
    else:
        answers = {name: _answer(name, check) for name, check in CHECKS.items()}
        wait(answers.values(), timeout=LIMIT_S)
        late = f"does not answer within {LIMIT_S:g} s"
        found = {name: answer.result() if answer.done() else late for name, answer in answers.items()}
    return {name: why for name, why in found.items() if why}


_under_way: dict[str, Future[str]] = {}


def _answer(name: str, check: Callable[[], str]) -> Future[str]:
    """The answer of a check, in a thread of its own. One that hangs is not asked a second time meanwhile."""
    known = _under_way.get(name)
    if known is not None and not known.done():
        return known
    answer = _under_way[name] = Future()
    Thread(target=_ask, args=(check, answer), name=f"readyz {name}", daemon=True).start()
    return answer


def _ask(check: Callable[[], str], answer: Future[str]) -> None:
    try:
        answer.set_result(check())
    except Exception as error:
        answer.set_exception(error)
    finally:
        connection.close()


def _database() -> str:
    return "; ".join(startup.problems())


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
            return f"does not answer ({type(exc).__name__})"
        finally:
            client.close()
        return ""

    return check


def _worker() -> str:
    try:
        alive = somebody_works()
    except DatabaseError:
        return "unknown: the database does not answer"
    return "" if alive else "no worker owns a partition; start `manage.py worker`"


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "durable redis": _redis(settings.REDIS_URL, writes=True),
    "live redis": _redis(settings.LIVE_REDIS_URL),
    "worker": _worker,
}

"""Is this process alive, and is everything that it needs there? `/healthz`, `/readyz`."""

from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet import startup
from telemetry.models import Partition

TIMEOUT_S = 1.0  # a store that takes longer counts as missing


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
    return {name: why for name, check in CHECKS.items() if (why := check())}


def _database() -> str:
    return "; ".join(startup.problems())


def _redis(url: str) -> Callable[[], str]:
    def check() -> str:
        client = redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        try:
            client.ping()
        except (redis.RedisError, OSError) as exc:
            return f"does not answer ({type(exc).__name__})"
        finally:
            client.close()
        return ""

    return check


def _worker() -> str:
    try:
        alive = Partition.objects.filter(until__gt=Now()).exclude(owner="").exists()
    except DatabaseError:
        return "unknown: the database does not answer"
    return "" if alive else "no worker owns a partition; start `manage.py worker`"


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "durable redis": _redis(settings.REDIS_URL),
    "live redis": _redis(settings.LIVE_REDIS_URL),
    "worker": _worker,
}

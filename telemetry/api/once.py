"""Idempotency keys: the same request again, in vain or by five clicks at once, gets the answer of the first."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from fleet.models import ApiRequest
from telemetry.api.problems import Wrong, problem

HEADER = "Idempotency-Key"
MAX_KEY = 200


def once(request: HttpRequest, make: Callable[[], tuple[int, dict[str, Any]]]) -> HttpResponse:
    """Run `make`, which answers (status, body), in one transaction with the key; a known key gets the stored answer.

    Whoever comes second waits for the first to commit. What is refused stores nothing: it may be sent again.
    """
    key = request.headers.get(HEADER, "")
    if not key:
        with transaction.atomic():
            return answer(*make())
    if len(key) > MAX_KEY or not key.isprintable():
        raise Wrong(HEADER, f"A printable text of at most {MAX_KEY} characters.")
    digest = hashlib.sha256(b"\n".join((request.method.encode(), request.path.encode(), request.body))).hexdigest()
    token = request.auth  # type: ignore[attr-defined]
    with transaction.atomic():
        row, new = ApiRequest.objects.get_or_create(
            token=token, key=key, defaults={"digest": digest, "created_at": timezone.now()}
        )
        if new:
            row.status, body = make()
            row.body = msgspec.json.encode(body).decode()
            row.save(update_fields=["status", "body"])
            return answer(row.status, body)
    if row.digest != digest:
        return problem(422, f"This {HEADER} was used for another request. Use a new one for each request.")
    again = HttpResponse(row.body, status=row.status, content_type="application/json")
    again["Idempotency-Replayed"] = "true"
    return again


def answer(status: int, body: dict[str, Any]) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), status=status, content_type="application/json")

"""What is sent of an event: the same bytes at every try, because an event never changes."""

import json
from contextlib import suppress
from typing import Any

import msgspec

from fleet.audit.export import exact
from fleet.history import sentence
from fleet.models import Event, Site
from telemetry.out.models import Sending
from telemetry.out.webhooks.wanted import TEST

_encode = msgspec.json.Encoder().encode


def payload(sending: Sending) -> bytes:
    """JSON. Raises LookupError when the event is not there."""
    if sending.event_id is None:
        at = exact(sending.created_at)
        text = f"A test of the webhook “{sending.webhook}”"
        return _encode({"id": key_of(sending), "kind": TEST, "text": text, "recorded_at": at, "data": {}})
    event = Event.objects.filter(pk=sending.event_id).first()
    if event is None:
        raise LookupError(f"event {sending.event_id}")
    return _encode(told(event))


def key_of(sending: Sending) -> str:
    """By which the receiver knows that it has had this before."""
    return str(sending.event_id) if sending.event_id is not None else f"test-{sending.pk}"


def told(event: Event) -> dict[str, Any]:
    data: Any = event.data
    with suppress(ValueError, RecursionError):
        data = json.loads(event.data)
    site = Site.objects.filter(pk=event.site_id).values_list("name", flat=True).first() if event.site_id else None
    about, _, key = event.aggregate.partition(":")
    return {
        "id": str(event.pk), "kind": event.kind, "text": sentence(event),
        "about": about, "about_id": key, "seq": event.seq,
        "site": {"id": event.site_id, "name": site} if event.site_id else None,
        "state_from": event.state_from, "state_to": event.state_to,
        "actor": {"kind": event.actor_kind, "id": event.actor_id, "name": event.actor_name},
        "cause": event.cause, "trace_id": event.trace_id,
        "occurred_at": exact(event.occurred_at), "recorded_at": exact(event.recorded_at),
        "data": data,
    }  # fmt: skip

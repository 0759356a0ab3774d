"""Messages for robots: how a command row and its frame are made (docs/protocol.md, "Commands")."""

import uuid
from typing import Any

import msgspec

from fleet.history import Change
from fleet.models import Command

NAMESPACE = uuid.UUID("5b1c1d0c-6f2a-4c0e-9a58-0d3a8f6f2b10")


def command(
    change: Change,
    kind: str,
    robot_id: str,
    *,
    dispatch_no: int | None = None,
    data: dict[str, Any] | None = None,
    msg_id: uuid.UUID | None = None,
) -> Command:
    """A command that follows from the change's last event.

    Its msg_id derives from aggregate, version and kind: deciding the same thing again makes the same command.
    One that follows from no event is given its `msg_id`. With `dispatch_no`, the change is of a mission and the command belongs to that dispatch.
    """
    assert change.now is not None
    msg_id = msg_id or msg_id_of(change, kind, change.row.version)
    mission = change.row.pk if dispatch_no is not None else None
    body = {
        "v": 1, "type": kind, "msg_id": msg_id, "robot": robot_id, "mission": mission, "dispatch_no": dispatch_no,
        "traceparent": traceparent(change), "data": data or {},
    }  # fmt: skip
    return Command(
        id=msg_id, robot_id=robot_id, kind=kind, mission=mission, dispatch_no=dispatch_no,
        body=msgspec.json.encode(body).decode(), created_at=change.now,
    )  # fmt: skip


def msg_id_of(change: Change, kind: str, version: int) -> uuid.UUID:
    """The msg_id of the command of this kind that follows from event `version` of the aggregate."""
    return uuid.uuid5(NAMESPACE, f"{change.name} {version} {kind}")


def traceparent(change: Change) -> str:
    """W3C trace context of what caused the command; empty when there is none."""
    trace = change.origin.trace_id
    return f"00-{trace}-{change.origin.span_id or uuid.uuid4().hex[:16]}-01" if len(trace) == 32 else ""

"""What the site writes in the native robot protocol: frames to robots, and messages that gateways write on their behalf."""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from telemetry.protocol import HEARTBEAT_S, MOST_OFFERED, VERSION, Up

_encode = msgspec.json.Encoder().encode


def welcome(session: int, applied: dict[int, int], now: datetime) -> str:
    """Answer to hello. `applied`: session → seq up to which every critical message is applied or a dead letter."""
    frame = {"type": "welcome", "v": VERSION, "session": session, "applied": applied, "heartbeat_s": HEARTBEAT_S}
    return _encode({**frame, "time": now}).decode()


def ack(msg_id: UUID | str | None, verdict: str, field: str = "", reason: str = "") -> str:
    """`stored`, `duplicate` or `invalid` (then with the field and the reason)."""
    frame = {"type": "ack", "msg_id": msg_id, "verdict": verdict}
    return _encode({**frame, "field": field, "reason": reason} if verdict == "invalid" else frame).decode()


def seen(msg_id: UUID, applied: dict[int, int]) -> str:
    """Answer to a heartbeat."""
    return _encode({"type": "ack", "msg_id": msg_id, "verdict": "seen", "applied": applied}).decode()


def not_taken(msg_id: UUID | str | None, verdict: str, reason: str) -> str:
    """`dropped`: lossy, and too much of it; nobody needs it again. `retry` (HTTP): not stored, to be sent again."""
    return _encode({"type": "ack", "msg_id": msg_id, "verdict": verdict, "reason": reason}).decode()


def close(code: int, reason: str) -> str:
    """Over MQTT, where no socket can be closed: what its close code would say."""
    return _encode({"type": "close", "code": code, "reason": reason}).decode()


def frame(up: Up) -> bytes:
    """A message that a gateway writes on behalf of a robot which has no such words."""
    return _encode(up)


def delivered(command: UUID, robot: str, at: datetime) -> tuple[UUID, bytes]:
    """(msg_id, message) for the stream: this robot has acknowledged this command, which may be sent again later."""
    msg_id = uuid.uuid5(command, f"delivered {at.isoformat()}")
    return msg_id, _internal(msg_id, robot, "command.delivered", at, {"command": command})


def offered(robot: str, capabilities: Iterable[str], at: datetime) -> tuple[UUID, bytes]:
    """(msg_id, message) for the stream: what this robot says now that it can do."""
    can = sorted({word for word in capabilities if word.isprintable() and 0 < len(word) <= 200})[:MOST_OFFERED]
    msg_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{robot} can {can} {at.isoformat()}")
    return msg_id, _internal(msg_id, robot, "robot.capabilities", at, {"capabilities": can})


def _internal(msg_id: UUID, robot: str, type: str, at: datetime, data: dict[str, Any]) -> bytes:
    return _encode(
        Up(
            v=VERSION,
            msg_id=msg_id,
            robot=robot,
            session=0,
            channel="critical",
            seq=0,
            type=type,
            occurred_at=at,
            data=data,
        )
    )

"""What every gateway asks before it takes a frame: who sends it, is it right, and is it this robot's own?"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from telemetry import protocol
from telemetry.protocol import Ack, Bad, Hello, Up

log = logging.getLogger(__name__)
COMPLAIN_S = 10.0  # bad messages of one robot are logged this often; all are counted

Frame = Hello | Ack | Up


def bearer_token(scope: Mapping[str, Any]) -> str:
    """From the headers of an ASGI scope; empty when there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return str(value[7:].decode("latin-1").strip())
    return ""


def read(raw: bytes | str, check: Callable[[Frame], None]) -> Frame:
    """The frame, if it is right and passes `check`. Raises `Bad`, with an envelope only if that passes as well."""
    try:
        frame = protocol.decode_frame(raw)
    except Bad as bad:
        if bad.envelope is not None:
            check(bad.envelope)
        raise
    check(frame)
    return frame


def check_owner(frame: Frame, robot: str) -> None:
    """Is it this robot's? Raises `Bad`."""
    if isinstance(frame, Hello | Up) and frame.robot != robot:
        raise Bad("robot", f"this link belongs to {robot}", msg_id=_msg_id(frame))


def check_session(frame: Up, session: int) -> None:
    """Critical messages keep the session that they were made in, lossy ones are of this link. Raises `Bad`."""
    oldest = 1 if frame.channel == "critical" else session
    if not oldest <= frame.session <= session:
        raise Bad("session", f"this link has session {session}", msg_id=_msg_id(frame))


def _msg_id(frame: Frame) -> str | None:
    return None if frame.msg_id is None else str(frame.msg_id)


class Complaints:
    """Logs what is wrong with one robot's messages, without letting it bury the log or forge a line of it."""

    def __init__(self, robot: str, clock: Callable[[], float]) -> None:
        self._robot, self._clock = robot, clock
        self._silent, self._last = 0, float("-inf")

    def add(self, bad: Bad) -> None:
        now = self._clock()
        if now - self._last < COMPLAIN_S:
            self._silent += 1
            return
        more = f" (and {self._silent} before it)" if self._silent else ""
        log.info("bad message from %s: %s%s", self._robot, str(bad).encode("unicode_escape").decode(), more)
        self._silent, self._last = 0, now

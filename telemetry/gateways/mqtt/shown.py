"""What people are shown of a robot's message in the inspector, and of what its driver made of it."""

import json
import re
from collections.abc import Iterable
from typing import Any

from telemetry.drivers import contract
from telemetry.drivers.contract import Effect

_PREFIX = b"drover_"  # of each token that fleet.robots.credentials issues
_TOKEN = re.compile(re.escape(_PREFIX) + rb"[A-Za-z0-9_-]+")
_HIDDEN = _PREFIX + "…".encode()


def without_tokens(payload: bytes) -> bytes:
    """A credential that came in a message is nobody's to read."""
    return _TOKEN.sub(_HIDDEN, payload) if _PREFIX in payload else payload


def made_of(effects: Iterable[Effect]) -> str:
    """What was wrong with one message and which words it became; or the answer to it."""
    effects = list(effects)
    wrong = next((e for e in effects if type(e) is contract.Complaint), None)
    said = list(dict.fromkeys(e.type for e in effects if type(e) is contract.Say))[:6]
    if wrong is None and not said:
        answer = next((e.payload for e in effects if type(e) is contract.Send), b"")
        return answer[:500].decode(errors="replace")
    made: dict[str, Any] = {"words": said} if said else {}
    if wrong is not None:
        counts = any(type(e) not in (contract.Complaint, contract.Link, contract.Send) for e in effects)
        made |= {"verdict": "partly" if counts else "invalid", "field": wrong.field[:60], "reason": wrong.reason[:160]}
    return json.dumps(made, ensure_ascii=False)

"""Errors as `application/problem+json` (RFC 9457), the same for robots and for other programs."""

import json
from typing import Any

CONTENT_TYPE = "application/problem+json"


def body(status: int, title: str, detail: str, **more: Any) -> bytes:
    """`more`: further members, such as `field` or `errors`. What comes from outside may be text that no UTF-8 can hold."""
    return json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail, **more}).encode()

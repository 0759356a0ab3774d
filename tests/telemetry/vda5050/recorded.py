"""The messages recorded from foreign robots and the official schemas: they lie beside the repository, not in it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings

from tests.tools import missing

SHARED: Path = settings.BASE_DIR.parent / "shared" / "vda5050"


class Message(NamedTuple):
    line: int
    part: str
    payload: Any
    raw: bytes


def folder(name: str) -> Path:
    """`samples` or `schemas/<version>`; absent: the test is left out."""
    path = SHARED / name
    if not path.is_dir():
        missing("../shared/vda5050 is not there: recorded messages and official schemas")
    return path


def messages(name: str) -> Iterator[Message]:
    """Those of one file, as they came over the wire. What was no JSON stands there as a text."""
    for line, text in enumerate((folder("samples") / name).read_text().splitlines(), 1):
        entry = json.loads(text)
        if entry["kind"] == "MSG":
            payload = entry["payload"]
            raw = payload if isinstance(payload, str) else json.dumps(payload)
            yield Message(line, entry["topic"].rsplit("/", 1)[1], payload, raw.encode())

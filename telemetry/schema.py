"""The robot protocol as JSON Schema, for people who build robots: made from the same tables that gateways decide by.

`python -m telemetry.schema` writes docs/protocol.schema.json.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from telemetry.protocol import COMMANDS, MAX_BYTES, TYPES, Ack, Hello, Up

FILE = Path(__file__).parent.parent / "docs" / "protocol.schema.json"


def schema() -> dict[str, Any]:
    """What a robot may send: one `oneOf` of all messages."""
    forms = {row.data.__name__: row.data for row in TYPES.values()}
    _, parts = msgspec.json.schema_components([Up, Hello, Ack, *forms.values()], ref_template="#/$defs/{name}")
    messages = {name: _message(name) for name in sorted(TYPES)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Drover robot protocol, version 1: what a robot sends",
        "description": f"A message is at most {MAX_BYTES} bytes of UTF-8. Commands of the site: {', '.join(COMMANDS)}.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in ("Hello", "Ack", *messages)],
        "$defs": _anchored(parts | messages),
    }


def _message(name: str) -> dict[str, Any]:
    row = TYPES[name]
    filled = {field: {"not": {"type": "null"}} for field in row.needs}
    fixed = {
        "v": {"const": 1}, "type": {"const": name}, "channel": {"const": row.channel},
        "session": {"minimum": 1}, "seq": {"minimum": 1}, "data": {"$ref": f"#/$defs/{row.data.__name__}"},
    }  # fmt: skip
    needs_data = ["data"] if any(f.required for f in msgspec.structs.fields(row.data)) else []
    return {
        "allOf": [{"$ref": "#/$defs/Up"}],
        "properties": fixed | filled,
        "required": [*row.needs, *needs_data],
    }


def _anchored(part: Any) -> Any:
    """Patterns in the dialect of JSON Schema, which knows no \\A and \\Z."""
    if isinstance(part, dict):
        return {
            key: value.replace(r"\A", "^").replace(r"\Z", "$") if key == "pattern" else _anchored(value)
            for key, value in part.items()
        }
    return [_anchored(item) for item in part] if isinstance(part, list) else part


def text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())

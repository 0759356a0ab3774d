"""What a program may ask for in an address: a parameter that is not there is refused.

A typing error must not pass in silence, as in a body: `?status=pending` would show every mission, whatever its state.
"""

import re
from functools import cache
from typing import Any

from telemetry.api.problems import Wrong


def check(request: Any) -> None:
    """Raises `Wrong`."""
    known = _known()[request.method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", f"/{request.resolver_match.route}")]
    if unknown := sorted(set(request.GET) - set(known)):
        there = f"There are {', '.join(known)}." if known else "There are none."
        raise Wrong(unknown[0], f"This address has no such parameter. {there}")
    for name, takes_several in known.items():
        if not takes_several and len(request.GET.getlist(name)) > 1:
            raise Wrong(name, "This takes one value, and was given several.")


@cache
def _known() -> dict[tuple[str, str], dict[str, bool]]:
    """(method, address) → names, as openapi.json tells them, and whether each may be given several times."""
    from telemetry.api import api

    return {
        (method.upper(), path): {
            p["name"]: "array" in _types(p["schema"]) for p in operation.get("parameters", ()) if p["in"] == "query"
        }
        for path, operations in api.get_openapi_schema()["paths"].items()
        for method, operation in operations.items()
    }


def _types(schema: dict[str, Any]) -> set[Any]:
    return {one.get("type") for one in (schema, *schema.get("anyOf", ()))}

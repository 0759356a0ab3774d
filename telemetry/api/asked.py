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


@cache
def _known() -> dict[tuple[str, str], list[str]]:
    """(method, address) → names, as openapi.json tells them."""
    from telemetry.api import api

    return {
        (method.upper(), path): [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
        for path, operations in api.get_openapi_schema()["paths"].items()
        for method, operation in operations.items()
    }

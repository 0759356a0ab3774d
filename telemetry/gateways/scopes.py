"""Who calls, by the ASGI scope of a connection."""

from collections.abc import Mapping
from typing import Any

from fleet.people.sessions import client_address


def bearer_token(scope: Mapping[str, Any]) -> str:
    """From its headers; empty when there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return str(value[7:].decode("latin-1").strip())
    return ""


def address_of(scope: Mapping[str, Any]) -> str:
    """Where it comes from."""
    forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
    return client_address(forwarded.decode("latin-1"), str((scope.get("client") or [""])[0]))

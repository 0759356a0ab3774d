"""Where a webhook may lead: to the internet over https, and inside only where the settings say so.

Whoever may make a webhook must not be able to reach what only this machine reaches. So a name is resolved here, the
address is looked at, and that very address is connected to: a name that means something else a moment later leads
nowhere else. Redirects are never followed.
"""

import ipaddress
import socket
import string
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from django.conf import settings

from fleet.refusals import Refused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
MAX_URL = 500
# IPv6 addresses that carry an IPv4 address, which nobody would have looked at
_CARRIERS = [ipaddress.ip_network(n) for n in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")]


class Unreachable(Exception):
    """Why nothing can be sent there, in words."""


class Target(NamedTuple):
    """`address` is where to connect, `host` whom to talk to there."""

    tls: bool
    host: str
    port: int
    path: str
    address: str


def checked_url(text: str) -> str:
    """The address as it is kept. Raises `Refused` that begins with the column."""
    text = text.strip()
    if len(text) > MAX_URL or any(ord(c) <= 32 or ord(c) == 127 for c in text):
        raise Refused(f"url: At most {MAX_URL} characters, without spaces.")
    try:
        parts, _ = urlsplit(text), urlsplit(text).port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:
        raise Refused("url: Not an address. It should look like https://example.org/drover.") from None
    if parts.scheme not in ("https", "http") or not host:
        raise Refused("url: Not an address. It should look like https://example.org/drover.")
    if parts.username is not None or parts.password is not None:
        raise Refused(
            "url: No name or password in it: the address is kept in the history. The signature tells who sends."
        )
    if parts.fragment:
        raise Refused("url: Nothing after #: it would not be sent.")
    if parts.scheme == "http" and not (settings.DEBUG or settings.WEBHOOK_NETS):
        raise Refused("url: Only https. WEBHOOK_NETS in the settings names networks where http will do.")
    if (address := _literal(host)) and (why := why_not(address, parts.scheme)):
        raise Refused(f"url: {why}")
    return text


def target(url: str) -> Target:
    """Resolve and look. Raises `Unreachable`. May take as long as the name service does."""
    parts = urlsplit(url)
    host, tls = (parts.hostname or "").encode("idna").decode(), parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    why = "its name has no address"
    for address in _resolved(host, port):
        why = why_not(address, parts.scheme)
        if not why:
            return Target(tls, host, port, _path(parts), str(address))
    raise Unreachable(why)


def _resolved(host: str, port: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"its name cannot be resolved ({error.strerror or error})") from None
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def _literal(host: str) -> Address | None:
    if host.lower() == "localhost":
        return ipaddress.ip_address("127.0.0.1")
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def why_not(address: Address, scheme: str) -> str:
    """Why this address may not be asked; empty when it may."""
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = inner or address
    if any(address in net for net in settings.WEBHOOK_NETS if net.version == address.version):
        return ""
    if not _is_public(address):
        return f"{address} is not on the internet. WEBHOOK_NETS in the settings names networks inside that may be told."
    return "" if scheme == "https" or settings.DEBUG else "Only https leads out of this network."


def _is_public(address: Address) -> bool:
    carried = any(address in net for net in _CARRIERS if net.version == address.version)
    old = isinstance(address, ipaddress.IPv6Address) and address.is_site_local  # fec0::/10, which passes for global
    return address.is_global and not (
        carried or old or address.is_multicast or address.is_reserved or address.is_unspecified
    )  # fmt: skip


def _path(parts: SplitResult) -> str:
    """As it is sent: what is not ASCII in percents, what somebody has put so already as it is."""
    text = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return quote(text, safe=string.punctuation)

"""A webhook leads to the internet over https; inside only where the settings say so, whatever a name means."""

import ipaddress
import socket

import pytest

from fleet.refusals import Refused
from telemetry.out.webhooks import addresses
from telemetry.out.webhooks.addresses import Unreachable, checked_url, target, why_not
from telemetry.out.webhooks.posting import Connection

PUBLIC = "93.184.215.14"


@pytest.fixture
def names(monkeypatch):
    """Name → addresses."""
    known: dict[str, list[str]] = {}

    def resolve(host, port, **_):
        if host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in known[host]]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolve)
    return known


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/", "ftp://example.org/", "https://", "example.org", "https://user:secret@example.org/",
        "https://example.org/#part", "https://exa mple.org/", "https://example.org:99999/", "https://127.0.0.1/",
        "https://localhost/", "https://[::1]/", "https://10.0.0.5/", "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:10.0.0.5]/", "https://192.168.1.1:8443/", "https://[fe80::1]/", "https://0.0.0.0/",
        "https://224.0.0.1/", "https://example.org/" + "x" * 500, "javascript:alert(1)", "https://example.org/\nx",
    ],
)  # fmt: skip
def test_refused_at_the_form(url):
    with pytest.raises(Refused, match="^url: "):
        checked_url(url)


@pytest.mark.parametrize("url", ["https://example.org/hook?x=1", "https://example.org:8443", f"https://{PUBLIC}/"])
def test_accepted(url):
    assert checked_url(f" {url} ") == url


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",  # noqa: S104
        "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "fec0::1", "::ffff:0:127.0.0.1",
    ],
)  # fmt: skip
def test_a_name_that_leads_inside_is_not_asked(names, address):
    names["hook.example.org"] = [address]
    with pytest.raises(Unreachable, match="not on the internet"):
        target("https://hook.example.org/")


def test_the_address_that_was_looked_at_is_the_one_that_is_connected_to(names, monkeypatch):
    names["hook.example.org"] = ["10.0.0.1", PUBLIC]
    found = target("https://hook.example.org/a?b=c")
    assert (found.address, found.host, found.port, found.path) == (PUBLIC, "hook.example.org", 443, "/a?b=c")
    connected = []

    def connect(address, timeout):
        names["hook.example.org"] = ["127.0.0.1"]  # a moment later it means something else
        connected.append(address)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr("telemetry.out.webhooks.posting.socket.create_connection", connect)
    answer = Connection("https://hook.example.org/").post(b"{}", {})
    assert connected == [(PUBLIC, 443)]
    assert (answer.status, answer.text) == (0, "ConnectionRefusedError: refused")


def test_inside_only_where_the_settings_say_so(names, settings):
    settings.WEBHOOK_NETS = [ipaddress.ip_network("10.1.0.0/16")]
    names["mes.plant"] = ["10.1.2.3"]
    names["other.plant"] = ["10.2.2.3"]
    names["hook.example.org"] = [PUBLIC]
    assert target("http://mes.plant:8080/x")[:3] == (False, "mes.plant", 8080)
    assert checked_url("http://mes.plant/") == "http://mes.plant/"
    with pytest.raises(Unreachable, match="not on the internet"):
        target("http://other.plant/")
    with pytest.raises(Unreachable, match="Only https"):
        target("http://hook.example.org/")


@pytest.mark.parametrize(
    ("address", "may"), [("::ffff:10.1.2.3", True), (f"::ffff:{PUBLIC}", True), ("::ffff:10.2.2.3", False)]
)
def test_an_ipv4_address_in_the_clothes_of_ipv6_is_looked_at_as_what_it_is(settings, address, may):
    settings.WEBHOOK_NETS = [ipaddress.ip_network("10.1.0.0/16")]
    assert (why_not(ipaddress.ip_address(address), "https") == "") is may


def test_a_name_that_nobody_knows(names):
    assert Connection("https://nowhere.example.org/").post(b"{}", {}).text == (
        "its name cannot be resolved (Name or service not known)"
    )


def test_an_address_of_any_letters_can_be_sent(names):
    names["hook.example.org"] = [PUBLIC]
    url = checked_url("https://hook.example.org/Aufträge%20neu?für=é&x=a%2Fb")
    assert target(url).path == "/Auftr%C3%A4ge%20neu?f%C3%BCr=%C3%A9&x=a%2Fb"


def test_an_address_that_cannot_be_sent_is_said_like_any_other_trouble():
    """Kept before it was looked at as it is now: a try that raises would never end."""
    assert "Unicode" in Connection("https://" + "x" * 70 + ".example.org/").post(b"{}", {}).text

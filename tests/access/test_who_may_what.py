"""Every address of the site, every method, everybody: the verdict of the table, and no address without one (I11)."""

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from fleet.asgi import sockets
from tests.access import table
from tests.access.world import World, routes

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
HEADS = ("admin", "other_supervisor", "anonymous")  # as GET, and as dear: for some is enough
FORM = "application/x-www-form-urlencoded"


FRESH_PAGE = ("login/", "logout/")  # with a token of before they lead to a fresh sign-in page, and do nothing


class Undo(Exception):
    pass


def ask(client: Client, method: str, url: str) -> Any:
    """One request without a body; whatever it did is undone."""
    answer = None
    try:
        with transaction.atomic():
            answer = client.generic(method, url, b"", FORM if method == "POST" else "application/octet-stream")
            raise Undo
    except Undo:
        return answer


def verdict(answer: Any) -> str:
    """What became of it: "ok" is anything that is neither refused nor an accident."""
    status = answer.status_code
    if status == 401 or (status == 302 and "login/" in answer.url.partition("?")[0]):
        return table.LOGIN
    return str(status) if status in (403, 404, 405, 500) else table.OK


def test_every_address_is_in_the_table():
    found = set(routes())
    missing = "\n".join(f'    "{route}": Line(get=…, post=…),' for route in sorted(found - table.LINES.keys()))
    assert not missing, f"add to LINES (or, for a new model, MODELS) of tests/access/table.py:\n{missing}"
    gone = table.LINES.keys() - found
    assert not gone, f"no such address any more: take {sorted(gone)} out of tests/access/table.py"
    assert {str(route.pattern) for route in sockets.routes} == table.SOCKETS.keys(), "SOCKETS of tests/access/table.py"


@pytest.mark.parametrize("name", table.PEOPLE)
def test_everybody_gets_the_verdict_of_the_table(world: World, name: str):
    client = world.client(name, raise_request_exception=False)
    wrong = []
    for route, line in table.LINES.items():
        url = world.url(route, line.query)
        for method in METHODS:
            if method == "HEAD" and name not in HEADS:
                continue
            rule = line.rule(method)
            if route == "logout/" and rule.public:
                continue  # nobody would be left to ask on; tests/fleet/test_sessions.py has it
            found = verdict(ask(client, method, url))
            if not rule.allows(name, found):
                wrong.append(f"{method} {route} as {name}: {found}, the table says {rule.verdict(name)}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_post_needs_the_csrf_token(world: World):
    client = world.client("admin", enforce_csrf_checks=True)
    open_doors = [
        route
        for route, line in table.LINES.items()
        if not line.token_only
        and ask(client, "POST", world.url(route, line.query)).status_code
        not in ((302,) if route in FRESH_PAGE else (403, 405))
    ]
    assert "_auth_user_id" in client.session, "a form on another page could sign people out"
    assert not open_doors, f"a form on another page could post here: {open_doors}"

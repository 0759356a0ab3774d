"""Whatever is typed into all fields of a form is answered with a page that says so: no fault of ours, nothing run as HTML."""

from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import pytest
from django.db import transaction
from django.test import Client

from tests.access import table
from tests.access.test_leaks import body
from tests.access.test_who_may_what import FORM, Undo
from tests.access.world import World

HTML = '"><script>alert(7)</script><img src=x onerror=alert(7)>'
TYPED = {
    "html": quote_plus(HTML),
    "digits": "9" * 5000,  # more than Python reads as a number
    "NUL": "a%00b",
    "no UTF-8": "%ED%A0%80%FF",
    "odd numbers": quote_plus("²"),
}
KEPT = ("_FORMS", "csrfmiddlewaretoken")  # how many rows there are, and whose form it is


class Form(NamedTuple):
    action: str
    names: tuple[str, ...]


class Forms(HTMLParser):
    """Forms of a page that are posted, with the names of their inputs and what is filled into those that are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Form] = []
        self.kept: dict[str, str] = {}
        self._action: str | None = None
        self._names: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        a = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._action, self._names = a.get("action", "") if a.get("method") == "post" else None, []
        elif tag in ("input", "select", "textarea", "button") and (name := a.get("name")):
            if name.endswith(KEPT):
                self.kept[name] = a.get("value", "")
            elif a.get("type") != "file":
                self._names.append(name)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._action is not None:
            self.found.append(Form(self._action, tuple(dict.fromkeys(self._names))))
            self._action = None


def asked(client: Client, method: str, url: str, data: str = "") -> Any:
    """One request; whatever it did is undone."""
    answer = None
    try:
        with transaction.atomic():
            answer = client.generic(method, url, data.encode(), FORM)
            raise Undo
    except Undo:
        return answer


def forms(world: World, client: Client) -> dict[tuple[str, tuple[str, ...]], dict[str, str]]:
    """Every form that this person meets: its address and inputs → what is kept of it."""
    found = {}
    for route, line in table.LINES.items():
        if line.token_only:
            continue
        url = world.url(route, line.query)
        answer = asked(client, "GET", url)
        if answer.status_code == 200 and "html" in answer.headers.get("Content-Type", ""):
            page = Forms(body(answer))
            for form in page.found:
                target = form.action if form.action.startswith("/") else url.partition("?")[0] + form.action
                if "logout" not in target:
                    found[target, form.names] = page.kept
    return found


@pytest.mark.parametrize("name", ["admin"])
def test_whatever_is_typed_is_answered(world: World, name: str):
    client = world.client(name, raise_request_exception=False)
    met = forms(world, client)
    assert len(met) > 30, "hardly a form is seen: this test sees nothing"
    wrong = []
    for (target, names), kept in met.items():
        for what, typed in TYPED.items():
            pairs = [*(f"{n}={quote_plus(v)}" for n, v in kept.items()), *(f"{n}={typed}" for n in names)]
            answer = asked(client, "POST", target, "&".join(pairs))
            text = body(answer)
            if answer.status_code >= 500:
                wrong.append(f"{target}: {answer.status_code} for {what}")
            elif "<script>alert(7)" in text or "<img src=x" in text:
                wrong.append(f"{target}: {what} is HTML")
    assert not wrong, "\n" + "\n".join(wrong)

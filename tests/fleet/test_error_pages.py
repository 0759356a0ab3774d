"""Pages that say that something is not there, not allowed or not possible now: in words, with a way on."""

import pytest
from django.core.handlers.exception import convert_exception_to_response
from django.db import IntegrityError, InterfaceError, OperationalError
from django.test import Client

from fleet.admin.sites import SiteAdmin
from telemetry.pages import answers

pytestmark = pytest.mark.django_db


def test_a_page_that_fails_says_what_to_do(admin_person, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("a bug <b>")

    monkeypatch.setattr(SiteAdmin, "get_queryset", fail)
    client = Client(raise_request_exception=False)
    client.force_login(admin_person)
    answer = client.get("/admin/fleet/site/")
    html = answer.content.decode()
    assert answer.status_code == 500 and "Retry-After" not in answer
    assert "Something failed" in html and "The database" not in html
    assert "<h1>Drover cannot answer this now</h1>" in html and 'href="/readyz"' in html and 'href="/fleet/"' in html
    assert f">{answer['X-Request-Id']}</code>" in html, "the id to quote"
    assert "a bug" not in html and "Traceback" not in html


@pytest.mark.parametrize(("error", "status"), [
    (OperationalError("connection refused"), 503), (InterfaceError("the connection is closed"), 503), (IntegrityError("a bug"), 500),
])  # fmt: skip
def test_a_page_for_which_the_database_is_away_is_worth_another_try(rf, error, status):
    try:
        raise error
    except Exception:
        answer = answers.failed(rf.get("/fleet/"))
    assert (answer.status_code, answer.get("Retry-After")) == (status, "2" if status == 503 else None)
    assert ("The database does not answer, or takes no writes." in answer.content.decode()) == (status == 503)


async def test_what_was_raised_is_known_to_that_page_under_an_asynchronous_server_too(rf):
    """It is made in another thread."""

    async def view(request):
        raise OperationalError("connection refused")

    assert (await convert_exception_to_response(view)(rf.get("/fleet/"))).status_code == 503


@pytest.mark.parametrize(("address", "status", "words"), [
    ("/nothing/", 404, "There is no such page"),
    ("/admin/fleet/robot/add/", 403, "whose role does not include it"),
])  # fmt: skip
def test_what_is_not_there_or_not_allowed_is_said_in_words(client, auditor, address, status, words):
    client.force_login(auditor)
    answer = client.get(address)
    assert answer.status_code == status
    assert words in answer.content.decode() and 'href="/fleet/"' in answer.content.decode()


@pytest.mark.parametrize(("before", "offered"), [("http://testserver/admin/fleet/site/add/?x=1&y", True), ("http://elsewhere/", False),
                                                 ("javascript:alert(1)", False), ("", False)])  # fmt: skip
def test_an_old_page_is_loaded_again_by_a_link(admin_person, before, offered):
    """To load the refusal itself again would send the old token again."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_person)
    answer = client.post("/admin/fleet/site/add/", {"name": "Hall 9"}, headers={"Referer": before})
    html = answer.content.decode()
    assert answer.status_code == 403 and "this page is out of date. Load it again" in html
    assert ("The page before" in html) == offered
    assert not offered or f'<a href="{before.replace("&", "&amp;")}">' in html

"""Admin in a real browser: pages that follow what goes on, and a console without a complaint."""

import pytest

from fleet.history import by_user
from fleet.models import Event
from fleet.robots import stopping
from missions import actions as missions
from missions.facts import Accepted, Cancelled, Delivered
from tests.actors import tell

pytestmark = pytest.mark.browser
ADD = "/admin/missions/mission/add/"


def test_a_page_that_says_stopping_learns_how_it_ended(sign_in, supervisor, dispatched):
    """Without a reload, but never under an unfolded question."""
    tell(dispatched, Delivered(), Accepted(1))
    missions.cancel_mission(dispatched.pk, by=by_user(supervisor), reason="blocked aisle")
    page = sign_in(supervisor)
    page.goto(f"/admin/missions/mission/{dispatched.pk}/change/")
    said = page.locator(".page-head .said")
    assert "Stopping" in said.inner_text()
    page.locator("summary", has_text="Cancel").click()
    tell(dispatched, Cancelled(1))
    page.wait_for_timeout(2000)
    assert "Stopping" in said.inner_text()
    page.keyboard.press("Escape")
    page.locator(".page-head .said", has_text="Aborted: cancelled by a person").wait_for()


def test_no_page_breaks_the_content_security_policy(sign_in, admin_person, dispatched):
    stopping.stop_robot("RB-001", by=by_user(admin_person), why="<img src=x onerror=alert(1)>")
    page = sign_in(admin_person)
    for url in (
        "/admin/", "/admin/missions/mission/", f"/admin/missions/mission/{dispatched.pk}/change/", ADD,
        "/admin/fleet/robot/", "/admin/fleet/robot/RB-001/change/", "/admin/fleet/event/", f"/admin/fleet/event/{Event.objects.latest('id').pk}/change/",
        "/admin/auth/user/", f"/admin/auth/user/{admin_person.pk}/change/", "/admin/fleet/brand/add/",
    ):  # fmt: skip
        answer = page.goto(url)
        assert (answer.status, page.url.removeprefix(answer.url)) == (200, ""), url
        assert page.evaluate("window.violations") == [], url
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{url} scrolls sideways"

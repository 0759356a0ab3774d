"""The bell rings without a reload; and the auditor's first task: who aborted a mission, and why, as a file."""

from pathlib import Path

import pytest

from fleet.alerts import actions as alerts
from fleet.history import by_user
from fleet.models import Alert
from missions import actions
from missions.facts import Accepted, Cancelled, Delivered
from tests.actors import tell

pytestmark = pytest.mark.browser


def test_an_alert_reaches_an_open_page_and_is_acknowledged_there(sign_in, supervisor, robot):
    page = sign_in(supervisor)
    page.goto("/fleet/")
    page.locator("#link-state[data-state=live]").wait_for()
    page.locator("#alarms summary").click()
    page.locator("#alerts .none", has_text="No alert is open").wait_for()
    alerts.raise_alert(
        "test", severity="critical", text="<b>smoke</b>", subject="robot:RB-001", robot="RB-001", site=robot.site_id
    )
    page.locator("#bell.bad b", has_text="1").wait_for()
    assert "<b>smoke</b>" in page.locator("#alerts li").inner_text()
    page.locator("#alerts button.acknowledge").click()
    page.locator("#bell.ok b", has_text="0").wait_for()
    assert page.locator("#alarms[open]").count() == 1  # the panel stays where it is
    assert Alert.objects.get().acknowledged_by == "Ana"
    page.keyboard.press("Escape")
    assert page.locator("#alarms[open]").count() == 0
    page.reload()
    page.locator("#alarms summary").click()
    assert "acknowledged by Ana" in page.locator("#alerts li").inner_text()


def test_a_long_alert_fits_the_start_page_of_a_phone(sign_in, auditor, robot):
    page = sign_in(auditor, viewport={"width": 390, "height": 844})
    text = "Dead letter of RB-001: mission.step_completed could not be applied or delivered: " + "it was told so " * 5
    alerts.raise_alert(
        "test", severity="warning", text=text, subject="robot:RB-001", robot="RB-001", site=robot.site_id
    )
    page.goto("/admin/")
    assert "Dead letter of RB-001" in page.locator("#alerts").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_who_aborted_the_mission_and_why_in_five_clicks(sign_in, auditor, supervisor, dispatched):
    tell(dispatched, Delivered(), Accepted(1))
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor), reason="wrong pallet")
    tell(dispatched, Cancelled(1))
    page = sign_in(auditor)
    page.goto("/admin/")
    page.locator(".topnav a", has_text="Audit").click()
    page.select_option("#id_period", "today")
    page.select_option("#id_reason", "any")
    page.get_by_role("button", name="Show").click()
    asked = page.locator(".events tr", has_text="Stopping: cancelled by a person (wrong pallet)")
    assert "Ana" in asked.inner_text()
    assert "Fetch" in asked.inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    rows = Path(download.value.path()).read_text().splitlines()
    assert any("Ana" in row and "wrong pallet" in row for row in rows)

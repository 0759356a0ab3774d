"""Pages about robots of other makers, at desk and phone: the driver's settings come and go, hostile names are text."""

import html
import re
import uuid

import pytest
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.models import Brand, Robot
from fleet.robots import actions
from fleet.robots.facts import Faulted, Offers
from telemetry.gateways.knocks import Stranger, record
from tests.actors import SYSTEM
from tests.fleet.test_robot_words import say

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PHONE, DESK = {"width": 375, "height": 800}, {"width": 1280, "height": 900}
HOSTILE = "<img src=x onerror=alert(1)>" + "W" * 90


@pytest.fixture
def forker(site):
    brand = create_brand(
        "Forker 7", driver="vda5050", profile={"interface": "fleet"}, capabilities=["navigate"], by=SYSTEM
    )
    robot = actions.enrol_robot(id="F-7", name="Fork 7", site=site, brand=brand, address=f"KIT/{'0' * 90}1", by=SYSTEM)
    say(
        robot, Offers(["custom:beep", "drop", "navigate", "pick"]), Faulted(7, 1, HOSTILE, "E1"),
        Faulted(7, 2, "Emergency stop, MANUAL: somebody has to release it.", "eStop", kind="safety"),
        Faulted(7, 3, "orderUpdateError: " + "W" * 120, "orderUpdateError", kind="warning"),
    )  # fmt: skip
    record(
        [
            (Stranger("", name, "MQTT", "", "vda5050"), 3, timezone.now())
            for name in ("KIT/0002", f"{HOSTILE}/{'x' * 70}")
        ]
    )
    return robot


def test_pages_hold_together_whatever_they_are_called(sign_in, admin_person, forker):
    page = sign_in(admin_person)
    brand = forker.brand_id
    for url in (
        "/admin/fleet/robot/F-7/change/", "/admin/fleet/robot/F-7/edit/", "/admin/fleet/robot/F-7/connect/",
        "/admin/telemetry/knock/", f"/admin/fleet/brand/{brand}/change/", f"/admin/fleet/brand/{brand}/edit/",
        "/admin/fleet/brand/add/?driver=vda5050", "/admin/fleet/robot/", "/admin/fleet/robot/add/?address=KIT/1",
    ):  # fmt: skip
        assert page.goto(url).status == 200, url
        assert page.evaluate("window.violations") == [], url
        assert page.locator("img[src=x]").count() == 0, url
        for screen in (PHONE, DESK):
            page.set_viewport_size(screen)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{url} scrolls sideways"


def test_a_new_brand_shows_the_settings_of_its_driver_and_takes_its_times(sign_in, admin_person):
    page = sign_in(admin_person)
    page.goto("/admin/fleet/brand/add/")
    settings = page.locator("[data-driver=vda5050]")
    suspect, accept = page.locator("[name=suspect_after_s]"), page.locator("[name=accept_s]")
    assert settings.is_hidden() and suspect.input_value() == "9"
    accept.fill("77")
    page.locator("[name=driver]").select_option("vda5050")
    assert settings.is_visible()
    assert (suspect.input_value(), accept.input_value()) == ("35", "77")
    page.locator("[name=driver]").select_option("native")
    assert settings.is_hidden() and suspect.input_value() == "9"
    page.locator("[name=driver]").select_option("vda5050")
    name = f"Forker {uuid.uuid4().hex[:6]}"
    page.locator("[name=name]").fill(name)
    page.locator("[name=capabilities][value=navigate]").check()
    page.locator("[name=setting-vda5050-interface]").fill("fleet")
    page.locator("button.primary").click()
    page.wait_for_url(re.compile(r"/change/"))
    brand = Brand.objects.get(name=name)
    assert (brand.driver, brand.suspect_after_s, brand.accept_s, brand.profile) == (
        "vda5050", 35, 77, {"interface": "fleet"},
    )  # fmt: skip


def test_a_stranger_on_the_broker_is_enrolled_with_one_click(sign_in, admin_person, forker, site):
    page = sign_in(admin_person)
    page.goto("/admin/telemetry/knock/")
    page.locator("tr", has_text="KIT/0002").get_by_text("Enrol this robot").click()
    assert page.locator("[name=id]").input_value() == "KIT-0002"
    page.locator("[name=site]").select_option(str(site.pk))
    page.locator("button.primary").click()
    page.wait_for_url(re.compile(r"/connect/"))
    assert "fleet/v2/KIT/0002/state" in html.unescape(page.content())
    assert Robot.objects.get(pk="KIT-0002").address == "KIT/0002"

"""I12 in a browser: what robots and people write is text on every page, and what stands beside it goes on."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from fleet.brands.actions import edit_brand
from fleet.models import Event
from fleet.robots import stopping
from fleet.sites.actions import add_place
from missions import actions, drawing_up, facts
from tests import varied_fleet
from tests.actors import SYSTEM, tell
from tests.browser.test_live_page import Words, card, empty_live_redis, opened, rename  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = {
    "markup": '<img src=x onerror="window.owned=1"><script>window.owned=1</script>',
    "swap": '</article><b id="robot-RB-002" hx-swap-oob="delete">',
    "quotes": '"\'` autofocus onfocus="window.owned=1" x=\'',
    "emoji": "🤖🔥👩‍🔧 ✓",
    "right to left": "\u202eabc\u202c مرحبا שלום",
    "64 kB": "<b>" + "x" * 65_000,
}
NAME_MAX = 200


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_it_is_shown_as_text_and_the_card_beside_it_goes_on(sign_in, supervisor, site, brand, robot, other_robot, text):
    name, seen = text[:NAME_MAX], text[:50]  # of the longest, the beginning
    edit_brand(brand.pk, name=name, by=SYSTEM)
    add_place(site, name=name, x=0, y=0, by=SYSTEM)
    page = opened(sign_in(supervisor))
    turns = iter(range(100))

    def nobody_is_harmed() -> None:
        beside = f"Bruno {next(turns)}"
        rename(other_robot, beside)
        expect(card(page, "RB-002").locator("h3")).to_have_text(beside)
        harmless()

    def harmless() -> None:
        assert page.locator("img[src=x], [onfocus], [onerror], #content b[id], #board b b").count() == 0
        assert page.evaluate("window.owned") is None

    rename(robot, name)
    expect(card(page).locator("h3")).to_contain_text(seen)
    nobody_is_harmed()
    varied_fleet.live("RB-001", timezone.now(), battery=63.0, place=name)
    expect(card(page).locator(".place")).to_contain_text(seen)
    nobody_is_harmed()

    steps = [{"command": "navigate", "params": {"place": name}}, {"command": "wait", "params": {"seconds": 1}}]
    pk = drawing_up.draft_mission(title=name, site=site, robot=robot, steps=steps, by=SYSTEM)
    actions.dispatch_mission(pk, by=SYSTEM)
    mission = actions.Mission.objects.get(pk=pk)
    row = page.locator(f"#mission-{pk}")
    tell(mission, facts.Delivered(), facts.Accepted(1))
    expect(row.locator(".title")).to_contain_text(seen)
    expect(row.locator(".says")).to_contain_text(f"Drive to {seen}")
    nobody_is_harmed()
    tell(mission, facts.StepCompleted(1, 1, 1, text), facts.StepFailed(1, 2, 1, text), facts.Cancelled(1))
    expect(row.locator(".says")).to_contain_text(f"failed: {seen}")
    nobody_is_harmed()
    Words().fault("RB-001", text)
    expect(card(page).locator(".says")).to_contain_text(
        f"Fault since {card(page).locator('time').inner_text()}: {seen}"
    )
    nobody_is_harmed()

    stopping.stop_robot("RB-001", by=SYSTEM, why=text)
    event = Event.objects.get(kind="mission.step_failed").pk
    for url in (
        f"missions/mission/{pk}/change/", "fleet/robot/RB-001/change/", f"fleet/event/{event}/change/", "fleet/brand/",
        "fleet/place/", "missions/mission/", "fleet/robot/", "fleet/event/",
    ):  # fmt: skip
        page.goto(f"/admin/{url}")
        expect(page.locator("#content")).to_contain_text(seen)
        harmless()

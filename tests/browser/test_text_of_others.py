"""I12 in a browser: what robots and people write is text on every page, and what stands beside it goes on."""

from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from fleet.brands.actions import create_brand
from fleet.models import Event, Robot
from fleet.robots import actions as robots
from fleet.robots import stopping
from fleet.sites.actions import add_place
from missions import actions, drawing_up, facts
from missions.models import Mission
from tests import varied_fleet
from tests.actors import SYSTEM, online, tell
from tests.browser.test_live_page import Words, card, opened, rename

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_live_redis")]

HOSTILE = {
    "markup": '<img src=x onerror="window.owned=1"><script>window.owned=1</script>',
    "swap": '</article><b id="robot-RB-002" hx-swap-oob="delete">',
    "quotes": '"\'` autofocus onfocus="window.owned=1" x=\'',
    "emoji": "🤖🔥👩‍🔧 ✓",
    "right to left": "\u202eabc\u202c مرحبا שלום",
    "64 kB": "<b>" + "x" * 65_000,
}
NAME_MAX = 200


@dataclass
class Loud:
    """A robot, its brand, its place and its mission, all called the same."""

    text: str
    id: str
    mission: UUID = field(init=False)

    @property
    def name(self) -> str:
        return self.text[:NAME_MAX]

    @property
    def seen(self) -> str:
        """Of the longest, the beginning."""
        return self.text[:50]


def test_it_is_shown_as_text_and_the_card_beside_it_goes_on(sign_in, supervisor, site, other_robot):
    everybody = [Loud(text, f"RB-{n}") for n, text in enumerate(HOSTILE.values(), 100)]
    for loud in everybody:
        brand = create_brand(loud.name, capabilities=["navigate", "wait"], abandon_after_s=3600, by=SYSTEM)
        add_place(site, name=loud.name, x=0, y=0, by=SYSTEM)
        robots.enrol_robot(id=loud.id, name="quiet", site=site, brand=brand, by=SYSTEM)
        online(loud.id)
    page = opened(sign_in(supervisor))
    turns = count()

    def nobody_is_harmed() -> None:
        beside = f"Bruno {next(turns)}"
        rename(other_robot, beside)
        expect(card(page, "RB-002").locator("h3")).to_have_text(beside)
        harmless()

    def harmless() -> None:
        assert page.locator("img[src=x], [onfocus], [onerror], #content b[id], #board b b").count() == 0
        assert page.evaluate("window.owned") is None

    for loud in everybody:
        rename(Robot.objects.get(pk=loud.id), loud.name)
        expect(card(page, loud.id).locator("h3")).to_contain_text(loud.seen)
        nobody_is_harmed()
        varied_fleet.live(loud.id, timezone.now(), battery=63.0, place=loud.name)
        expect(card(page, loud.id).locator(".place")).to_contain_text(loud.seen)
        nobody_is_harmed()

        steps = [{"command": "navigate", "params": {"place": loud.name}}, {"command": "wait", "params": {"seconds": 1}}]
        loud.mission = drawing_up.draft_mission(title=loud.name, site=site, robot=loud.id, steps=steps, by=SYSTEM)
        actions.dispatch_mission(loud.mission, by=SYSTEM)
        mission = Mission.objects.get(pk=loud.mission)
        row = page.locator(f"#mission-{loud.mission}")
        tell(mission, facts.Delivered(), facts.Accepted(1))
        expect(row.locator(".title")).to_contain_text(loud.seen)
        expect(row.locator(".says")).to_contain_text(f"Drive to {loud.seen}")
        nobody_is_harmed()
        tell(mission, facts.StepCompleted(1, 1, 1, loud.text), facts.StepFailed(1, 2, 1, loud.text), facts.Cancelled(1))
        expect(row.locator(".says")).to_contain_text(f"failed: {loud.seen}")
        nobody_is_harmed()
        Words().fault(loud.id, loud.text)
        its = card(page, loud.id)
        expect(its.locator(".says")).to_contain_text(f"Fault since {its.locator('time').inner_text()}: {loud.seen}")
        nobody_is_harmed()
        stopping.stop_robot(loud.id, by=SYSTEM, why=loud.text)

    lists = ("fleet/brand/", "fleet/place/", "missions/mission/", "fleet/robot/", "fleet/event/")
    shows = [(f"/admin/{url}", everybody) for url in lists]
    for loud in everybody:
        event = Event.objects.get(kind="mission.step_failed", aggregate=f"mission:{loud.mission}").pk
        own = (f"missions/mission/{loud.mission}", f"fleet/robot/{loud.id}", f"fleet/event/{event}")
        shows += [(f"/admin/{url}/change/", [loud]) for url in own]
    for url, whose in shows:
        page.goto(url)
        for loud in whose:
            expect(page.locator("#content")).to_contain_text(loud.seen)
        harmless()

"""The auditor's task: who aborted a mission, why, and as a file."""

import csv
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.first_day.tasks import counted

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def test_who_aborted_yesterdays_mission_and_why(day, visit):
    with counted("Find who aborted yesterday's mission and why, export it", visit("auditor")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.menu("Audit")
        hand.link("aborted yesterday")
        row = page.locator(".events tr", has_text="Move pallet 9")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("nora")
        expect(row).to_contain_text("wrong pallet")
        with page.expect_download() as download:
            hand.link("Export CSV")
    with Path(download.value.path()).open(newline="", encoding="utf-8-sig") as file:
        found = [row for row in csv.DictReader(file) if row["about_id"] == day.yesterday]
    assert [(row["kind"], row["actor_name"], row["about_name"]) for row in found] == [
        ("mission.aborted", "nora", "Move pallet 9")
    ]
    assert "wrong pallet" in found[0]["data"]
    assert [event["hash"] for event in found] == [
        bytes(h).hex() for (h,) in day.ask(
            "SELECT hash FROM fleet_event WHERE aggregate = %s AND kind = 'mission.aborted'", f"mission:{day.yesterday}"
        )
    ]  # fmt: skip

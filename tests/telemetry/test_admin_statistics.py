"""The page of statistics: what was counted, of the own sites, with links to it and as CSV."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from fleet.history import by_user
from missions import actions
from telemetry.out.group import Follow
from telemetry.out.models import Tally
from telemetry.out.statistics import counting, report
from tests.actors import user

URL = "/admin/telemetry/tally/"


def page(client, query: str = "") -> str:
    answer = client.get(f"{URL}{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def tally(site, brand, n=1, what="ended", detail="success", command="", hour=None):
    hour = (hour or timezone.now()).replace(minute=0, second=0, microsecond=0)
    return Tally.objects.create(hour=hour, site=site, brand_id=brand.pk, what=what, detail=detail, command=command, n=n)


@pytest.fixture
def counts(site, other_site, brand):
    tally(site, brand, 6)
    tally(site, brand, 3, detail="operator")
    tally(site, brand, 1, detail="timeout/unconfirmed")
    tally(site, brand, 4, "timeout", "step", "pick")
    tally(site, brand, 2, "retry", "step", "pick")
    tally(site, brand, 9, "step", "completed", "navigate")
    tally(site, brand, 5, "step", "skipped", "drop")
    tally(other_site, brand, 77, detail="robot_fault")
    tally(site, brand, 50, hour=timezone.now() - timedelta(days=40))


def test_numbers_beside_bars_and_no_style_attribute(client, supervisor, counts):
    client.force_login(supervisor)
    shown = page(client)
    for words in (
        "Success", "Aborted: cancelled by a person", "Aborted, stop not confirmed: timeout", "A step took too long",
        "Pick: took too long", "Pick: tried again", "Drop: skipped", "Haulmate",
    ):  # fmt: skip
        assert words in shown, words
    assert re.search(r'<rect width="240\.0" ', shown)
    assert " style=" not in shown
    assert "77" not in re.sub(r'"[^"]*"', "", shown), "of another site"
    assert "50 <" not in shown, "longer ago"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?days=90", '<span class="quiet num">60</span>'),
        ("?days=7", '<span class="quiet num">10</span>'),
        ("?days=7&brand=999", "Select a valid choice"),
        ("?start=2020-01-01&end=2020-02-01", "Nothing was counted in this time"),
    ],
)
def test_the_filters_narrow_the_time_and_the_brand(client, supervisor, counts, query, expected):
    client.force_login(supervisor)
    assert expected in page(client, query)


def test_days_from_and_to_are_both_included(admin_person, site, brand):
    for day in (1, 2, 3, 4):
        tally(site, brand, 10**day, hour=datetime(2026, 3, day, 23, tzinfo=UTC))
    question = report.Question({"start": "2026-03-02", "end": "2026-03-03"}, admin_person, timezone.now())
    assert sorted(question.rows().values_list("n", flat=True)) == [100, 1000]
    for_ever = report.Question({"start": "2026-03-03", "end": "9999-12-31"}, admin_person, timezone.now())
    assert sorted(for_ever.rows().values_list("n", flat=True)) == [1000, 10000]


def test_who_may_see_another_site_or_none(client, other_supervisor, outsider, site, counts):
    client.force_login(other_supervisor)
    shown = page(client)
    assert "Success" not in shown
    assert "77" in shown
    assert "Select a valid choice" in page(client, f"?site={site.pk}")
    client.force_login(outsider)
    assert client.get(URL).status_code == 403


def test_links_lead_to_what_was_counted(client, supervisor, mission):
    actions.cancel_mission(mission.pk, by=by_user(supervisor))
    follow = Follow(counting.GROUP)
    while follow.step(timezone.now()):
        pass
    client.force_login(supervisor)
    [link] = re.findall(r'<a href="([^"]*missions/mission/[^"]*abort_reason[^"]*)"', page(client))
    listed = client.get(link.replace("&amp;", "&"))
    assert listed.status_code == 200
    assert "Fetch" in listed.content.decode()
    assert "1 mission" in listed.content.decode()


def test_csv_has_what_is_shown_and_no_formula(client, supervisor, counts, site):
    Tally.objects.filter(detail="success").update(detail="=1+1")
    client.force_login(supervisor)
    answer = client.get(f"{URL}export.csv?days=7")
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert {row["site"] for row in rows} == {"Hall 1"}
    assert sum(int(row["n"]) for row in rows) == 6 + 3 + 1 + 4 + 2 + 9 + 5
    assert "'=1+1" in {row["detail"] for row in rows}
    assert client.get(f"{URL}export.csv?days=x").status_code == 400


def test_before_the_first_mission_it_says_what_will_be_here(client, supervisor):
    client.force_login(supervisor)
    shown = page(client)
    assert "will be counted here" in shown
    assert '<svg viewBox="0 0 240' not in shown


def test_it_says_when_the_counts_are_behind(client, supervisor, counts, monkeypatch, mission):
    monkeypatch.setattr("telemetry.out.behind.BEHIND_S", 0.0)
    client.force_login(supervisor)
    assert "Statistics are not counted" in page(client)


def test_every_detail_that_is_counted_has_words():
    fixed = {rule.detail({}) for rule in counting.RULES.values() if rule.what == "timeout"}
    assert fixed <= report.TIMEOUTS.keys()
    assert {r.detail({}) for r in counting.RULES.values() if r.what == "retry"} <= report.RETRIES.keys()
    assert {r.detail({}) for r in counting.RULES.values() if r.what == "step"} <= report.STEPS.keys()


def test_an_auditor_of_every_site_sees_all(client, counts):
    client.force_login(user("Otto", "auditor"))
    assert "77" in page(client)

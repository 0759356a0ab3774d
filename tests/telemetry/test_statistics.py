"""What is counted of missions, and that counting the history anew gives the same numbers."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.history import KINDS, by_user
from fleet.models import Event
from fleet.robots import actions as fleet_actions
from missions import actions, drawing_up, facts
from missions.models import Mission
from telemetry.out.group import Follow
from telemetry.out.models import Tally
from telemetry.out.statistics import counting
from tests.actors import SYSTEM, tell

NOW = timezone.now()


def follow() -> None:
    one = Follow(counting.GROUP)
    while one.step(NOW):
        pass


def counted(*columns: str) -> dict:
    columns = columns or ("what", "detail", "command")
    found: dict = {}
    for row in Tally.objects.values_list(*columns, "n"):
        key = row[:-1] if len(columns) > 1 else row[0]
        found[key] = found.get(key, 0) + row[-1]
    return found


def test_ends_steps_and_timeouts_by_what_they_were(dispatched, brand, site):
    no = dispatched.dispatch_no
    tell(dispatched, facts.Accepted(no), facts.StepCompleted(no, 1, 1), facts.StepFailed(no, 2, 1, "gripper"))
    follow()
    got = counted()
    assert got["step", "completed", "navigate"] == 1
    assert got["step", "failed", "pick"] == 1
    assert set(counted("site_id", "brand_id")) == {(site.pk, brand.pk)}


def test_every_kind_that_is_counted_says_so_in_words_that_fit_the_table():
    for name, rule in counting.RULES.items():
        assert name.startswith("mission.")
        assert len(rule.what) <= 20
    assert counting.RULES.keys() <= KINDS.keys()


def test_each_event_counts_once_and_anew_gives_the_same(dispatched, supervisor, robot, site):
    aborted = drawing_up.draft_mission(
        title="Other", site=site, robot=robot, steps=[{"command": "wait", "params": {"seconds": 1}}], by=SYSTEM
    )
    actions.cancel_mission(aborted, by=by_user(supervisor))
    follow()
    half = counted("hour", "site_id", "brand_id", "what", "detail", "command")
    assert counted() == {("ended", "operator", ""): 1}
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
    follow()
    follow()
    whole = counted("hour", "site_id", "brand_id", "what", "detail", "command")
    assert counted()["ended", "operator", ""] == 2
    assert whole != half
    Tally.objects.update(n=77)
    out = StringIO()
    call_command("statistics", "--rebuild", stdout=out)
    assert counted("hour", "site_id", "brand_id", "what", "detail", "command") == whole
    assert out.getvalue() == f"{sum(whole.values())} events counted in {len(whole)} rows.\n"
    follow()
    assert counted("hour", "site_id", "brand_id", "what", "detail", "command") == whole


def test_a_brand_is_that_of_the_time_also_when_counted_anew(dispatched, supervisor, robot, site, brand):
    other = create_brand("Other", capabilities=["navigate"], by=SYSTEM)
    no = dispatched.dispatch_no
    tell(dispatched, facts.Accepted(no), facts.StepCompleted(no, 1, 1))
    fleet_actions.edit_robot("RB-001", name="Ella", site=site, brand=other, by=SYSTEM)
    tell(dispatched, facts.StepCompleted(no, 2, 1))
    follow()
    assert counted("brand_id", "what", "command") == {
        (brand.pk, "step", "navigate"): 1, (other.pk, "step", "pick"): 1
    }  # fmt: skip
    counting.rebuild()
    assert counted("brand_id", "what", "command") == {
        (brand.pk, "step", "navigate"): 1, (other.pk, "step", "pick"): 1
    }  # fmt: skip


def test_an_abort_whose_stop_was_not_confirmed_is_never_counted_as_plain():
    rule = counting.RULES["mission.aborted"]
    assert rule.detail({"abort_reason": "operator"}) == "operator"
    assert rule.detail({"abort_reason": "operator", "stop_confirmed": True}) == "operator"
    assert rule.detail({"abort_reason": "operator", "stop_confirmed": False}) == "operator/unconfirmed"


def test_the_reason_of_a_mission_that_was_stopped_first(dispatched, supervisor):
    tell(dispatched, facts.Accepted(dispatched.dispatch_no))
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
    assert "stop_requested" in Event.objects.filter(aggregate=f"mission:{dispatched.pk}").latest("seq").kind
    tell(dispatched, facts.Cancelled(dispatched.dispatch_no))
    follow()
    assert counted("what", "detail") == {("ended", "operator"): 1}
    counting.rebuild()
    assert counted("what", "detail") == {("ended", "operator"): 1}


def test_hours_are_those_of_drovers_clock(dispatched):
    no = dispatched.dispatch_no
    tell(dispatched, facts.Accepted(no), facts.StepCompleted(no, 1, 1), at=NOW - timedelta(days=3))
    follow()
    event = Event.objects.get(kind="mission.step_completed")
    assert counted("hour") == {event.recorded_at.replace(minute=0, second=0, microsecond=0): 1}


def test_a_rebuild_is_asked_for_by_name(db):
    with pytest.raises(CommandError, match="--rebuild"):
        call_command("statistics")
    out = StringIO()
    call_command("statistics", "--rebuild", stdout=out)
    assert out.getvalue() == "0 events counted in 0 rows.\n"
    assert not Mission.objects.exists()

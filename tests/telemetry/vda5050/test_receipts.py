"""From a state to receipts, word by word: what proves a step, and what does not."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from telemetry.drivers.contract import Complaint, Wanted
from telemetry.drivers.vda5050 import plan, receipts, wishes
from telemetry.drivers.vda5050.picture import ActionState, Battery, Element, Issue, Picture
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.test_plan import NOW, dispatch, order_id

STEPS = ("navigate A", "pick A", "navigate B", "drop C")  # nodes n-A 2, n-B 4, n-C 6
ORDER = order_id().text


def words(picture, steps=STEPS, *, profile=None, now=NOW, withheld=False, **columns):
    mission = dispatch(*steps, **{"accepted": True, "current": 1, **columns})
    segment = plan.segment(mission, order_id(), profile or Profile())
    ours = picture.order_id == ORDER
    shown = receipts.progress(mission, segment, picture, now) if ours else None
    said = receipts.words(mission, picture, shown, withheld=withheld)
    return [f"{w.type.partition('.')[2]} {w.step}/{w.attempt}" if w.step else w.type.partition(".")[2]
            for w in said if w.type != "mission.step_started"]  # fmt: skip


def at(sequence, node, *, actions=None, nodes=(), edges=(), **more):
    found = {f"{ORDER}.{step}": ActionState("", status, "") for step, status in (actions or {}).items()}
    return Picture(
        order_id=ORDER, last_node_sequence=sequence, last_node_id=node, actions=found,
        node_states=tuple(Element(f"x{s}", s) for s in nodes), edge_states=tuple(Element(f"e{s}", s) for s in edges), **more,
    )  # fmt: skip


SAID = {
    "on its way": (at(0, "x", nodes=(2, 4, 6), edges=(1, 3, 5), driving=True), []),
    "at the first node": (at(2, "n-A", nodes=(4, 6), edges=(3, 5)), ["step_completed 1/1"]),
    "the pick runs": (at(2, "n-A", actions={2: "RUNNING"}, nodes=(4, 6)), ["step_completed 1/1"]),
    "the pick is done": (
        at(2, "n-A", actions={2: "FINISHED"}, nodes=(4, 6)), ["step_completed 1/1", "step_completed 2/1"],
    ),
    "all at once": (
        at(6, "n-C", actions={2: "FINISHED", 4: "FINISHED"}),
        ["step_completed 1/1", "step_completed 2/1", "step_completed 3/1", "step_completed 4/1", "finished"],
    ),
    "done, its lists still full": (
        at(6, "n-C", actions={2: "FINISHED", 4: "FINISHED"}, nodes=()),
        ["step_completed 1/1", "step_completed 2/1", "step_completed 3/1", "step_completed 4/1", "finished"],
    ),
    "the pick's state is lost": (at(4, "n-B", nodes=(6,)), ["step_completed 1/1", "step_completed 3/1"]),
    "an empty list proves nothing": (at(0, "x"), []),
    "another node in the order before": (at(4, "n-Z", nodes=(2, 4, 6), edges=(1, 3, 5)), []),
    "the same node in the order before": (at(4, "n-B", nodes=(2, 4, 6), edges=(1, 3, 5)), []),
    "the pick failed": (at(2, "n-A", actions={2: "FAILED"}), ["step_completed 1/1", "step_failed 2/1"]),
    "what is due later failed": (at(0, "x", actions={4: "FAILED"}, nodes=(2,)), []),
    "manual": (at(0, "x", operating_mode="MANUAL"), ["step_failed 1/1"]),
    "service": (at(0, "x", operating_mode="SERVICE"), ["step_failed 1/1"]),
    "a fatal error that names it": (
        at(0, "x", errors=(Issue("e", "FATAL", "", (("orderId", ORDER),)),)), ["step_failed 1/1"],
    ),
    "a fatal error of something else": (at(0, "x", errors=(Issue("e", "FATAL", "", (("orderId", "z"),)),)), []),
    "a warning that names it": (at(0, "x", errors=(Issue("e", "WARNING", "", (("orderId", ORDER),)),)), []),
    "another master's order": (Picture(order_id="theirs"), ["step_failed 1/1"]),
    "no order": (Picture(), []),
    "another mission of ours": (Picture(order_id=ORDER.replace("0c9f", "1c9f")), []),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_a_state_says(name):
    picture, said = SAID[name]
    assert words(picture) == said


def test_accepted_is_said_until_the_site_knows_it():
    picture = at(0, "x", nodes=(2, 4, 6))
    assert words(picture, accepted=False, current=0) == ["accepted"]
    assert words(replace(picture, order_id="theirs"), accepted=False, current=0) == []


def test_what_the_site_may_have_brought_about_is_not_said_to_have_failed():
    assert words(at(2, "n-A", actions={2: "FAILED"}), withheld=True) == ["step_completed 1/1"]


def test_a_state_that_cannot_be_read_says_nothing():
    picture = at(6, "n-C", actions={2: "FINISHED", 4: "FINISHED"}, wrong=(Complaint(field="nodeStates", reason="no"),))
    assert words(picture) == []


@pytest.mark.parametrize(
    ("charge", "charging", "status", "done"),
    [
        (79.9, True, "FINISHED", False),
        (80.0, True, "FINISHED", True),
        (80.0, True, "RUNNING", True),
        (80.0, False, "RUNNING", False),
        (80.0, False, "FINISHED", True),
        (80.0, True, "WAITING", False),
        (80.0, True, "FAILED", False),
        (None, True, "FINISHED", False),
    ],
)
def test_charging_is_over_when_the_battery_says_so(charge, charging, status, done):
    picture = at(2, "n-C", actions={1: status}, battery=Battery(charge, charging))
    assert ("step_completed 1/1" in words(picture, ("charge 80 C",))) is done


def test_what_ends_with_charging_is_finished_while_the_robot_charges_on():
    picture = at(2, "n-C", actions={1: "RUNNING"}, battery=Battery(85, True))
    assert words(picture, ("charge 80 C",)) == ["step_completed 1/1", "finished"]
    assert words(replace(picture, driving=True), ("charge 80 C",)) == ["step_completed 1/1"], "it is not done yet"


@pytest.mark.parametrize(("after_s", "done"), [(4.9, False), (5.0, True)])
def test_a_wait_that_we_keep_ourselves_is_over_by_the_clock(after_s, done):
    mission = dispatch("navigate A", "wait 5", accepted=True, current=2)
    steps = (replace(mission.steps[0], outcome="completed"), replace(mission.steps[1], started_at=NOW))
    mission = replace(mission, steps=steps)
    segment = plan.segment(mission, order_id(), Profile())
    shown = receipts.progress(mission, segment, at(2, "n-A"), NOW + timedelta(seconds=after_s))
    assert (2 in shown.done) is done


@pytest.mark.parametrize(
    ("outcome", "attempt", "superseded"), [("", 1, False), ("", 2, True), ("skipped", 1, True), ("completed", 1, False)]
)
def test_an_order_that_the_site_has_gone_beyond_says_nothing_of_what_is_left(outcome, attempt, superseded):
    mission = dispatch(*STEPS, accepted=True, current=2)
    steps = list(mission.steps)
    steps[1] = replace(steps[1], outcome=outcome, attempt=attempt)
    mission = replace(mission, steps=tuple(steps))
    segment = plan.segment(mission, order_id(), Profile())
    shown = receipts.progress(mission, segment, at(2, "n-A", actions={2: "FAILED"}), NOW)
    assert shown.superseded is superseded
    assert (shown.failed is not None) is (not superseded and outcome == "")


@pytest.mark.parametrize(
    ("current", "picture", "again"),
    [
        (1, at(0, "x", errors=(Issue("e", "FATAL", "", (("orderId", ORDER),)),)), True),
        (2, at(2, "n-A", actions={2: "FAILED"}), False),  # it may have taken hold of the load
    ],
)
def test_a_resume_gives_again_what_had_not_begun_when_its_order_was_ended(current, picture, again):
    mission = dispatch(*STEPS, accepted=True, paused=True, current=current)
    shown = receipts.progress(mission, plan.segment(mission, order_id(), Profile()), picture, NOW)
    assert shown.failed is not None
    wish = wishes.wish(Wanted(dispatch=mission), picture, shown, rests=True, resuming=True)
    assert wish == (wishes.Give(order_id(run=2)) if again else None)


@pytest.mark.parametrize(
    ("more", "given"),
    [({}, True), ({"e_stop": "MANUAL"}, False), ({"e_stop": "AUTOACK"}, False), ({"operating_mode": "MANUAL"}, False)],
)
def test_no_order_is_given_to_a_robot_that_people_hold(more, given):
    mission = dispatch(*STEPS, accepted=False, current=0)
    wish = wishes.wish(Wanted(dispatch=mission), Picture(**more), None, rests=True)
    assert (wish == wishes.Give(order_id())) is given


@pytest.mark.parametrize(("e_stop", "released"), [("NONE", True), ("MANUAL", False), ("AUTOACK", False)])
def test_nothing_more_is_released_into_an_emergency_stop(e_stop, released):
    mission = dispatch(*STEPS, accepted=True)
    picture = at(0, "x", e_stop=e_stop, new_base_request=True)
    shown = receipts.progress(mission, plan.segment(mission, order_id(), Profile()), picture, NOW)
    assert wishes.wish(Wanted(dispatch=mission), picture, shown, rests=False) == (
        wishes.Give(order_id(), 1) if released else None
    )


@pytest.mark.parametrize(("current", "goes_on"), [(2, False), (3, True)])
def test_what_it_has_done_is_not_begun_again_because_the_site_is_behind(current, goes_on):
    """A resume came at the moment when a stopped robot turned out to have done its step after all."""
    mission = dispatch(*STEPS, accepted=True, paused=True, current=current)
    segment = plan.segment(mission, order_id(), Profile())
    picture = at(2, "n-A", actions={2: "FINISHED"})
    shown = receipts.progress(mission, segment, picture, NOW)
    wanted = Wanted(dispatch=mission)
    wish = wishes.wish(wanted, picture, shown, rests=True, resuming=True)
    assert wish == (wishes.Give(order_id(first=3)) if goes_on else None)

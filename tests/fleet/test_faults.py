"""Several faults at once: each code is one, cleared one by one, in any order of words; said together in words."""

import itertools
import json

import pytest

from fleet.history import AGGREGATES, fold, sentence
from fleet.models import Alert, Event, Robot
from fleet.robots import faults
from fleet.robots.facts import FaultCleared, Faulted, Offers, Reported
from tests.fleet.test_robot_words import say

HOSTILE = "<img src=x onerror=alert(1)>{id}{0}%s\u202e"


def codes(robot):
    return [f["code"] for f in robot.faults]


def said():
    return [sentence(e) for e in Event.objects.filter(aggregate="robot:RB-001", kind__contains="fault").order_by("seq")]


def alerts():
    return [(alert.text, alert.cleared_at is None) for alert in Alert.objects.order_by("pk")]


def test_each_code_is_a_fault_until_it_is_cleared(robot):
    say(robot, Faulted(7, 1, "blocked", "E1"), Faulted(7, 2, "too hot", "E2"))
    assert (codes(robot), robot.fault, robot.mode) == (["E1", "E2"], "2 faults: blocked; too hot", "fault")
    say(robot, FaultCleared(7, 3, "E1"))
    assert (codes(robot), robot.fault, robot.mode) == (["E2"], "too hot", "fault")
    say(robot, FaultCleared(7, 4, "E2"))
    assert (codes(robot), robot.fault, robot.mode) == ([], "", "unknown")
    assert said() == ["Fault: blocked", "2 faults: blocked; too hot", "Over: blocked", "Over: too hot"]


def test_one_of_three_is_over(robot):
    say(robot, *(Faulted(7, n, f"text {n}", f"E{n}") for n in (1, 2, 3)), FaultCleared(7, 4, "E2"))
    assert said()[-1] == "Over: text 2. Still: 2 faults: text 1; text 3"


def test_the_alert_says_what_is_wrong_now_and_ends_with_the_last(robot):
    say(robot, Faulted(7, 1, "blocked", "E1"))
    assert alerts() == [("RB-001 has a fault: blocked", True)]
    say(robot, Faulted(7, 2, "too hot", "E2"))
    assert alerts() == [("RB-001 has 2 faults: blocked; too hot", True)]
    say(robot, FaultCleared(7, 3, "E1"))
    assert alerts() == [("RB-001 has a fault: too hot", True)]
    say(robot, FaultCleared(7, 4, "E2"))
    assert alerts() == [("RB-001 has a fault: too hot", False)]
    assert Event.objects.filter(kind="alert.said_anew").count() == 2


def test_its_own_safety_system_is_said_as_such(robot):
    say(robot, Faulted(7, 1, "low tyre", "E1"), Faulted(7, 2, "emergency stop pressed", "eStop", kind="safety"))
    assert robot.fault == "2 faults: emergency stop pressed; low tyre"
    assert faults.is_safety(robot.faults)
    assert alerts() == [("RB-001 is held by its own safety system: 2 faults: emergency stop pressed; low tyre", True)]
    say(robot, FaultCleared(7, 3, "eStop"))
    assert alerts() == [("RB-001 has a fault: low tyre", True)]


def test_with_a_warning_it_goes_on(robot):
    say(robot, Reported(7, 1, "running"), Faulted(7, 2, "brush worn", "W1", kind="warning"))
    assert (robot.mode, robot.fault, codes(robot)) == ("running", "", ["W1"])
    assert not alerts()
    assert say(robot, Faulted(7, 3, "brush worn", "W1", kind="warning")) == ["redundant"]
    say(robot, FaultCleared(7, 4, "W1"))
    assert (robot.mode, codes(robot)) == ("running", [])


def test_a_danger_among_others_ends_its_alert_only_when_it_is_over(robot):
    say(robot, Faulted(7, 1, "smoke", "D", danger=True), Faulted(7, 2, "blocked", "E1"), FaultCleared(7, 3, "E1"))
    assert ("RB-001 reports danger: smoke", True) in alerts()
    say(robot, FaultCleared(7, 4, "D"))
    assert not [text for text, is_open in alerts() if is_open]


def test_the_same_again_keeps_its_age(robot):
    say(robot, Faulted(7, 1, "blocked", "E1"))
    since, mode_since = robot.faults[0]["since"], robot.mode_since
    say(robot, Reported(7, 2, "fault"), Faulted(7, 3, "blocked", "E1"))
    assert (len(robot.faults), robot.faults[0]["since"], robot.mode_since) == (1, since, mode_since)
    say(robot, Faulted(7, 4, "blocked by a box", "E1"))
    assert (robot.fault, robot.faults[0]["since"]) == ("blocked by a box", since)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_what_is_cleared_stays_cleared_in_any_order(robot, order):
    words = [Faulted(7, 1, "a", "A"), FaultCleared(7, 2, "A"), Faulted(7, 3, "b", "B"), FaultCleared(7, 4, "B")]
    say(robot, *(words[n] for n in order))
    assert (robot.fault, codes(robot)) == ("", [])


def test_a_late_word_that_one_is_over_is_worth_something_and_clears_no_later_one(robot):
    say(robot, Faulted(7, 1, "a", "A"), Reported(7, 5, "idle"))
    assert say(robot, FaultCleared(7, 3, "A")) == ["applied"]
    assert (robot.fault, robot.mode, robot.word_seq) == ("", "idle", 5)
    say(robot, Faulted(7, 6, "a", "A"))
    assert say(robot, FaultCleared(7, 4, "A")) == ["stale"]
    assert robot.fault == "a"


def test_their_number_and_length_are_bounded(robot):
    say(robot, *(Faulted(7, n, "x" * 65_000, f"E{n}") for n in range(1, 26)))
    assert codes(robot) == [f"E{n}" for n in range(6, 26)]
    assert len(robot.fault) < 21 * faults.MAX_TEXT
    assert len(Event.objects.filter(kind="robot.faulted").latest("pk").data) < 60_000


def test_a_fault_from_before_there_could_be_several(robot):
    """Folded from an event without a list; it ends with any word that something is over, as it did."""
    say(robot, Faulted(7, 1, "old", "E1"))
    events = list(Event.objects.filter(aggregate="robot:RB-001").order_by("seq"))
    old = json.loads(events[-1].data)
    events[-1].data = json.dumps({k: old[k] for k in old.keys() - {"faults", "several"}})
    change = fold(AGGREGATES["robot"], "RB-001", events)
    assert (change.row.fault, change.row.faults) == ("old", [])
    from fleet.robots.decide import decide
    from tests.actors import START

    decide(change, Faulted(7, 2, "worn", "W", kind="warning"), START)
    assert (change.row.fault, [f["code"] for f in change.row.faults]) == ("old", ["W"])
    decide(change, FaultCleared(7, 3, "whatever"), START)
    assert (change.row.fault, change.row.mode) == ("", "unknown")
    event = Event(kind="robot.fault_cleared", data='{"fault":""}')
    assert sentence(event) == "Fault cleared"


def test_the_page_lists_them_as_text(client, admin_person, robot):
    say(robot, Faulted(7, 1, HOSTILE, "<b>"), Faulted(7, 2, "e-stop", "S", kind="safety"),
        Faulted(7, 3, "worn", "W", kind="warning"))  # fmt: skip
    client.force_login(admin_person)
    page = client.get("/admin/fleet/robot/RB-001/change/").content.decode()
    assert "2 faults: it gets no new work" in page
    assert page.index("Safety stop") < page.index("onerror") < page.index("worn")
    assert "<img" not in page and "&lt;img src=x" in page
    assert "Warning" in page
    client.get("/admin/fleet/robot/")
    assert HOSTILE in Robot.objects.get().fault


def test_the_live_page_reads_whether_its_safety_system_holds_it_and_what_it_says_it_can(robot):
    from telemetry.live.loading import load

    def row():
        return load(["RB-001"], []).robots["RB-001"]

    assert (row().safety, row().own_word) == (False, False)
    say(robot, Faulted(7, 1, "low tyre", "E1"), Offers(["navigate"]))
    assert (row().safety, row().own_word, row().capabilities) == (False, True, ["navigate"])
    say(robot, Faulted(7, 2, "e-stop", "S", kind="safety"))
    assert row().safety is True

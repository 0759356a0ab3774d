"""A robot's errors become words of their own: each once, with what it means, until it is over."""

from datetime import UTC, datetime, timedelta

from telemetry.drivers.contract import Complaint, Heard, Say, Spec, Wanted
from telemetry.drivers.vda5050 import VDA5050
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.words import STATE, raw

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
IDLE = {"orderId": "", "nodeStates": [], "edgeStates": [], "actionStates": [], "driving": False, "errors": []}


def error(kind, level, text):
    return {"errorType": kind, "errorLevel": level, "errorDescription": text}


class Robot:
    def __init__(self):
        self.talk = VDA5050().converse(Spec(id="RB-1", address="acme/0001", profile=Profile()))
        self.at = NOW
        list(self.talk.begun(1, {}, NOW))

    def says(self, **changed):
        """Fault words that come of a state: (type, code, kind or nothing, danger or nothing)."""
        self.at += timedelta(seconds=5)
        message = Heard(part="state", payload=raw(STATE | IDLE, **changed), at=self.at)
        effects = list(self.talk.hear(message, Wanted()))
        self.complaints = [effect for effect in effects if isinstance(effect, Complaint)]
        return [
            (word.type.removeprefix("robot."), word.data["code"], word.data.get("kind"), word.data.get("danger"))
            for word in effects
            if isinstance(word, Say) and word.type.startswith("robot.fault")
        ]


def test_each_error_is_said_once_and_cleared_when_it_is_gone():
    robot = Robot()
    blocked, low = error("motorError", "FATAL", "wheel"), error("lowBattery", "WARNING", "18 %")
    assert robot.says() == []
    assert robot.says(errors=[low]) == [("fault", "lowBattery", "warning", False)]
    assert robot.says(errors=[low, blocked]) == [("fault", "motorError", "fault", False)]
    assert robot.says(errors=[blocked]) == [("fault_cleared", "lowBattery", None, None)]
    assert robot.says(errors=[]) == [("fault_cleared", "motorError", None, None)]


def test_a_text_that_changes_with_each_state_is_not_said_anew():
    robot = Robot()
    assert len(robot.says(errors=[error("hot", "WARNING", "81.2 °C")])) == 1
    assert robot.says(errors=[error("hot", "WARNING", "81.3 °C")]) == []
    assert robot.says(errors=[error("hot", "FATAL", "95.0 °C")]) == [("fault", "hot", "fault", False)]


def test_its_safety_system_is_told_as_that():
    robot = Robot()
    held = robot.says(safetyState={"eStop": "MANUAL", "fieldViolation": True})
    assert sorted(held) == [("fault", "eStop", "safety", True), ("fault", "fieldViolation", "safety", False)]


def test_errors_that_cannot_be_read_end_no_fault():
    robot = Robot()
    robot.says(errors=[error("motorError", "FATAL", "wheel")])
    assert robot.says(errors="garbled") == []
    assert [complaint.field for complaint in robot.complaints] == ["errors"]
    assert robot.says(errors=[]) == [("fault_cleared", "motorError", None, None)]

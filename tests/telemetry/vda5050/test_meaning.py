"""What a robot's words mean: mode, faults, what it rejected, what it tells and can do."""

import math

import pytest

from telemetry.drivers.vda5050 import meaning, reading, standing
from telemetry.drivers.vda5050.meaning import Fault
from telemetry.drivers.vda5050.picture import (
    ActionState,
    Battery,
    Element,
    Factsheet,
    Issue,
    OwnAction,
    Picture,
    Position,
    Velocity,
)  # fmt: skip
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.words import FACTSHEET, STATE, raw

CHARGING = Battery(40.0, True)
LOST = Position(0, 0, initialised=False)
FATAL = Issue("motorError", "FATAL", "left wheel blocked")
WARNING = Issue("lowBattery", "WARNING", "below 20 %")
NODES = (Element("n1", 2), Element("n2", 4))


def acts(**status):
    return {name: ActionState("pick", one) for name, one in status.items()}


def instant(kind, status):
    return {"i1": ActionState(kind, status)}


# what it says, mode
STATES = [
    ({}, "idle"),
    ({"driving": True}, "running"),
    ({"order_id": "o1"}, "idle"),  # it stays after the order is done
    ({"node_states": NODES}, "running"),
    ({"node_states": (Element("n1", 2, released=False),)}, "running"),  # it waits for the next base
    ({"actions": acts(a="WAITING")}, "running"),
    ({"actions": acts(a="INITIALIZING")}, "running"),
    ({"actions": acts(a="RUNNING")}, "running"),
    ({"actions": acts(a="PAUSED")}, "running"),
    ({"actions": acts(a="RETRIABLE")}, "running"),
    ({"actions": acts(a="POLISHING")}, "running"),  # nobody knows it, so it is not over
    ({"actions": acts(a="FINISHED", b="FAILED")}, "idle"),
    ({"actions": instant("stateRequest", "WAITING")}, "idle"),  # some leave them so for ever
    ({"actions": instant("cancelOrder", "RUNNING")}, "running"),
    ({"actions": instant("startCharging", "WAITING")}, "running"),
    ({"paused": True}, "paused"),
    ({"paused": True, "node_states": NODES}, "paused"),
    ({"battery": CHARGING}, "charging"),
    ({"battery": CHARGING, "driving": True}, "running"),
    ({"battery": CHARGING, "paused": True}, "paused"),
    ({"operating_mode": "AUTOMATIC"}, "idle"),
    ({"operating_mode": "SEMIAUTOMATIC"}, "idle"),
    ({"operating_mode": "MANUAL"}, "manual"),
    ({"operating_mode": "SERVICE"}, "manual"),
    ({"operating_mode": "TEACHIN"}, "manual"),
    ({"operating_mode": "DOZING"}, "manual"),
    ({"operating_mode": "MANUAL", "e_stop": "MANUAL"}, "manual"),
    ({"e_stop": "NONE"}, "idle"),
    ({"e_stop": "AUTOACK"}, "fault"),
    ({"e_stop": "MANUAL"}, "fault"),
    ({"e_stop": "REMOTE", "node_states": NODES}, "fault"),
    ({"field_violation": True}, "fault"),
    ({"errors": (FATAL,)}, "fault"),
    ({"errors": (WARNING,)}, "idle"),
    ({"errors": (Issue("x", "ODD"),)}, "idle"),
    ({"position": LOST}, "idle"),
    ({"position": Position(1, 2)}, "idle"),
    ({"loads": ()}, "idle"),
]


@pytest.mark.parametrize(("told", "mode"), STATES)
def test_mode(told, mode):
    assert meaning.mode(Picture(**told)) == mode


# --- what could not be read


@pytest.mark.parametrize(
    "field", ["orderId", "nodeStates", "actionStates", "driving", "operatingMode", "safetyState", "errors"]
)
def test_nothing_is_said_when_what_it_rests_on_cannot_be_read(field):
    """A fault is not over, and a robot not idle, because a field was garbled."""
    picture = reading.state(raw(STATE, **{field: {"a": 1} if isinstance(STATE[field], str) else 7}))
    assert meaning.mode(picture) is None
    assert meaning.faults(picture) is None


@pytest.mark.parametrize("field", ["batteryState", "velocity", "loads", "headerId", "timestamp", "agvPosition"])
def test_what_it_does_not_rest_on_changes_nothing(field):
    picture = reading.state(raw(STATE, **{field: [[7]]}))
    assert picture.wrong
    assert meaning.mode(picture) == "running"
    assert meaning.faults(picture) == ()


# --- nodes that are left there although reached


@pytest.mark.parametrize(
    ("nodes", "at", "sequence", "ahead"),
    [
        ([("n1", 2), ("n2", 4)], "n0", 0, 2),
        ([("n0", 0), ("n1", 2)], "n0", 0, 1),
        ([("n0", 0), ("n1", 2), ("n2", 4)], "n1", 2, 1),
        ([("n2", 4), ("n1", 2), ("n0", 0)], "n1", 2, 1),  # never by position
        ([("n0", 0), ("n1", 2)], "n1", 2, 0),
        ([("n0", 0), ("n1", 2)], "n1", None, 0),  # it tells no sequence
        ([("n3", 0)], "n3", 6, 1),  # its last node is of the order before
        ([("n0", 0), ("n1", 2)], "", 6, 2),
        ([("n0", 0), ("n1", 2), ("n0", 4)], "n0", 0, 2),  # passed twice: the sequence tells
        ([("n0", 0), ("n1", None)], "n0", 0, 1),
        ([], "n0", 0, 0),
    ],
)
def test_nodes_that_are_still_ahead(nodes, at, sequence, ahead):
    told = tuple(Element(name, number) for name, number in nodes)
    picture = Picture(node_states=told, last_node_id=at, last_node_sequence=sequence)
    assert standing.ahead(picture) == ahead
    assert meaning.mode(picture) == ("running" if ahead else "idle")


# --- faults


@pytest.mark.parametrize(
    ("told", "faults", "warnings"),
    [
        ({}, [], []),
        ({"errors": (FATAL, WARNING)}, [Fault("motorError", "motorError: left wheel blocked")],
         [Fault("lowBattery", "lowBattery: below 20 %", kind="warning")]),
        ({"errors": (FATAL, FATAL)}, [Fault("motorError", "motorError: left wheel blocked")], []),
        ({"errors": (Issue("", "FATAL"),)}, [Fault("error", "error without a type")], []),
        ({"errors": (Issue("", "FATAL", "on fire"),)}, [Fault("error", "on fire")], []),
        ({"errors": (Issue("x" * 999, "FATAL"),)}, [Fault("x" * 200, "x" * 499 + "…")], []),
        ({"e_stop": "MANUAL"}, [Fault("eStop", "Emergency stop, MANUAL: somebody has to release it.", True, "safety")], []),
        ({"e_stop": "REMOTE"}, [Fault("eStop", "Emergency stop, REMOTE: somebody has to release it.", True, "safety")], []),
        ({"e_stop": "AUTOACK"}, [Fault("eStop", "Emergency stop, ends by itself.", kind="safety")], []),
        ({"e_stop": "ODD"}, [Fault("eStop", "Emergency stop, ODD: somebody has to release it.", True, "safety")], []),
        ({"field_violation": True}, [Fault("fieldViolation", "Something is in its protective field.", kind="safety")], []),
        ({"errors": tuple(Issue(f"e{n}", "WARNING") for n in range(99))}, [],
         [Fault(f"e{n}", f"e{n}", kind="warning") for n in range(20)]),
        ({"e_stop": "AUTOACK", "field_violation": True, "errors": (FATAL,)},
         [Fault("eStop", "Emergency stop, ends by itself.", kind="safety"),
          Fault("fieldViolation", "Something is in its protective field.", kind="safety"),
          Fault("motorError", "motorError: left wheel blocked")], []),
    ],
)  # fmt: skip
def test_faults_and_warnings(told, faults, warnings):
    picture = Picture(**told)
    assert meaning.faults(picture) == tuple(faults)
    assert meaning.warnings(picture) == tuple(warnings)


# --- rejections


def error(*references, kind="orderError", text="no route"):
    return Issue(kind, "WARNING", text, references)


MINE = ("orderId", "o1")


@pytest.mark.parametrize(
    ("has", "errors", "rejected"),
    [
        (("", 0), [error(MINE)], "orderError: no route"),
        (("o0", 0), [error(MINE)], "orderError: no route"),
        (("o0", 0), [error(("ORDER_ID", "o1"))], "orderError: no route"),  # keys differ, ids do not
        (("o0", 0), [error(MINE, ("orderUpdateId", "2"))], "orderError: no route"),
        (("o0", 0), [error(MINE, ("orderUpdateId", "0"))], ""),  # an older one of it
        (("o0", 0), [error(("orderId", "o2"))], ""),
        (("o0", 0), [error()], ""),  # it names nothing: silence decides
        (("o0", 0), [], ""),
        (("o0", 0), [error(("orderId", "o2")), error(MINE, kind="", text="odd")], "odd"),
        (("o1", 1), [error(MINE, ("orderUpdateId", "2"))], "orderError: no route"),  # this update of it
        (("o1", 2), [error(MINE)], ""),  # it has it, whatever it says
        (("o1", 3), [error(MINE)], ""),
    ],
)
def test_an_order_is_rejected_by_an_error_that_names_it_while_it_is_not_there(has, errors, rejected):
    picture = Picture(order_id=has[0], order_update_id=has[1], errors=tuple(errors))
    assert meaning.rejected(picture, "o1", 2) == rejected


def test_an_instant_action_is_refused_by_an_error_that_names_it():
    refusal = error(("topic", "instantActions"), ("actionId", "i1"), kind="noOrderToCancel", text="")
    picture = Picture(errors=(error(MINE), refusal))
    assert meaning.refused_action(picture, "i1") == "noOrderToCancel"
    assert meaning.refused_action(picture, "i2") == ""


# --- telemetry


@pytest.mark.parametrize(
    ("told", "facts"),
    [
        ((Position(1.5, -2, 0.5), Velocity(3, 4), Battery(50.0), "Dock A"),
         {"x": 1.5, "y": -2, "theta": 0.5, "speed": 5.0, "battery": 50.0, "place": "Dock A"}),
        ((None,), {}),
        ((None, None, None, "n" * 300), {"place": "n" * 200}),
        ((None, None, None, ""), {"place": ""}),
        ((None, None, Battery(0.0)), {"battery": 0.0}),
        ((None, None, Battery(None)), {}),
        ((None, None, Battery(100.5)), {}),
        ((None, None, Battery(-1.0)), {}),
        ((LOST, Velocity(1, 0)), {"speed": 1.0}),
        ((Position(1e9, 0),), {}),
        ((Position(0, -1e9),), {}),
        ((Position(0, 0, 1e9),), {"x": 0, "y": 0}),
        ((Position(0, 0), Velocity(1e9, 0)), {"x": 0, "y": 0, "theta": 0.0}),
        ((Position(0, 0), Velocity(1e308, 1e308)), {"x": 0, "y": 0, "theta": 0.0}),
    ],
)  # fmt: skip
def test_telemetry(told, facts):
    assert meaning.telemetry(*told) == facts


# --- what it can do, how it is linked, what is written to it


def own(*names, scopes=("NODE",)):
    return Factsheet(actions=tuple(OwnAction(name, frozenset(scopes)) for name in names))


@pytest.mark.parametrize(
    ("factsheet", "profile", "offers"),
    [
        (Factsheet(), {}, None),
        (own("pick"), {"capabilities_from_factsheet": False}, None),
        (own(), {}, {"navigate", "wait"}),
        (own("pick", "drop"), {}, {"navigate", "wait", "pick", "drop"}),
        (own("pick", "beep"), {"pick": "grab"}, {"navigate", "wait", "custom:pick", "custom:beep"}),
        (own("grab"), {"pick": "grab"}, {"navigate", "wait", "pick"}),
        (own("pause"), {"wait": "pause"}, {"navigate", "wait"}),
        (own("startCharging", "stopCharging"), {}, {"navigate", "wait", "charge"}),
        (own("startCharging", scopes=("INSTANT",)), {}, {"navigate", "wait", "charge"}),
        (own("reboot", "pick", scopes=("INSTANT",)), {}, {"navigate", "wait"}),  # nothing that an order may hold
        (own("beep", scopes=()), {}, {"navigate", "wait", "custom:beep"}),
        (own("cancelOrder", "initPosition"), {}, {"navigate", "wait"}),
        (reading.factsheet(raw(FACTSHEET)), {}, {"navigate", "wait", "pick", "charge", "custom:beep"}),
    ],
)
def test_what_a_factsheet_offers(factsheet, profile, offers):
    assert meaning.capabilities(factsheet, Profile(**profile)) == offers


@pytest.mark.parametrize(
    ("own", "set_", "written"),
    [
        (None, "", "2.0.0"), ("", "", "2.0.0"), ("2.1.0", "", "2.1.0"), ("2.1.0", "2.0.0", "2.0.0"),
        ("1.1.0", "", "1.1.0"), ("2.0", "", "2.0.0"), ("2.0.0-beta", "", "2.0.0"), ("two", "", "2.0.0"),
    ],
)  # fmt: skip
def test_the_version_that_is_written_to_it(own, set_, written):
    picture = None if own is None else Picture(version=own)
    assert meaning.version(picture, Profile(version=set_)) == written


def test_facts_are_finite():
    told = meaning.telemetry(Position(1, 2, 3), Velocity(1e6, 1e6), Battery(5))
    assert all(math.isfinite(value) for value in told.values())

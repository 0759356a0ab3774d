"""What foreign robots do to the standard, each habit by name, in short states like those that were recorded."""

from datetime import UTC, datetime

from telemetry.drivers.vda5050 import meaning, reading
from tests.telemetry.vda5050.words import CONNECTION, STATE, raw

IDLE = STATE | {"orderId": "o1", "orderUpdateId": 1, "nodeStates": [], "edgeStates": [], "actionStates": [],
                "driving": False, "errors": []}  # fmt: skip


def state(**told):
    return reading.state(raw(IDLE, **told))


def nodes(*told):
    return [{"nodeId": name, "sequenceId": sequence, "released": released} for name, sequence, released in told]


def test_a_time_without_a_zone_is_utc():
    """NVIDIA's: from Python's isoformat."""
    read = reading.connection(raw(CONNECTION, timestamp="2026-11-29T17:05:22.063497"))
    assert read.at == datetime(2026, 11, 29, 17, 5, 22, 63497, tzinfo=UTC)


def test_a_node_that_is_reached_and_still_named_keeps_it_from_nothing():
    """taherfattahi's, NVIDIA's, ilesp's: nodeStates never becomes empty."""
    left = nodes(("n2", 4, True), ("n3", 6, True))
    assert meaning.mode(state(nodeStates=left, lastNodeId="n3", lastNodeSequenceId=6)) == "idle"


def test_the_last_node_of_the_order_before_is_not_reached_in_this_one():
    """coatyio's: an order is accepted while lastNodeSequenceId is the old one's."""
    left = nodes(("n3", 0, True))
    assert meaning.mode(state(nodeStates=left, lastNodeId="n3", lastNodeSequenceId=6)) == "running"


def test_what_is_not_released_is_read_as_that():
    left = nodes(("n2", 4, True), ("n3", 6, False))
    assert [node.released for node in state(nodeStates=left).node_states] == [True, False]


def test_an_instant_action_that_waits_for_ever_keeps_it_from_nothing():
    """NVIDIA's: stateRequest stays WAITING."""
    left = [{"actionId": "sr-1", "actionType": "stateRequest", "actionStatus": "WAITING"}]
    assert meaning.mode(state(actionStates=left)) == "idle"


def test_an_error_about_an_update_that_is_behind_it_rejects_nothing():
    """coatyio's: a resent older update is an error, and the order goes on."""
    references = [{"referenceKey": "orderId", "referenceValue": "o1"}]
    old = {"errorType": "orderUpdateError", "errorLevel": "WARNING", "errorReferences": references}
    assert meaning.rejected(state(errors=[old]), "o1", 0) == ""


def test_a_garbled_list_of_nodes_does_not_make_it_idle():
    assert meaning.mode(state(nodeStates="n3")) is None


def test_charge_that_stands_at_the_top_is_told():
    """ilesp's."""
    assert meaning.telemetry(None, None, state(batteryState=None, batteryCharge=85).battery) == {"battery": 85}

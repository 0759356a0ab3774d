"""From a dispatch to orders: ids, segments, nodes, base and horizon."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.drivers.contract import Dispatch, Place, Step
from telemetry.drivers.vda5050 import plan
from telemetry.drivers.vda5050.ids import OrderId, parse
from telemetry.drivers.vda5050.picture import Picture, Position
from telemetry.drivers.vda5050.profile import Profile

MISSION = UUID("0c9f6a1e-30a4-4b8e-8f4e-5e2a35c5f001")
NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)
HERE = plan.Start(plan.At(x=1.0, y=2.0, theta=0.0, map_id="hall", deviation_xy=0.5))


def dispatch(*told, **columns):
    """`navigate A`, `wait 5`, `charge 80 C`, `custom honk` …"""
    steps = []
    for number, text in enumerate(told, 1):
        command, *rest = text.split()
        params = {}
        if command == "wait":
            params["seconds"] = float(rest.pop())
        if command == "charge":
            params["until_percent"] = int(rest.pop(0))
        if command == "custom":
            params["name"] = rest.pop()
        place = Place(name=rest[0], x=9.0, y=9.0, node=f"n-{rest[0]}") if rest else None
        steps.append(Step(number=number, command=command, params=params, place=place))
    return Dispatch(mission=MISSION, dispatch_no=1, steps=tuple(steps), **columns)


def order_id(first=1, attempt=1, run=1):
    return OrderId(MISSION, 1, first, attempt, run)


@given(st.uuids(), *[st.integers(1, 99999)] * 4)
def test_an_order_id_is_read_as_it_was_written(mission, dispatch_no, first, attempt, run):
    order = OrderId(mission, dispatch_no, first, attempt, run)
    assert parse(order.text) == order
    assert parse(order.action(first)) is None or run == 1


@pytest.mark.parametrize("text", ["", "o1", str(MISSION), f"{MISSION}.1.1", f"{MISSION}.1.0.1", f"{MISSION}.1.1.1.r1",
                                  f"{str(MISSION).upper()}.1.1.1", f"{MISSION}.01.1.1", f"{MISSION}.1.1.1\n"])  # fmt: skip
def test_what_others_call_their_orders_is_not_ours(text):
    assert parse(text) is None


SEGMENTS = [
    # steps, wait action, step numbers of each segment
    (("navigate A", "pick A", "drop B"), "", [[1, 2, 3]]),
    (("navigate A", "wait 5", "navigate B"), "", [[1, 2], [3]]),
    (("navigate A", "wait 5", "navigate B"), "wait", [[1, 2, 3]]),
    (("navigate A", "wait 5", "wait 3", "navigate B", "wait 1"), "", [[1, 2, 3], [4, 5]]),
    (("wait 5", "navigate B"), "", [[1], [2]]),
    (("charge 80 C", "wait 5", "navigate B"), "", [[1, 2], [3]]),
    (("charge 80 C", "wait 5", "navigate B"), "wait", [[1], [2, 3]]),
    (("navigate A", "charge 80", "charge 90", "drop B"), "", [[1, 2], [3], [4]]),
]


@pytest.mark.parametrize(("steps", "wait", "segments"), SEGMENTS)
def test_a_segment_ends_where_somebody_waits_or_charges(steps, wait, segments):
    mission, profile, found, first = dispatch(*steps), Profile(wait=wait), [], 1
    while first <= len(steps):
        segment = plan.segment(mission, order_id(first), profile)
        found.append([task.step for task in segment.tasks])
        first = segment.last + 1
    assert found == segments


def told(segment):
    return [(stop.id, stop.sequence, [action.type for action in stop.actions]) for stop in segment.stops]


NODES = [
    # steps, profile, node with its actions, after the start
    (("navigate A", "pick A", "drop B"), {}, [("n-A", 2, ["pick"]), ("n-B", 4, ["drop"])]),
    (("pick A", "custom honk", "drop A"), {}, [("n-A", 2, ["pick", "honk", "drop"])]),
    (("navigate A", "navigate B", "navigate A"), {}, [("n-A", 2, []), ("n-B", 4, []), ("n-A#6", 6, [])]),
    (("navigate A", "navigate A"), {"unique_node_ids": False}, [("n-A", 2, []), ("n-A", 4, [])]),
    (("navigate A", "wait 5", "navigate B"), {"wait": "noop"}, [("n-A", 2, ["noop"]), ("n-B", 4, [])]),
    (("charge 80 C",), {}, [("n-C", 2, ["startCharging"])]),
    (("charge 80",), {}, []),
]


@pytest.mark.parametrize(("steps", "profile", "nodes"), NODES)
def test_a_drive_is_a_node_and_all_else_an_action_of_the_node_where_it_stands(steps, profile, nodes):
    segment = plan.segment(dispatch(*steps), order_id(), Profile(**profile), HERE)
    assert told(segment)[1:] == nodes
    assert segment.stops[0].id == f"{order_id().text}.start"
    assert [task.sequence for task in segment.tasks][-1] == segment.stops[-1].sequence


def test_what_is_done_at_once_is_done_where_it_stands():
    segment = plan.segment(dispatch("custom honk", "charge 80"), order_id(), Profile(), HERE)
    assert told(segment) == [(f"{order_id().text}.start", 0, ["honk", "startCharging"])]


@given(drives=st.integers(1, 12), ahead=st.integers(1, 5))
def test_updates_go_on_where_the_base_ends_and_change_no_node(drives, ahead):
    """Base and horizon of all updates together are the whole way; each begins with the last node of the base before it."""
    mission = dispatch(*[f"navigate {name}" for name in "ABC" * 4][:drives])
    segment = plan.segment(mission, order_id(), Profile(base_steps=ahead), HERE)
    first = plan.order(segment, 0)
    nodes, base = {n.sequence: n for n in first.nodes}, [n for n in first.nodes if n.released]
    assert len(base) == min(len(segment.stops), 1 + ahead)
    for update in range(1, segment.updates + 1):
        order = plan.order(segment, update)
        assert order.nodes[0] == base[-1]
        assert len(order.edges) == len(order.nodes) - 1
        assert [e.sequence for e in order.edges] == [n.sequence + 1 for n in order.nodes[:-1]]
        assert all(edge.released == end.released for edge, end in zip(order.edges, order.nodes[1:], strict=True))
        assert all((nodes[n.sequence].id, nodes[n.sequence].at) == (n.id, n.at) for n in order.nodes)
        base = [n for n in order.nodes if n.released]
    assert base[-1].sequence == segment.stops[-1].sequence
    assert plan.order(segment, segment.updates).nodes[-1].released


@pytest.mark.parametrize(
    ("picture", "profile", "start"),
    [
        (Picture(position=Position(1, 2, 0.5, "hall")), {}, (1, 2, 0.5, "hall", 0.5)),
        (Picture(position=Position(1, 2, 0.5, "hall")), {"map_id": "m2", "deviation_xy_m": 2}, (1, 2, 0.5, "m2", 2)),
        (Picture(position=Position(1, 2, initialised=False), last_node_id="n7"), {}, "n7"),
        (Picture(last_node_id="n7"), {}, "n7"),
        (Picture(), {}, None),
    ],
)
def test_an_order_begins_where_the_robot_is(picture, profile, start):
    found = plan.start(picture, Profile(**profile))
    if found is None or found.at is None:
        assert (found.node if found else None) == start
    else:
        at = found.at
        assert (at.x, at.y, at.theta, at.map_id, at.deviation_xy) == start


def test_the_plan_is_the_same_wherever_the_robot_is_by_now():
    """Else what it shows could not be read after a restart."""
    mission, profile = dispatch("navigate A", "pick B", "wait 3"), Profile()
    there, nowhere = plan.segment(mission, order_id(), profile, HERE), plan.segment(mission, order_id(), profile)
    assert there.tasks == nowhere.tasks
    assert [(s.id, s.sequence, s.actions) for s in there.stops] == [
        (s.id, s.sequence, s.actions) for s in nowhere.stops
    ]


@pytest.mark.parametrize(
    ("node", "driving", "place"),
    [
        ("Dock A", False, "Dock A"), ("Dock A#6", False, "Dock A"), ("Dock A", None, "Dock A"), ("Dock A", True, ""),
        (f"{order_id().text}.start", False, ""), ("kick.start", False, "kick.start"), ("", False, ""),
    ],
)  # fmt: skip
def test_a_place_is_what_people_call_the_node_where_it_stands(node, driving, place):
    assert plan.place(Picture(last_node_id=node, driving=driving)) == place

"""From a dispatch to orders: its segments, and the nodes, edges and actions of each. Pure, and the same after a restart.

A segment is what one order carries out: it ends where somebody has to wait or to charge. `base` and horizon go by stops,
so an update never changes a node that the robot has, and the number of an update says what it released.
"""

import re
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from telemetry.drivers.contract import Dispatch, Step
from telemetry.drivers.vda5050.ids import OrderId, parse
from telemetry.drivers.vda5050.outgoing import Action, At, Edge, Node, Order
from telemetry.drivers.vda5050.picture import Picture
from telemetry.drivers.vda5050.profile import Profile

_START = ".start"  # after an order's id: the node where it begins
_AGAIN = re.compile(r"#\d+\Z")  # after a node's id: it is there more than once
Kind = Literal["drive", "act", "charge", "wait"]


class Task(NamedTuple):
    """What a step comes to. `sequence`: of the node where it is done; `action`: the id of what is done there, or empty."""

    step: int
    attempt: int
    kind: Kind
    sequence: int
    action: str = ""


class Stop(NamedTuple):
    """A node of an order, and all that is done there."""

    id: str
    sequence: int
    at: At | None
    actions: tuple[Action, ...]


class Plan(NamedTuple):
    """One segment. `stops[0]` is where the robot stands when it begins."""

    order: OrderId
    stops: tuple[Stop, ...]
    tasks: tuple[Task, ...]
    ahead: int

    @property
    def last(self) -> int:
        """Number of its last step."""
        return self.tasks[-1].step

    @property
    def updates(self) -> int:
        """The update that releases the last stop."""
        return max(0, len(self.stops) - 1 - self.ahead)

    def released(self, update: int) -> int:
        """How many stops are released by then."""
        return min(len(self.stops), 1 + self.ahead + update)


class Start(NamedTuple):
    """Where the robot is, as the first node needs it."""

    at: At | None
    node: str = ""  # the one that it passed last; for robots that do not know where they are


def start(picture: Picture, profile: Profile) -> Start | None:
    """None: it says in no way where it is."""
    here = picture.position
    if here is not None and here.initialised:
        return Start(
            At(x=here.x, y=here.y, theta=here.theta, map_id=profile.map_id or here.map,
               deviation_xy=max(0.5, profile.deviation_xy_m), deviation_theta=profile.deviation_theta_rad)
        )  # fmt: skip
    return Start(None, picture.last_node_id) if picture.last_node_id else None


def segment(dispatch: Dispatch, order: OrderId, profile: Profile, start: Start | None = None) -> Plan | None:
    """The plan of an order. `start` matters for what is sent, not for what is read. None: it has no such step."""
    if not 1 <= order.first <= len(dispatch.steps):
        return None
    map_id = profile.map_id or (start.at.map_id if start is not None and start.at is not None else "")
    first = _first_node(order, start)
    stops, tasks, here = [first], [], ""
    used: set[str] = set()  # without the first node: ids are the same wherever the robot is when an update is made
    for step in dispatch.steps[order.first - 1 : _end(dispatch, order.first, profile)]:
        place = step.place
        if place is not None and (step.command == "navigate" or place.name != here):
            sequence = stops[-1].sequence + 2
            node = place.node or place.name
            if profile.unique_node_ids and node in used:
                node = f"{node}#{sequence}"  # as _AGAIN
            used.add(node)
            at = At(x=place.x, y=place.y, theta=place.theta, map_id=map_id)
            stops.append(Stop(node, sequence, at, ()))
            here = place.name
        action = _action(order.action(step.number), step, profile)
        if action is not None:
            stops[-1] = stops[-1]._replace(actions=(*stops[-1].actions, action))
        tasks.append(
            Task(step.number, order.attempt_of(step.number), _kind(step, profile), stops[-1].sequence,
                 action.id if action is not None else "")
        )  # fmt: skip
    return Plan(order, tuple(stops), tuple(tasks), profile.base_steps)


def base(plan: Plan, picture: Picture) -> int:
    """Index of the last stop that the robot may drive to: by what it says of its nodes, else by the number of its update.

    How much is released ahead may have been set otherwise since its order was sent.
    """
    held = [node.sequence for node in picture.node_states if not node.released and node.sequence is not None]
    first = next((n for n, stop in enumerate(plan.stops) if held and stop.sequence >= min(held)), 0)
    return first - 1 if first else plan.released(picture.order_update_id) - 1


def is_released(plan: Plan, picture: Picture) -> bool:
    """By its own words it may drive to the end."""
    return all(node.released for node in picture.node_states) and any(
        node.sequence == plan.stops[-1].sequence for node in picture.node_states
    )


def order(plan: Plan, update: int, after: int | None = None) -> Order:
    """What is sent: of an update only what follows the last released node of the one before, which comes first, unchanged.

    `after`: index of that node, where the robot says which it is.
    """
    after = plan.released(update - 1) - 1 if after is None else after
    begin = after if update else 0
    released = max(plan.released(update), begin + 2 if update else 0)
    stops = plan.stops[begin:]
    nodes = tuple(
        Node(id=stop.id, sequence=stop.sequence, released=number < released, at=stop.at, actions=stop.actions)
        for number, stop in enumerate(stops, begin)
    )
    edges = tuple(
        Edge(id=f"e{end.sequence - 1}", sequence=end.sequence - 1, start=at.id, end=end.id, released=end.released)
        for at, end in pairwise(nodes)
    )
    return Order(id=plan.order.text, update=update, nodes=nodes, edges=edges)


def place(picture: Picture) -> str:
    """What people call the node where it stands; empty on its way, and where an order merely began."""
    node = picture.last_node_id
    if picture.driving or (node.endswith(_START) and parse(node.removesuffix(_START)) is not None):
        return ""
    return _AGAIN.sub("", node)


def waits(step: Step, profile: Profile) -> bool:
    """We wait ourselves, by holding back what comes next."""
    return step.command == "wait" and not profile.wait


def waited(step: Step, now: datetime) -> bool:
    """Its time is over, by the clock of the site."""
    seconds = step.params.get("seconds", 0)
    return step.started_at is not None and now >= step.started_at + timedelta(seconds=seconds)


def next_first(dispatch: Dispatch) -> int:
    """Number of the step that an order for what is due now begins with."""
    return dispatch.current or 1


def _end(dispatch: Dispatch, first: int, profile: Profile) -> int:
    """Number of the last step of the segment that begins with this one."""
    held = False
    for step in dispatch.steps[first - 1 :]:
        if held and not waits(step, profile):
            return step.number - 1
        held = held or step.command == "charge" or waits(step, profile)
    return len(dispatch.steps)


def _first_node(order: OrderId, start: Start | None) -> Stop:
    if start is not None and start.at is None:
        return Stop(start.node, 0, None, ())
    return Stop(f"{order.text}{_START}", 0, start.at if start is not None else None, ())


def _kind(step: Step, profile: Profile) -> Kind:
    if step.command == "wait":
        return "act" if profile.wait else "wait"
    return {"navigate": "drive", "charge": "charge"}.get(step.command, "act")  # type: ignore[return-value]


def _action(action: str, step: Step, profile: Profile) -> Action | None:
    """What the robot is to do at the node; None where arriving there, or waiting, is all."""
    params = step.params
    told: dict[str, Any] = dict(profile.parameters.get(step.command, {}))  # type: ignore[call-overload]
    match step.command:
        case "pick" | "drop":
            name = profile.pick if step.command == "pick" else profile.drop
            if profile.station_parameter and step.place is not None:
                told.setdefault(profile.station_parameter, step.place.node or step.place.name)
            if profile.load_parameter and params.get("load"):
                told[profile.load_parameter] = params["load"]
        case "wait":
            name = profile.wait
            told[profile.duration_parameter] = params.get("seconds", 0)
        case "charge":
            name = profile.start_charging
        case "custom":
            name = str(params.get("name", ""))
            told |= params.get("args") or {}
        case _:
            return None
    return Action(id=action, type=name, parameters=told) if name else None

"""Writes what a robot is sent, strictly: every message passes the official schema of the robot's version.

Versions differ: the schema of 2.0.0 calls the type of an instant action `actionName` (the text of the standard, and every
robot, `actionType`: it gets both) and writes `allowedDeviationXy` (as robots do: both), and knows no objects as values.
"""

import math
from collections.abc import Iterable
from datetime import UTC
from typing import Any, NamedTuple

import msgspec

from telemetry.drivers.vda5050.outgoing import Action, At, Edge, Header, Node, Order
from telemetry.drivers.vda5050.profile import Profile

_encode = msgspec.json.Encoder().encode


def topic(profile: Profile, address: str, part: str) -> str:
    """`address`: manufacturer/serial. `part`: order, instantActions, state, connection, visualization, factsheet."""
    return f"{profile.interface}/{profile.major}/{address}/{part}"


class _Hand(NamedTuple):
    """How one robot is written to. `is_old`: it keeps to 1.x or 2.0. `as_text`: it takes values of parameters only as text."""

    is_old: bool
    as_text: bool

    def node(self, node: Node) -> dict[str, Any]:
        written: dict[str, Any] = {"nodeId": node.id, "sequenceId": node.sequence, "released": node.released}
        if node.description:
            written["nodeDescription"] = node.description
        if node.at is not None:
            written["nodePosition"] = self._position(node.at)
        return written | {"actions": [self.action(action) for action in node.actions]}

    def _position(self, at: At) -> dict[str, Any]:
        written: dict[str, Any] = {"x": at.x, "y": at.y, "mapId": at.map_id}
        if at.theta is not None:
            written["theta"] = math.remainder(at.theta, math.tau)
        if at.deviation_xy is not None:
            written["allowedDeviationXY"] = at.deviation_xy
            if self.is_old:
                written["allowedDeviationXy"] = at.deviation_xy
        if at.deviation_theta is not None:
            written["allowedDeviationTheta"] = at.deviation_theta
        return written

    def edge(self, edge: Edge) -> dict[str, Any]:
        return {
            "edgeId": edge.id, "sequenceId": edge.sequence, "released": edge.released,
            "startNodeId": edge.start, "endNodeId": edge.end,
            "actions": [self.action(action) for action in edge.actions],
        }  # fmt: skip

    def action(self, action: Action) -> dict[str, Any]:
        written: dict[str, Any] = {"actionType": action.type, "actionId": action.id, "blockingType": action.blocking}
        if action.description:
            written["actionDescription"] = action.description
        values = ((key, self._value(value)) for key, value in action.parameters.items() if value is not None)
        return written | {"actionParameters": [{"key": key, "value": value} for key, value in values]}

    def _value(self, value: Any) -> Any:
        if isinstance(value, str) or not (self.as_text or (self.is_old and isinstance(value, dict))):
            return value
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 2, not 2.0: such robots take whole numbers only as such
        return _encode(value).decode()


def order(header: Header, order: Order, profile: Profile) -> bytes:
    hand = _hand(header, profile)
    return _encode({
        **_header(header),
        "orderId": order.id,
        "orderUpdateId": order.update,
        "nodes": [hand.node(node) for node in order.nodes],
        "edges": [hand.edge(edge) for edge in order.edges],
    })  # fmt: skip


def instant_actions(header: Header, actions: Iterable[Action], profile: Profile) -> bytes:
    hand = _hand(header, profile)
    written = [hand.action(action) for action in actions]
    if hand.is_old:
        written = [{"actionName": one["actionType"], **one} for one in written]
    keys = [key for key in ("actions", "instantActions") if profile.instant_key in ("both", key)]
    if not hand.is_old and "actions" not in keys:
        keys.append("actions")  # from 2.1 the schema asks for it, whatever else a robot wants
    return _encode(_header(header) | dict.fromkeys(keys, written))


def _hand(header: Header, profile: Profile) -> _Hand:
    major, minor, *_ = header.version.split(".")
    return _Hand((int(major), int(minor)) < (2, 1), profile.parameter_values == "strings")


def _header(header: Header) -> dict[str, Any]:
    manufacturer, _, serial = header.address.partition("/")
    at = header.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "headerId": header.header_id, "timestamp": at, "version": header.version,
        "manufacturer": manufacturer, "serialNumber": serial,
    }  # fmt: skip

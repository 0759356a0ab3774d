"""Writes what a robot is sent, strictly: every message passes the official schema of the robot's version.

Versions differ: the schema of 2.0.0 calls the type of an instant action `actionName` (the text of the standard, and every
robot, `actionType`: it gets both) and writes `allowedDeviationXy` (as robots do: both), and knows no objects as values.
"""

import math
from collections.abc import Iterable
from datetime import UTC
from typing import Any

import msgspec

from telemetry.drivers.vda5050.messages import Action, At, Edge, Header, Node, Order
from telemetry.drivers.vda5050.profile import Profile

_encode = msgspec.json.Encoder().encode


def topic(profile: Profile, address: str, part: str) -> str:
    """`address`: manufacturer/serial. `part`: order, instantActions, state, connection, visualization, factsheet."""
    return f"{profile.interface}/{profile.major}/{address}/{part}"


def order(header: Header, order: Order, profile: Profile) -> bytes:
    old = _old(header.version)
    return _encode({
        **_header(header),
        "orderId": order.id,
        "orderUpdateId": order.update,
        "nodes": [_node(node, profile, old) for node in order.nodes],
        "edges": [_edge(edge, profile, old) for edge in order.edges],
    })  # fmt: skip


def instant_actions(header: Header, actions: Iterable[Action], profile: Profile) -> bytes:
    old = _old(header.version)
    written = [_action(action, profile, old) for action in actions]
    if old:
        written = [{"actionName": one["actionType"], **one} for one in written]
    keys = [key for key in ("actions", "instantActions") if profile.instant_key in ("both", key)]
    if not old and "actions" not in keys:
        keys.append("actions")  # from 2.1 the schema asks for it, whatever else a robot wants
    return _encode(_header(header) | dict.fromkeys(keys, written))


def _old(version: str) -> bool:
    """1.x and 2.0."""
    major, minor, *_ = version.split(".")
    return (int(major), int(minor)) < (2, 1)


def _header(header: Header) -> dict[str, Any]:
    manufacturer, _, serial = header.address.partition("/")
    at = header.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "headerId": header.header_id, "timestamp": at, "version": header.version,
        "manufacturer": manufacturer, "serialNumber": serial,
    }  # fmt: skip


def _node(node: Node, profile: Profile, old: bool) -> dict[str, Any]:
    written: dict[str, Any] = {"nodeId": node.id, "sequenceId": node.sequence, "released": node.released}
    if node.description:
        written["nodeDescription"] = node.description
    if node.at is not None:
        written["nodePosition"] = _position(node.at, old)
    return written | {"actions": [_action(action, profile, old) for action in node.actions]}


def _position(at: At, old: bool) -> dict[str, Any]:
    written: dict[str, Any] = {"x": at.x, "y": at.y, "mapId": at.map_id}
    if at.theta is not None:
        written["theta"] = math.remainder(at.theta, math.tau)
    if at.deviation_xy is not None:
        written["allowedDeviationXY"] = at.deviation_xy
        if old:
            written["allowedDeviationXy"] = at.deviation_xy
    if at.deviation_theta is not None:
        written["allowedDeviationTheta"] = at.deviation_theta
    return written


def _edge(edge: Edge, profile: Profile, old: bool) -> dict[str, Any]:
    return {
        "edgeId": edge.id, "sequenceId": edge.sequence, "released": edge.released,
        "startNodeId": edge.start, "endNodeId": edge.end,
        "actions": [_action(action, profile, old) for action in edge.actions],
    }  # fmt: skip


def _action(action: Action, profile: Profile, old: bool) -> dict[str, Any]:
    written: dict[str, Any] = {"actionType": action.type, "actionId": action.id, "blockingType": action.blocking}
    if action.description:
        written["actionDescription"] = action.description
    values = ((key, _value(value, profile, old)) for key, value in action.parameters.items() if value is not None)
    return written | {"actionParameters": [{"key": key, "value": value} for key, value in values]}


def _value(value: Any, profile: Profile, old: bool) -> Any:
    as_text = profile.parameter_values == "strings" or (old and isinstance(value, dict))
    if isinstance(value, str) or not as_text:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 2, not 2.0: such robots take whole numbers only as such
    return _encode(value).decode()

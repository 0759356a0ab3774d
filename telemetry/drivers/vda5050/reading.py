"""Reads what a robot sends, liberally: a wrong field costs that field, and nothing raises.

Each function answers with what was read, or with a `Complaint` when nothing of it can be used.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET

from telemetry.drivers.contract import Complaint
from telemetry.drivers.vda5050 import liberal, typed
from telemetry.drivers.vda5050.picture import (
    ActionState,
    Battery,
    Connection,
    Element,
    Factsheet,
    Issue,
    Load,
    OwnAction,
    Picture,
    Position,
    Velocity,
    Visualization,
)

T = TypeVar("T")

MAX_BYTES = 256 * 1024
CONNECTIONS: dict[str, Literal["online", "offline", "broken"]] = {
    "ONLINE": "online", "OFFLINE": "offline", "CONNECTIONBROKEN": "broken",
    "CONNECTION_BROKEN": "broken", "HIBERNATING": "offline",
}  # fmt: skip
_LONGEST_ID = 500  # characters; of orders, which are remembered for as long as robots name them. Ours have 65
_NO_BATTERY = Battery()
_NOT_TYPED = (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError, ValueError)


def state(payload: bytes, max_bytes: int = MAX_BYTES) -> Picture | Complaint:
    wrong: list[Complaint] = []
    told = _read(payload, max_bytes, typed.state, liberal.state, wrong)
    if isinstance(told, Complaint):
        return told
    if told.order_id is UNSET and told.node_states is UNSET and told.driving is UNSET:
        return Complaint(field="payload", reason="it says nothing that a state says")
    if told.node_states is UNSET and told.order_id:
        wrong.append(Complaint(field="nodeStates", reason="it has an order and does not say what is left of it"))
    battery, safety = told.battery_state, told.safety_state
    return Picture(
        header_id=told.header_id,
        at=_aware(told.timestamp),
        version=_version(told.version),
        order_id=(told.order_id or "")[:_LONGEST_ID],
        order_update_id=told.order_update_id or 0,
        last_node_id=told.last_node_id or "",
        last_node_sequence=told.last_node_sequence_id,
        node_states=_elements(told.node_states or ()),
        edge_states=_elements(told.edge_states or ()),
        actions=_actions(told.action_states, wrong) if told.action_states else {},
        driving=told.driving is True,
        paused=told.paused is True,
        new_base_request=told.new_base_request is True,
        operating_mode=(told.operating_mode or "").upper(),
        e_stop=((safety and safety.e_stop) or "").upper(),
        field_violation=safety is not None and safety.field_violation is True,
        errors=tuple([_issue(error) for error in told.errors]) if told.errors else (),
        battery=_NO_BATTERY
        if battery is None and told.battery_charge is None
        else Battery(told.battery_charge)
        if battery is None
        else Battery(battery.battery_charge, battery.charging is True),
        position=_position(told.agv_position),
        velocity=_velocity(told.velocity),
        loads=tuple([Load(load.load_id or "", load.load_type or "") for load in told.loads]) if told.loads else (),
        wrong=tuple(wrong),
    )


def connection(payload: bytes, max_bytes: int = MAX_BYTES) -> Connection | Complaint:
    told = _read(payload, max_bytes, typed.connection, liberal.connection, [])
    if isinstance(told, Complaint):
        return told
    found = CONNECTIONS.get((told.connection_state or "").upper())
    if found is None:
        return Complaint(field="connectionState", reason="it is none of ONLINE, OFFLINE, CONNECTIONBROKEN")
    return Connection(state=found, at=_aware(told.timestamp))


def visualization(payload: bytes, max_bytes: int = MAX_BYTES) -> Visualization | Complaint:
    wrong: list[Complaint] = []
    told = _read(payload, max_bytes, typed.visualization, liberal.visualization, wrong)
    if isinstance(told, Complaint):
        return told
    return Visualization(
        at=_aware(told.timestamp),
        position=_position(told.agv_position),
        velocity=_velocity(told.velocity),
        wrong=tuple(wrong),
    )


def factsheet(payload: bytes, max_bytes: int = MAX_BYTES) -> Factsheet | Complaint:
    """Comes seldom, so it is read field by field at once."""
    if len(payload) > max_bytes:
        return _too_long(payload, max_bytes)
    raw = liberal.parse(payload)
    if isinstance(raw, Complaint):
        return raw
    wrong: list[Complaint] = []
    f = liberal.Fields(raw, wrong)
    features = f.section("protocolFeatures", lambda part: part.table("agvActions", _own_action))
    return Factsheet(
        actions=None if features is None else tuple(action for action in features if action.type),
        wrong=tuple(wrong),
    )


def _read(
    payload: bytes,
    max_bytes: int,
    fast: Callable[[bytes], T],
    slow: Callable[[dict[str, Any], list[Complaint]], T],
    wrong: list[Complaint],
) -> T | Complaint:
    if len(payload) > max_bytes:
        return _too_long(payload, max_bytes)
    if b"\\u0000" not in payload:
        try:
            return fast(payload)
        except _NOT_TYPED:
            pass
    raw = liberal.parse(payload)
    return raw if isinstance(raw, Complaint) else slow(raw, wrong)


def _too_long(payload: bytes, max_bytes: int) -> Complaint:
    return Complaint(field="payload", reason=f"{len(payload)} bytes; at most {max_bytes} are read")


def _aware(at: datetime | None) -> datetime | None:
    """A time without a zone is UTC, as the standard says that it is."""
    if at is None or at.tzinfo is UTC:
        return at
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        return None


def _version(text: str | None) -> str:
    return (text or "").lstrip("vV ")[:32]


def _elements(told: "list[typed.Node] | list[typed.Edge] | tuple[()]") -> tuple[Element, ...]:
    return tuple([Element(one.id or "", one.sequence, one.released is not False) for one in told])


def _actions(told: list[typed.Action], wrong: list[Complaint]) -> dict[str, ActionState]:
    found = {one.id: ActionState(one.type or "", (one.status or "").upper(), one.result or "") for one in told}
    if None in found or "" in found:
        found.pop(None, None)
        found.pop("", None)
        if all(one.field != "actionStates.actionId" for one in wrong):
            wrong.append(Complaint(field="actionStates.actionId", reason="an action has none"))
    return found  # type: ignore[return-value]


def _issue(error: typed.Error) -> Issue:
    references = tuple([(one.key or "", one.value or "") for one in error.references]) if error.references else ()
    return Issue(error.type or "", (error.level or "").upper(), error.description or "", references)


def _position(told: typed.Position | None) -> Position | None:
    if told is None or told.x is None or told.y is None:
        return None
    return Position(told.x, told.y, told.theta or 0.0, told.map_id or "", told.position_initialized is not False)


def _velocity(told: typed.Velocity | None) -> Velocity | None:
    return None if told is None else Velocity(told.vx or 0.0, told.vy or 0.0, told.omega or 0.0)


def _own_action(f: liberal.Fields) -> OwnAction:
    return OwnAction(f.text("actionType") or "", frozenset(map(str.upper, f.texts("actionScopes"))))

"""The forms that most robots keep to, so that their messages are read at the speed of a typed decoder.

Every field may be null or missing. What does not fit at all goes through `liberal`, field by field.
"""

from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

T = TypeVar("T")

MOST = 5000  # entries of one list; the longest states that were seen have a third of it
Table = Annotated[list[T], Meta(max_length=MOST)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # larger ones cannot even be written out


class Node(Struct):
    id: str | None = field(default=None, name="nodeId")
    sequence: Whole | None = field(default=None, name="sequenceId")
    released: bool | None = None


class Edge(Struct):
    id: str | None = field(default=None, name="edgeId")
    sequence: Whole | None = field(default=None, name="sequenceId")
    released: bool | None = None


class Action(Struct):
    id: str | None = field(default=None, name="actionId")
    type: str | None = field(default=None, name="actionType")
    status: str | None = field(default=None, name="actionStatus")
    result: str | None = field(default=None, name="resultDescription")


class Reference(Struct):
    key: str | None = field(default=None, name="referenceKey")
    value: str | None = field(default=None, name="referenceValue")


class Error(Struct):
    type: str | None = field(default=None, name="errorType")
    level: str | None = field(default=None, name="errorLevel")
    description: str | None = field(default=None, name="errorDescription")
    references: Table[Reference] | None = field(default=None, name="errorReferences")


class Safety(Struct, rename="camel"):
    e_stop: str | None = None
    field_violation: bool | None = None


class Battery(Struct, rename="camel"):
    battery_charge: float | None = None
    charging: bool | None = None


class Position(Struct, rename="camel"):
    x: float | None = None
    y: float | None = None
    theta: float | None = None
    map_id: str | None = None
    position_initialized: bool | None = None


class Velocity(Struct):
    vx: float | None = None
    vy: float | None = None
    omega: float | None = None


class Load(Struct, rename="camel"):
    load_id: str | None = None
    load_type: str | None = None


class Header(Struct, rename="camel"):
    header_id: Whole | None = None
    timestamp: datetime | None = None
    version: str | None = None


class State(Header, rename="camel"):
    """`battery_charge` at the top is one robot's own way."""

    order_id: str | UnsetType | None = UNSET
    order_update_id: Whole | None = None
    last_node_id: str | None = None
    last_node_sequence_id: Whole | None = None
    node_states: Table[Node] | UnsetType | None = UNSET
    edge_states: Table[Edge] | None = None
    action_states: Table[Action] | None = None
    driving: bool | UnsetType | None = UNSET
    paused: bool | None = None
    new_base_request: bool | None = None
    operating_mode: str | None = None
    safety_state: Safety | None = None
    errors: Table[Error] | None = None
    battery_state: Battery | None = None
    battery_charge: float | None = None
    agv_position: Position | None = None
    velocity: Velocity | None = None
    loads: Table[Load] | None = None


class Visualization(Header, rename="camel"):
    agv_position: Position | None = None
    velocity: Velocity | None = None


class Connection(Header, rename="camel"):
    connection_state: str | None = None


state = msgspec.json.Decoder(State).decode
visualization = msgspec.json.Decoder(Visualization).decode
connection = msgspec.json.Decoder(Connection).decode

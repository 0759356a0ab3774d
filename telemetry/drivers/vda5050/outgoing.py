"""What a robot is sent, in one normal form: an order with its nodes, edges and actions, and instant actions. See writing.py."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

Blocking = Literal["NONE", "SOFT", "HARD"]


class Header(Struct, frozen=True, kw_only=True):
    """`header_id`: counted per robot and topic by whoever sends; `version`: see `meaning.version`."""

    header_id: int
    at: datetime
    version: str
    address: str  # manufacturer/serial


class Action(Struct, frozen=True, kw_only=True):
    """`parameters` with None as value are left out."""

    id: str
    type: str
    blocking: Blocking = "HARD"
    parameters: dict[str, Any] = field(default_factory=dict)
    description: str = ""


class At(Struct, frozen=True, kw_only=True):
    """Where a node is. Metres, radians. None: the robot's own tolerance, any direction."""

    x: float
    y: float
    theta: float | None = None
    map_id: str = ""
    deviation_xy: float | None = None
    deviation_theta: float | None = None


class Node(Struct, frozen=True, kw_only=True):
    id: str
    sequence: int  # even
    released: bool = True
    at: At | None = None
    actions: tuple[Action, ...] = ()
    description: str = ""


class Edge(Struct, frozen=True, kw_only=True):
    id: str
    sequence: int  # odd
    start: str
    end: str
    released: bool = True
    actions: tuple[Action, ...] = ()


class Order(Struct, frozen=True, kw_only=True):
    """Nodes one more than edges, in the order of their sequence."""

    id: str
    update: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()

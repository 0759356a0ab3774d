"""What a robot said, in one normal form: a state as `Picture`, and its three other topics.

None: it did not say. `wrong`: fields that it filled in so that they could not be read; all else holds.
"""

from datetime import datetime
from typing import Literal, NamedTuple

from msgspec import Struct, field

from telemetry.drivers.contract import Complaint


class Element(NamedTuple):
    """A node or an edge that is not done. `sequence` None: it did not say."""

    id: str
    sequence: int | None = None
    released: bool = True


class ActionState(NamedTuple):
    """`status`: WAITING, INITIALIZING, RUNNING, PAUSED, FINISHED, FAILED (3.0: RETRIABLE), or a robot's own, upper case."""

    type: str = ""
    status: str = ""
    result: str = ""

    @property
    def ended(self) -> bool:
        return self.status in ("FINISHED", "FAILED")


class Issue(NamedTuple):
    """An error. `level`: WARNING, FATAL, or a robot's own. `references`: (key, value) as they came, both as text."""

    type: str = ""
    level: str = ""
    description: str = ""
    references: tuple[tuple[str, str], ...] = ()

    def names(self, value: str) -> bool:
        """One of its references is this id."""
        return any(value == told for _, told in self.references)


class Position(NamedTuple):
    """Metres, radians. `initialised` False: the robot does not know where it is, so the rest is worth nothing."""

    x: float
    y: float
    theta: float = 0.0
    map: str = ""
    initialised: bool = True


class Velocity(NamedTuple):
    vx: float = 0.0
    vy: float = 0.0
    omega: float = 0.0


class Battery(NamedTuple):
    """Per cent."""

    charge: float | None = None
    charging: bool = False


class Load(NamedTuple):
    id: str = ""
    type: str = ""


class Picture(Struct, frozen=True, kw_only=True):
    """One state. `at` is by the robot's clock. `version` without a leading v."""

    header_id: int | None = None
    at: datetime | None = None
    version: str = ""
    order_id: str = ""
    order_update_id: int = 0
    last_node_id: str = ""
    last_node_sequence: int | None = None
    node_states: tuple[Element, ...] = ()
    edge_states: tuple[Element, ...] = ()
    actions: dict[str, ActionState] = field(default_factory=dict)  # by id; instant actions too (2.x)
    driving: bool = False
    paused: bool = False
    new_base_request: bool = False
    operating_mode: str = ""  # AUTOMATIC, SEMIAUTOMATIC, MANUAL, SERVICE, TEACHIN, or a robot's own, upper case
    e_stop: str = ""  # NONE, AUTOACK, MANUAL, REMOTE, or a robot's own, upper case
    field_violation: bool = False
    errors: tuple[Issue, ...] = ()
    battery: Battery = Battery()
    position: Position | None = None
    velocity: Velocity | None = None
    loads: tuple[Load, ...] = ()
    wrong: tuple[Complaint, ...] = ()

    @property
    def e_stopped(self) -> bool:
        """Its emergency stop holds it."""
        return self.e_stop not in ("", "NONE")


class Connection(Struct, frozen=True, kw_only=True):
    """`broken` is the last will: its time is of when the link began."""

    state: Literal["online", "offline", "broken"]
    at: datetime | None = None


class Visualization(Struct, frozen=True, kw_only=True):
    at: datetime | None = None
    position: Position | None = None
    velocity: Velocity | None = None
    wrong: tuple[Complaint, ...] = ()


class OwnAction(NamedTuple):
    """An action that a robot offers. `scopes`: INSTANT, NODE, EDGE."""

    type: str
    scopes: frozenset[str] = frozenset()


class Factsheet(Struct, frozen=True, kw_only=True):
    """`actions` None: it does not say which it has."""

    actions: tuple[OwnAction, ...] | None = None
    wrong: tuple[Complaint, ...] = ()

"""What people may set for a brand of VDA 5050 robots: how it deviates from the standard, and what its actions are called.

`msgspec.convert(settings, Profile)` is the whole check; its error names the field. Every field has a default that suits
a robot which keeps to the standard. `bounds` of numbers and the form of names stand in the types.
"""

import math
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

Level = Annotated[str, Meta(pattern=r"\A[^/+#\x00-\x1f$][^/+#\x00-\x1f]{0,63}\Z")]  # one level of an MQTT topic
Major = Annotated[str, Meta(pattern=r"\Av[0-9]{1,3}\Z")]
Version = Annotated[str, Meta(pattern=r"\A([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})?\Z")]
Name = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f]{1,64}\Z")]
NameOrNone = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f]{0,64}\Z")]
Command = Literal["pick", "drop", "wait", "charge", "custom"]


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One brand's settings. Laid over it: what is set for one robot."""

    # topics and headers
    interface: Level = "uagv"
    major: Major = "v2"
    version: Version = ""  # of what we write; empty: as the robot's newest header says, 2.0.0 until it has said one
    instant_key: Literal["both", "actions", "instantActions"] = "both"  # where a robot looks for its instant actions

    # actions
    pick: Name = "pick"
    drop: Name = "drop"
    wait: NameOrNone = ""  # empty: we wait ourselves, by holding the next node back
    start_charging: Name = "startCharging"
    stop_charging: Name = "stopCharging"
    station_parameter: NameOrNone = "stationName"  # of pick and drop: the place; empty: not told
    load_parameter: NameOrNone = "loadId"  # of pick and drop: the load; empty: not told
    duration_parameter: Name = "duration"  # of wait: seconds
    parameters: dict[Command, dict[Name, Any]] = field(default_factory=dict)  # always told with these commands
    parameter_values: Literal["typed", "strings"] = "typed"  # how numbers and booleans are written

    # what it can and cannot do
    pause_supported: bool = True
    idle_cancel: bool = False  # may be sent cancelOrder while it has no order (one known robot kills its next order)
    capabilities_from_factsheet: bool = True

    # orders
    base_steps: Annotated[int, Meta(ge=1, le=1000)] = 2  # so many drives are released ahead
    unique_node_ids: bool = True  # node ids are made unique within an order; else they are the places' own
    deviation_xy_m: Annotated[float, Meta(ge=0.5, le=1000)] = 0.5  # of the first node, where the robot is
    deviation_theta_rad: Annotated[float, Meta(ge=0, le=math.pi)] = math.pi  # of the first node
    map_id: NameOrNone = ""  # empty: the map that the robot says it is on

    # bounds
    keepalive_s: Annotated[int, Meta(ge=1, le=3600)] = 30  # a robot that is well is never silent for longer
    max_payload_bytes: Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)] = 256 * 1024
    max_states_per_s: Annotated[float, Meta(ge=0.1, le=1000)] = 20

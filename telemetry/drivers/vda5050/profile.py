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
    interface: Annotated[Level, Meta(title="Interface name", description="First level of its topics.")] = "uagv"
    major: Annotated[Major, Meta(title="Major version in topics", description="Second level of its topics.")] = "v2"
    version: Annotated[
        Version,
        Meta(
            title="Version written",
            description="Of what is sent to it. Empty: as its newest message says, 2.0.0 until it has said one.",
        ),
    ] = ""
    instant_key: Annotated[
        Literal["both", "actions", "instantActions"],
        Meta(title="Key of instant actions", description="Where it looks for them. Both suits every robot we know."),
    ] = "both"

    # actions
    pick: Annotated[Name, Meta(title="Action for pick")] = "pick"
    drop: Annotated[Name, Meta(title="Action for drop")] = "drop"
    wait: Annotated[
        NameOrNone,
        Meta(title="Action for wait", description="Empty: Drover waits itself, by holding the next node back."),
    ] = ""
    start_charging: Annotated[Name, Meta(title="Action to start charging")] = "startCharging"
    stop_charging: Annotated[Name, Meta(title="Action to stop charging")] = "stopCharging"
    station_parameter: Annotated[
        NameOrNone,
        Meta(title="Parameter for the place", description="Of pick and drop. Empty: it is not told."),
    ] = "stationName"
    load_parameter: Annotated[
        NameOrNone,
        Meta(title="Parameter for the load", description="Of pick and drop. Empty: it is not told."),
    ] = "loadId"
    duration_parameter: Annotated[
        Name,
        Meta(title="Parameter for the seconds", description="Of its action for wait."),
    ] = "duration"
    parameters: Annotated[
        dict[Command, dict[Name, Any]],
        Meta(title="Parameters always told", description='With these commands, such as {"pick": {"height": 2}}.'),
    ] = field(default_factory=dict)
    parameter_values: Annotated[
        Literal["typed", "strings"],
        Meta(title="Values of parameters", description="Strings for robots that take numbers only as text."),
    ] = "typed"

    # what it can and cannot do
    pause_supported: Annotated[
        bool,
        Meta(title="Can pause", description="Otherwise it is never paused, and a stop cancels its order."),
    ] = True
    idle_cancel: Annotated[
        bool,
        Meta(
            title="cancelOrder without an order",
            description="May be sent to a robot that shows no order. One known robot then ends its next one.",
        ),
    ] = False
    capabilities_from_factsheet: Annotated[
        bool,
        Meta(title="Can do what its factsheet says", description="Otherwise what its brand is ticked for."),
    ] = True

    # orders
    base_steps: Annotated[int, Meta(ge=1, le=1000, title="Drives released ahead")] = 2
    unique_node_ids: Annotated[
        bool,
        Meta(title="Node ids of its order's own", description="Otherwise the places' own, as noted with each place."),
    ] = True
    deviation_xy_m: Annotated[
        float,
        Meta(
            ge=0.5,
            le=1000,
            title="First node, distance (m)",
            description="It takes an order if it is this near to where it begins.",
        ),
    ] = 0.5
    deviation_theta_rad: Annotated[
        float,
        Meta(ge=0, le=math.pi, title="First node, heading (rad)", description="And turned by no more than this."),
    ] = math.pi
    map_id: Annotated[NameOrNone, Meta(title="Map", description="Empty: the map that it says it is on.")] = ""

    # bounds
    keepalive_s: Annotated[
        int,
        Meta(
            ge=1,
            le=3600,
            title="Never silent for longer than (s)",
            description="When it is well. After this it is asked.",
        ),
    ] = 30
    max_payload_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=16 * 1024 * 1024,
            title="Largest message (bytes)",
            description="Larger ones are left out and counted.",
        ),
    ] = 256 * 1024
    max_states_per_s: Annotated[
        float,
        Meta(ge=0.1, le=1000, title="States read per second", description="Of more, the newest."),
    ] = 20

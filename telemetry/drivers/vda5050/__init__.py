"""The VDA 5050 driver (2.0 and 2.1 over MQTT): reads liberally what robots say, writes strictly what they are told.

What a robot says: `reading` (with `typed` and `liberal`) makes a `picture` of each state; `standing` and `meaning` say what that
is for the site, `receipts` what it has done of its dispatch. What it is told: `wishes` says what is due, `plan` makes orders of a
dispatch, `writing` puts them (`outgoing`) on the wire. All of these are pure.

The talk with one robot is a `conversation` of a few that keep something: `known` (its newest words), `mouth` (what is said until
it is stored), `errands` and `orders` (what is sent until it is answered), and `working`, `telling`, `cancels`, `stops`, `silence`,
`doubles`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct

from telemetry.drivers.contract import Spec, Timing
from telemetry.drivers.vda5050 import writing
from telemetry.drivers.vda5050.conversation import Vda5050Conversation
from telemetry.drivers.vda5050.profile import Profile

PARTS: tuple[tuple[str, Literal[0, 1]], ...] = (("state", 0), ("connection", 1), ("visualization", 0), ("factsheet", 0))


class VDA5050:
    """A `contract.Driver`. An address is manufacturer/serial."""

    contract: ClassVar[int] = 1
    name: ClassVar[str] = "vda5050"
    label: ClassVar[str] = "VDA 5050 (2.0 and 2.1, over MQTT)"
    address: ClassVar[str] = "Manufacturer/serial number, as they stand in its topics: KIT/0001."
    transport: ClassVar[Literal["mqtt", "socket"]] = "mqtt"
    profile: ClassVar[type[Struct]] = Profile
    timing: ClassVar[Timing] = Timing(suspect_after_s=35, offline_after_s=65)
    strict_sequence: ClassVar[bool] = False
    newest: ClassVar[frozenset[str]] = frozenset(part for part, _ in PARTS)

    def topics(self, robot: Spec) -> Sequence[tuple[str, Literal[0, 1]]]:
        return [(writing.topic(robot.profile, robot.address, part), qos) for part, qos in PARTS]

    def commands(self, robot: Spec) -> Sequence[str]:
        return [writing.topic(robot.profile, robot.address, part) for part in ("order", "instantActions")]

    def discovery(self, profile: Any) -> Sequence[str]:
        return [f"{profile.interface}/{profile.major}/+/+/{part}" for part in ("connection", "state")]

    def whose(self, topic: str) -> tuple[str, str] | None:
        levels = topic.split("/")
        if len(levels) != 5 or levels[4] not in dict(PARTS) or levels[1][:1] != "v" or not all(levels):
            return None
        return f"{levels[2]}/{levels[3]}", levels[4]

    def converse(self, robot: Spec) -> Vda5050Conversation:
        return Vda5050Conversation(robot)


driver = VDA5050()

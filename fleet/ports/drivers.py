"""Port to the drivers there are: what lower apps may know of them. The telemetry app fills `source` at start-up."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """One setting of a driver. `kind`: text, whole, number, yes_no, choice, list (of texts), map (text to text), or json."""

    name: str
    label: str
    kind: str
    default: Any
    help: str = ""
    choices: tuple[str, ...] = ()
    optional: bool = False  # may be empty


class Driver(NamedTuple):
    """What people choose when they choose a driver.

    `address` says what an address is for it; without, its robots have none and show a credential. `timing`: columns of
    a brand where it begins. `wrong(profile)`: setting → what is wrong with it; the empty name stands for all of it.
    `wrong_address(id, address, profile)`: why that is no address, or nothing. `topics` of a robot: what it sends to.
    """

    name: str
    label: str
    transport: str = "socket"  # or mqtt
    address: str = ""
    strict_sequence: bool = False
    settings: tuple[Setting, ...] = ()
    timing: Mapping[str, int] = {}
    wrong: Callable[[dict[str, Any]], dict[str, str]] = lambda profile: {}
    wrong_address: Callable[[str, str, dict[str, Any]], str] = lambda id, address, profile: ""
    topics: Callable[[str, str, dict[str, Any]], list[str]] = lambda id, address, profile: []


source: Callable[[], Mapping[str, Driver]] = lambda: {}


def known() -> Mapping[str, Driver]:
    """All drivers of this site by their names, in the order in which people choose among them."""
    return source()


def named(name: str) -> Driver:
    """The driver of that name; one that is not installed (any more) is known by its name and nothing else."""
    return known().get(name) or Driver(name, name)

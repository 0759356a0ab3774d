"""Writes what a robot is sent, strictly: every message passes the official schema of the robot's version."""

from collections.abc import Iterable

from telemetry.drivers.vda5050.messages import Action, Header, Order
from telemetry.drivers.vda5050.profile import Profile


def topic(profile: Profile, address: str, part: str) -> str:
    """`address`: manufacturer/serial. `part`: order, instantActions, state, connection, visualization, factsheet."""
    return f"{profile.interface}/{profile.major}/{address}/{part}"


def order(header: Header, order: Order, profile: Profile) -> bytes:
    raise NotImplementedError


def instant_actions(header: Header, actions: Iterable[Action], profile: Profile) -> bytes:
    raise NotImplementedError

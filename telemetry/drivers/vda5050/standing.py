"""Whether a robot is at work on an order, by its state alone: also of robots that never empty their lists."""

from telemetry.drivers.vda5050 import meaning
from telemetry.drivers.vda5050.picture import Picture


def idle(picture: Picture) -> bool:
    """It stands and has nothing before it.

    Edges count beside nodes: a robot that just took an order may still name the last node of the one before.
    """
    if meaning.unreadable(picture) or (picture.node_states and picture.edge_states):
        return False
    return not meaning.busy(picture)


def stands(picture: Picture) -> bool:
    """It does not move, and will not by itself."""
    return not picture.driving and (picture.paused or idle(picture))


def automatic(picture: Picture) -> bool:
    """It takes orders, and keeps those that it has."""
    return picture.operating_mode in meaning.AUTOMATIC

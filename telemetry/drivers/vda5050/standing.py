"""Whether a robot is at work on an order, by its state alone: also of robots that never empty their lists. All pure."""

from telemetry.drivers.vda5050.picture import ActionState, Picture

AUTOMATIC = ("AUTOMATIC", "SEMIAUTOMATIC", "")  # some robots never say; then it is taken for automatic
ESSENTIAL = frozenset((
    "orderId", "nodeStates", "actionStates", "driving", "operatingMode", "safetyState", "safetyState.eStop", "errors",
))  # fmt: skip
INSTANT = frozenset((
    "cancelOrder", "startPause", "stopPause", "stateRequest", "factsheetRequest", "logReport", "initPosition",
    "enableMap", "downloadMap", "deleteMap", "stopCharging",
))  # fmt: skip


def unreadable(picture: Picture) -> str:
    """Name of a field on which mode, faults and receipts depend, and which could not be read; empty when there is none."""
    return next((one.field for one in picture.wrong if one.field in ESSENTIAL), "") if picture.wrong else ""


def idle(picture: Picture) -> bool:
    """It stands and has nothing before it.

    Edges count beside nodes: a robot that just took an order may still name the last node of the one before.
    """
    if unreadable(picture) or (picture.node_states and picture.edge_states):
        return False
    return not busy(picture)


def stands(picture: Picture) -> bool:
    """It does not move, and will not by itself."""
    return not picture.driving and (picture.paused or idle(picture))


def automatic(picture: Picture) -> bool:
    """It takes orders, and keeps those that it has."""
    return picture.operating_mode in AUTOMATIC


def busy(picture: Picture) -> bool:
    """It drives, has nodes before it, or an action that has not ended."""
    return (
        picture.driving
        or any(_open(action) for action in picture.actions.values())
        or bool(picture.node_states and ahead(picture))
    )


def ahead(picture: Picture) -> int:
    """How many nodes of its order are before it.

    By the standard all that nodeStates holds. Some robots leave reached nodes there: those up to the node that the robot
    names as its last one do not count. The last node of an earlier order counts for nothing.
    """
    reached = None
    for node in picture.node_states:
        told = picture.last_node_sequence
        if node.id == picture.last_node_id and (told is None or told == node.sequence) and node.sequence is not None:
            reached = node.sequence
    if reached is None:
        return len(picture.node_states)
    return sum(node.sequence is None or node.sequence > reached for node in picture.node_states)


def _open(action: ActionState) -> bool:
    """It keeps the robot from a new order. An instant action does so only while it runs: some robots leave them waiting."""
    if action.ended:
        return False
    return action.status != "WAITING" or action.type not in INSTANT

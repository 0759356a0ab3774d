"""Port to what outer apps keep about the message that an event came of. They fill `sources` at start-up."""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID


class Evidence(NamedTuple):
    """One record of a message. `facts` are names and values as text; `body` is the message as received, if it is kept."""

    title: str
    facts: tuple[tuple[str, str], ...]
    body: str = ""


sources: list[Callable[[str, UUID], list[Evidence]]] = []


def of_message(robot_id: str, cause: str) -> list[Evidence]:
    """What is known of the message `message:<msg_id>`; nothing for other causes."""
    kind, _, text = cause.partition(":")
    try:
        msg_id = UUID(text)
    except ValueError:
        return []
    return [evidence for source in sources for evidence in source(robot_id, msg_id)] if kind == "message" else []

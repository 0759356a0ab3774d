"""What the driver reads off each message recorded from a foreign robot is what the tables say that it means."""

from pathlib import Path
from uuid import UUID

import pytest

from telemetry.drivers.contract import Dispatch, Step, Wanted
from telemetry.drivers.vda5050 import meaning, reading, standing, wishes
from telemetry.drivers.vda5050.picture import Picture
from telemetry.drivers.vda5050.profile import Profile
from telemetry.drivers.vda5050.standing import idle
from telemetry.drivers.vda5050.wishes import Give, StopCharging
from tests.telemetry.vda5050 import recorded

DRIVE = Step(number=1, command="navigate", params={})
MISSION = Dispatch(mission=UUID(int=1), dispatch_no=1, steps=(DRIVE,))
TABLES = sorted((Path(__file__).parent / "meanings").glob("*.txt"))


def table(path):
    """Line → its cells; a single cell for what is no state."""
    rows, above = {}, []
    for text in path.read_text().splitlines():
        if text.startswith(("#", "line")):
            continue
        line, *cells = (cell.strip() for cell in text.split("|"))
        if len(cells) > 1:
            cells = [above[n] if cell == '"' else cell for n, cell in enumerate(cells)]
            above = cells
        rows[int(line)] = cells
    return rows


def number(value):
    return f"{round(value, 2) + 0:g}"  # + 0: no -0


def facts(told):
    told = {name: number(value) for name, value in told.items()}
    words = [told[name] for name in ("x", "y", "theta") if name in told]
    words += ["v" + told["speed"]] if "speed" in told else []
    words += [told["battery"] + "%"] if "battery" in told else []
    return " ".join(words)


def takes(picture: Picture):
    """What the driver would do if it had a mission to give."""
    wish = wishes.wish(Wanted(dispatch=MISSION), picture, None, rests=idle(picture))
    return {Give: "yes", StopCharging: "unplugged", type(None): "no"}[type(wish)]


def state(picture: Picture, orders, instant):
    at = picture.last_node_id
    if at and picture.last_node_sequence is not None:
        at += f"@{picture.last_node_sequence}"
    ahead = picture.node_states[len(picture.node_states) - standing.ahead(picture) :]
    refused = [f"{order}/{update}" for order, update in orders if meaning.rejected(picture, order, update)]
    return [
        f"{picture.order_id}/{picture.order_update_id}" if picture.order_id else "",
        at,
        " ".join(("" if node.released else "~") + node.id for node in ahead),
        ", ".join(f"{name} {action.status}" for name, action in picture.actions.items()),
        meaning.mode(picture),
        takes(picture),
        ", ".join([f"!{f.code}" for f in meaning.faults(picture)] + [w.code for w in meaning.warnings(picture)]),
        ", ".join(refused + [name for name in instant if meaning.refused_action(picture, name)]),
        facts(meaning.telemetry(picture.position, picture.velocity, picture.battery)),
    ]


def connection(read):
    at = read.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return [f"connection {read.state} {at}"]


def factsheet(read):
    offers = meaning.capabilities(read, Profile())
    return [f"factsheet {'says nothing' if offers is None else ' '.join(sorted(offers))}"]


def meanings(messages):
    orders, instant = [], []
    for message in messages:
        if message.part == "order" and isinstance(message.payload, dict):
            asked = message.payload["orderId"], message.payload["orderUpdateId"]
            orders += [asked] if asked not in orders else []
        elif message.part == "instantActions":
            instant += [action["actionId"] for action in message.payload["instantActions"]]
            instant = list(dict.fromkeys(instant))
        elif message.part == "state":
            yield message.line, state(reading.state(message.raw), orders, instant)
        elif message.part == "connection":
            yield message.line, connection(reading.connection(message.raw))
        elif message.part == "visualization":
            read = reading.visualization(message.raw)
            yield message.line, [f"visualization {facts(meaning.telemetry(read.position, read.velocity))}"]
        elif message.part == "factsheet":
            yield message.line, factsheet(reading.factsheet(message.raw))


def test_there_is_a_table_for_each_recorded_file():
    assert {path.stem for path in TABLES} == {path.stem for path in recorded.folder("samples").glob("*.jsonl")}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_each_message_is_read_as_what_it_means(path):
    read = dict(meanings(recorded.messages(f"{path.stem}.jsonl")))
    expected = table(path)
    assert list(read) == list(expected)
    wrong = {line: (cells, expected[line]) for line, cells in read.items() if cells != expected[line]}
    assert wrong == {}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_nothing_of_it_is_complained_of(path):
    """Bad habits are no bad input: null, no Z, v2.0.0, what is missing."""
    robot = ("state", "connection", "visualization", "factsheet")
    for message in recorded.messages(f"{path.stem}.jsonl"):
        if message.part in robot:
            read = getattr(reading, message.part)(message.raw)
            assert getattr(read, "wrong", ()) == ()

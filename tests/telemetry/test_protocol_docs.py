"""docs/protocol.md says what is so: its examples are valid, its conversation really takes place."""

import json
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from fleet.history import Origin
from fleet.robots import credentials, stopping
from missions import actions as mission_actions
from missions import drawing_up
from missions.models import DeadLetter, Mission
from telemetry import protocol
from telemetry.gateways import limits, link, links
from telemetry.gateways.http import bodies, requests
from telemetry.gateways.links import Links
from telemetry.one_connection import OneConnection
from tests.actors import SYSTEM
from tests.telemetry.robots_talk import work
from tests.telemetry.wire import Wire

PAGE = (Path(settings.BASE_DIR) / "docs" / "protocol.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [json.loads(text) for language, text in BLOCKS if language == "json"]
CONVERSATION = next(text for language, text in BLOCKS if language == "conversation").splitlines()
COLUMNS = [re.findall(r"`([a-z_.0-9]+)`", line.split("|")[1]) for line in PAGE.splitlines() if line.startswith("|")]
NAMED = {name for column in COLUMNS for name in column}


def test_every_example_is_a_frame_of_this_protocol():
    assert len(EXAMPLES) >= 4
    for frame in EXAMPLES:
        if frame["type"] == "ack":
            assert frame["verdict"] in NAMED
        else:
            protocol.decode_frame(json.dumps(frame))


def test_every_type_command_and_field_is_described():
    assert {*protocol.TYPES, *protocol.COMMANDS} <= NAMED
    for type, row in protocol.TYPES.items():
        line = next(x for x in PAGE.splitlines() if x.startswith("|") and f"`{type}`" in x.split("|")[1])
        assert row.channel in line
        if type != "robot.state":
            assert all(f"`{name}`" in line for name in row.data.__struct_fields__), type
    assert all(f"`{name}`" in PAGE for name in protocol.State.__struct_fields__)
    assert {name for name in protocol.Up.__struct_fields__ if name != "data"} <= NAMED | {"type"}


def test_codes_and_limits_are_as_in_the_code():
    codes = {int(n) for n in re.findall(r"^\| (4\d\d\d) \|", PAGE, re.MULTILINE)}
    assert codes == {protocol.COME_BACK, protocol.NO_HELLO, protocol.UNAUTHORISED, protocol.REPLACED}
    assert f"{protocol.MAX_BYTES:,} bytes" in PAGE
    assert f"every {protocol.HEARTBEAT_S} s" in PAGE
    assert ", ".join(str(s) for s in link.RETRY_S) + " s" in PAGE
    assert f"more than {limits.LOSSY_PER_S:.0f} lossy messages a second ({limits.LOSSY_BURST:.0f} at once)" in PAGE
    assert f"at most {bodies.MAX_EVENTS}, {bodies.MAX_BODY:,} bytes" in PAGE
    assert f"`wait` seconds (0 to {requests.LONGEST_WAIT_S:.0f})" in PAGE
    assert f"within {bodies.BODY_S:.0f} s" in PAGE
    assert set(requests.ROUTES) <= set(re.findall(r"`(?:GET|POST) (/\S+)`", PAGE))


ANY_VALUE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT.*Z|00-[0-9a-f]{32}-.*|")


class Names:
    """Ids and times of the page, and those of the real conversation that take their place."""

    def __init__(self):
        self.real = {}

    def learn(self, written, real, path="$"):
        """Everything is as written, but for ids, times and traces, which are the same wherever they are the same."""
        if isinstance(written, dict):
            assert isinstance(real, dict) and written.keys() == real.keys(), (path, written, real)
            for key in written:
                self.learn(written[key], real[key], f"{path}.{key}")
        elif isinstance(written, list):
            assert len(written) == len(real), (path, written, real)
            for number, (w, r) in enumerate(zip(written, real, strict=True)):
                self.learn(w, r, f"{path}[{number}]")
        elif isinstance(written, str) and ANY_VALUE.fullmatch(written) and path != "$.data":
            assert isinstance(real, str) and ANY_VALUE.fullmatch(real), (path, written, real)
            if written and not written.startswith(("00-", "20")):
                assert self.real.setdefault(written, real) == real, (path, written, real)
        else:
            assert written == real, path

    def put_in(self, text):
        for written, real in self.real.items():
            text = text.replace(written, real)
        return text


@pytest.mark.django_db(transaction=True)
async def test_the_conversation_takes_place_as_written(robot, durable, worker, clock, monkeypatch):
    monkeypatch.setattr(links, "LOOK_S", 0.03)
    monkeypatch.setattr(link, "RETRY_S", (600,))
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live:
        live.flushdb()
    rows, names, stack = OneConnection("test"), Names(), AsyncExitStack()
    ana = Origin("user", actor_name="Ana")
    token = await rows.ask(lambda: credentials.issue_credential("RB-001", by=SYSTEM))
    await rows.ask(lambda: work(worker, clock))  # the site is up before the robot comes
    wire = await stack.enter_async_context(Wire(token))

    async def ask(*actions):
        for action in actions:
            await rows.ask(action)

    def apply():
        clock.now = timezone.now()
        work(worker, clock)

    def dispatch():
        steps = [
            {"command": "navigate", "params": {"place": "Dock A"}},
            {"command": "pick", "params": {"place": "Dock A", "load": "pallet 7"}},
        ]
        made = drawing_up.draft_mission(title="Fetch pallet 7", site=robot.site, robot=robot, steps=steps, by=ana)
        mission_actions.dispatch_mission(made, by=Origin("user", actor_name="Ana", trace_id="4b" * 16))

    async def break_link():
        nonlocal wire
        await stack.aclose()
        wire = await stack.enter_async_context(Wire(token))

    async def passed(seq):
        """The gateway has heard how far the robot's messages are applied."""
        while next(iter(Links._here._by_robot.values())).applied.get(1) != seq:
            await rows.ask(lambda: None)

    def mission():
        return Mission.objects.get().pk

    async def applied():
        await ask(apply)
        await passed(9)

    happens = {
        "A supervisor dispatches a mission.": lambda: ask(dispatch),
        "A supervisor presses Stop.": lambda: ask(lambda: stopping.stop_robot("RB-001", by=ana, why="blocked aisle")),
        "The site applies what it has stored. The supervisor releases the robot and resumes the mission.": lambda: ask(
            apply,
            lambda: stopping.release_robot("RB-001", by=ana),
            lambda: mission_actions.resume_mission(mission(), by=Origin("user", actor_name="Ana", trace_id="4b" * 16)),
        ),
        'A programming error: this robot says "asleep".': lambda: ask(),
        "The link breaks before the robot has seen the last acknowledgement. It comes back and sends what is not "
        "applied.": break_link,
        "The site applies what it has stored.": lambda: ask(apply),
        "By the next heartbeat everything is applied.": applied,
    }
    try:
        for line in CONVERSATION:
            who, text = line.split(maxsplit=1)
            if who == "#":
                await happens[text]()
            elif who == "robot":
                await wire.send(names.put_in(text))
            else:
                names.learn(json.loads(text), await wire.hear())
        await ask(apply)
        done = await rows.ask(lambda: Mission.objects.get().state)
        dead = await rows.ask(lambda: list(DeadLetter.objects.values_list("kind", flat=True)))
    finally:
        await stack.aclose()
        rows.close()
    assert (done, dead) == ("success", ["robot.state"])

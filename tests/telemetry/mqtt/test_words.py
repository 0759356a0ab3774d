"""In what order one robot's words are stored, and how it goes on trying."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest

from telemetry.gateways.intake import Unavailable
from telemetry.gateways.limits import Bucket, Room
from telemetry.gateways.mqtt import words
from telemetry.gateways.mqtt.words import Words


class Said(SimpleNamespace):
    """One word; `desk.done` and `desk.failures` know what became of it."""

    def frame(self):
        self.desk.framed.append(self.text)
        return self.text.encode()

    def done(self, verdict, at):
        self.desk.done.append(self.text)

    def failed(self, at):
        self.desk.failures.append((self.text, at))


class Desk:
    def __init__(self, per_s=1e9, burst=1e9):
        self.done, self.failures, self.framed, self.calls, self.down, self.now = [], [], [], [], set(), 0.0
        self.room = Room()
        self.words = Words("RB-001", self.store, self.room, Bucket(per_s, burst, burst), lambda: self.now)

    async def store(self, robot, msg_id, raw, at):
        self.calls.append(raw.decode())
        await asyncio.sleep(0)
        if raw.decode() in self.down:
            raise Unavailable("down")
        return "stored"

    def say(self, *texts, numbered=True):
        for text in texts:
            self.words.put(Said(desk=self, text=text, msg_id=uuid.uuid4(), numbered=numbered, size=len(text)))

    async def settle(self, n):
        for _ in range(1000):
            if len(self.done) >= n:
                return
            await asyncio.sleep(0.001)
        raise AssertionError((self.done, self.calls))


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setattr(words, "RETRY_S", (0.001,))
    return Desk()


async def test_numbered_words_go_together_the_others_one_after_the_other(desk):
    desk.say("1", "2", "3")
    desk.say("a", "b", numbered=False)
    desk.say("4")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert desk.framed == ["1", "2", "3"]
    await desk.settle(6)
    assert desk.done == ["1", "2", "3", "a", "b", "4"]
    assert desk.room.used == 0


async def test_nothing_overtakes_a_word_that_cannot_be_stored(desk):
    desk.down = {"2"}
    desk.say("1", "2")
    desk.say("a", numbered=False)
    await desk.settle(1)
    await asyncio.sleep(0.02)
    assert desk.done == ["1"]
    assert {text for text, _ in desk.failures} == {"2"}
    assert "a" not in desk.calls
    desk.down = set()
    await desk.settle(3)
    assert desk.done == ["1", "2", "a"]


async def test_what_took_too_long_is_tried_again(desk, monkeypatch):
    async def slow(robot, msg_id, raw, at):
        desk.now += 2 * words.LATE_S if len(desk.failures) < 1 else 0
        return "stored"

    desk.words._store = slow
    desk.say("1")
    await desk.settle(1)
    assert [text for text, _ in desk.failures] == ["1"]


async def test_a_small_allowance_slows_down_and_stops_nothing(monkeypatch):
    desk = Desk(per_s=1000, burst=2)
    desk.words._clock = asyncio.get_running_loop().time
    desk.say(*map(str, range(10)))
    await desk.settle(10)
    assert desk.done == [*map(str, range(10))]


async def test_what_waits_is_let_go_of_at_the_end(desk):
    desk.down = {"1"}
    desk.say("1", "2")
    await asyncio.sleep(0.01)
    desk.words.close()
    assert (len(desk.words), desk.room.used) == (0, 0)

"""What is said or sent again by the clock: with growing pauses, the newest of what changes, and nothing kept for ever."""

from datetime import timedelta
from uuid import UUID

from telemetry.drivers.contract import Spec
from telemetry.drivers.vda5050 import errands, mouth
from telemetry.drivers.vda5050.errands import Errands
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.mouth import Mouth
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.stage import START

ONE, TWO = UUID(int=1), UUID(int=2)


def at(seconds):
    return START + timedelta(seconds=seconds)


def said_at(speaker, seconds):
    """Seconds at which something was said."""
    return [second for second in range(seconds) if list(speaker.step(at(second)))]


def test_a_word_that_is_not_stored_is_said_again_ever_more_rarely():
    speaker = Mouth("RB-001")
    assert [say.id for say in speaker.say(ONE, "mission.accepted", START, START)] == [ONE]
    assert said_at(speaker, 200) == [5, 15, 35, 75, 135, 195]


def test_of_words_about_the_same_only_the_newest_is_said_again():
    speaker = Mouth("RB-001")
    list(speaker.say(ONE, "robot.state", START, START, about="state"))
    list(speaker.say(TWO, "robot.state", START, START, about="state"))
    assert [say.id for say in speaker.step(at(5))] == [TWO]


def test_what_is_stored_is_said_once_and_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr(mouth, "_REMEMBERED", 1)
    speaker = Mouth("RB-001")
    for name in (ONE, TWO):
        list(speaker.say(name, "mission.accepted", START, START))
        speaker.stored(name)
    assert list(speaker.say(TWO, "mission.accepted", START, START)) == []
    assert [say.id for say in speaker.say(ONE, "mission.accepted", START, START)] == [ONE]


def test_of_many_errands_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(errands, "_REMEMBERED", 2)
    todo = Errands(Known(Spec(id="RB-001", address="acme/7", profile=Profile())))
    for name in ("a", "b", "c"):
        todo.add("stateRequest", name, START)
    sent = [send.payload for send in todo.step(START)]
    assert [name for name in "abc" if any(f'"actionId":"{name}"'.encode() in payload for payload in sent)] == ["b", "c"]

"""What the robot's messages say of its link, what its silence says, and what becomes of one that talks too much."""

import json
import re
from datetime import timedelta

import pytest

from telemetry.drivers.contract import Begins, Heard, Link, Say, Send, Spec, Tell, Wanted
from telemetry.drivers.vda5050 import PARTS, driver
from telemetry.drivers.vda5050.profile import Profile
from telemetry.gateways.mqtt.broker import Incoming
from telemetry.gateways.mqtt.waiting import KEPT, Crowd, Waiting
from tests.telemetry.vda5050.stage import START, Stage, drive

SPEC = Spec(id="RB-001", address="acme/7", profile=Profile())
STATE = b'{"orderId": "", "nodeStates": [], "driving": false, "operatingMode": "AUTOMATIC"}'
ONLINE, BROKEN, OFFLINE = (
    f'{{"connectionState": "{how}"}}'.encode() for how in ("ONLINE", "CONNECTIONBROKEN", "OFFLINE")
)


class Ear:
    """A conversation, and what it answered."""

    def __init__(self, **profile):
        self.talk = driver.converse(Spec(id="RB-001", address="acme/7", profile=Profile(**profile)))

    def hear(self, part, payload, at_s=0.0, retained=False):
        at = START + timedelta(seconds=at_s)
        effects = list(self.talk.hear(Heard(part=part, payload=payload, at=at, retained=retained), Wanted()))
        return [*effects, *(self.begun(at_s) if Begins() in effects else [])]

    def begun(self, at_s=0.0):
        return list(self.talk.begun(1, {}, START + timedelta(seconds=at_s)))

    def step(self, at_s):
        return list(self.talk.step(Wanted(), START + timedelta(seconds=at_s)))


def hints(effects):
    return [effect.hint for effect in effects if isinstance(effect, Link)]


def sends(effects):
    return [effect for effect in effects if isinstance(effect, Send)]


@pytest.mark.parametrize(
    ("part", "payload", "said"),
    [
        ("state", STATE, ["alive"]),
        ("visualization", b'{"agvPosition": {"x": 1, "y": 2}}', ["alive"]),
        ("factsheet", b"{}", ["alive"]),
        ("connection", ONLINE, ["alive"]),
        ("connection", BROKEN, ["gone"]),
        ("connection", OFFLINE, ["gone"]),
        ("connection", b"{}", []),
    ],
)
def test_what_a_message_says_of_the_link(part, payload, said):
    assert hints(Ear().hear(part, payload)) == said


@pytest.mark.parametrize(("part", "payload"), [("state", STATE), ("connection", ONLINE), ("connection", BROKEN)])
def test_what_is_retained_may_be_ages_old(part, payload):
    assert Ear().hear(part, payload, retained=True) == []


def test_what_is_too_long_to_be_read_says_that_it_lives():
    ear = Ear()
    heard = Heard(part="state", payload=b"", at=START, too_long=True)
    assert list(ear.talk.hear(heard, Wanted())) == [Begins(), Link(hint="alive")]


def test_a_state_that_is_newer_than_the_last_will_wins():
    """Some robots say ONLINE when they start and never again."""
    ear = Ear()
    ear.hear("state", STATE)
    assert hints(ear.hear("connection", BROKEN, 1)) == ["gone"]
    assert hints(ear.hear("state", STATE, 2)) == ["alive"]
    assert hints(ear.step(40)) == []
    assert [s.topic for s in sends(ear.step(41))] == []


@pytest.mark.parametrize(("clock", "ahead_s"), [("10:00:02.000Z", 2.0), ("09:00:00", -3600.0)])
def test_by_how_much_its_clock_is_ahead_is_told(clock, ahead_s):
    effects = Ear().hear("state", STATE[:-1] + f', "timestamp": "{START.date()}T{clock}"}}'.encode())
    assert [effect.facts["skew_s"] for effect in effects if isinstance(effect, Tell)] == [ahead_s]


def test_one_that_is_gone_is_sent_nothing_again_until_it_is_back():
    ear = Ear()
    ear.hear("state", STATE)
    ear.hear("connection", BROKEN, 1)
    assert [send for at_s in range(2, 20) for send in sends(ear.step(at_s))] == []
    assert sends(ear.hear("state", STATE, 20))


def test_a_link_begins_with_the_first_live_message_and_asks_for_what_is_not_known():
    ear = Ear()
    effects = ear.hear("connection", ONLINE)
    assert isinstance(effects[0], Begins)
    asked = [b"stateRequest" in s.payload or b"factsheetRequest" in s.payload for s in sends(effects)]
    assert asked == [True, True]
    assert Begins() not in ear.hear("state", STATE, 1)


def test_one_that_nobody_has_heard_yet_is_asked_a_few_times_how_it_stands():
    """After a restart of the gateway a robot that stands may be silent, and could be sent no stop."""
    ear = Ear()
    asked = {second: sent for second in range(60) if (sent := sends(ear.step(second)))}
    assert list(asked) == [0, 2, 6, 14, 22]
    assert all(b"stateRequest" in send.payload and send.asks for sent in asked.values() for send in sent)
    ear = Ear()
    [call] = sends(ear.step(0))
    ear.hear("state", STATE, 1)
    name = re.search(rb'"actionId":"([^"]+)"', call.payload)[1]
    later = [send for second in range(2, 29) for send in sends(ear.step(second))]
    assert later  # what it asks once it knows the robot
    assert not any(name in send.payload for send in later)


def test_a_last_will_begins_nothing():
    ear = Ear()
    assert ear.hear("connection", BROKEN) == [Link(hint="gone")]
    assert isinstance(ear.hear("state", STATE, 1)[0], Begins)


def test_a_silent_robot_is_asked_once_and_then_it_is_said():
    ear = Ear()
    ear.hear("state", STATE)
    quiet = [effect for second in range(1, 30) for effect in ear.step(second) if isinstance(effect, Link)]
    assert quiet == []
    asked = sends(ear.step(30))
    assert len(asked) == 1
    assert b"stateRequest" in asked[0].payload
    later = [effect for second in range(31, 200) for effect in ear.step(second)]
    assert hints(later) == ["unanswered"]
    assert sends(later) == []
    assert hints(ear.hear("state", STATE, 201)) == ["alive"]
    assert len(sends(ear.step(231))) == 1, "asked again the next time"


@pytest.mark.parametrize(("second", "judged"), [(44.9, False), (45, True)])
def test_silence_is_judged_after_the_question(second, judged):
    ear = Ear()
    ear.hear("state", STATE)
    ear.step(30)
    assert (hints(ear.step(second)) == ["unanswered"]) is judged


def test_one_whose_link_is_gone_is_not_asked():
    ear = Ear()
    ear.hear("state", STATE)
    ear.step(8)
    ear.hear("connection", BROKEN, 10)
    later = [effect for second in range(11, 120) for effect in ear.step(second)]
    assert (sends(later), hints(later)) == ([], [])


def test_of_too_many_states_the_newest_is_read():
    ear = Ear(max_states_per_s=5)
    told = [ear.hear("state", STATE.replace(b'"orderId": ""', b'"orderId": "o%d"' % n), n / 1000) for n in range(500)]
    assert sum(isinstance(effect, Say) for effects in told for effect in effects) <= 12
    assert all(hints(effects) == ["alive"] for effects in told)
    ear.step(1)
    assert ear.talk._known.picture.order_id == "o499"


def test_of_each_part_that_waits_to_be_heard_the_newest_counts():
    """One whose link flaps, and says so each time, must not take the room of all others at the broker."""
    let_go = []
    waiting = Waiting(driver.newest, Crowd(), let_go.append)
    for part, qos in PARTS:
        for n in range(KEPT + 9):
            word = Incoming(f"uagv/v2/acme/7/{part}", b"%d" % n, qos, False, n, 1)
            assert waiting.put(word, part, START, is_throttled=False)
    assert len(waiting) == KEPT * len(PARTS)
    assert [message.mid for message in let_go] == list(range(9)) * len(PARTS)


def test_where_it_drives_is_told():
    effects = Ear().hear(
        "visualization", b'{"agvPosition": {"x": 1, "y": 2, "theta": 0.5}, "velocity": {"vx": 3, "vy": 4}}'
    )
    assert [e.facts for e in effects if isinstance(e, Tell)] == [{"x": 1.0, "y": 2.0, "theta": 0.5, "speed": 5.0}]


@pytest.mark.parametrize(
    ("topic", "whose"),
    [
        ("uagv/v2/acme/7/state", ("acme/7", "state")),
        ("uagv/v2/acme/7/connection", ("acme/7", "connection")),
        ("uagv/v2/acme/7/order", None),
        ("uagv/v2/acme/state", None),
        ("uagv/v2//7/state", None),
        ("drover/v1/RB-001/events", None),
        ("uagv/v2/acme/7/state/more", None),
    ],
)
def test_whose_a_topic_is(topic, whose):
    assert driver.whose(topic) == whose


def test_where_it_is_heard_and_told():
    assert dict(driver.topics(SPEC)) == {
        "uagv/v2/acme/7/state": 0, "uagv/v2/acme/7/connection": 1, "uagv/v2/acme/7/visualization": 0, "uagv/v2/acme/7/factsheet": 0,
    }  # fmt: skip
    assert set(driver.commands(SPEC)) == {"uagv/v2/acme/7/order", "uagv/v2/acme/7/instantActions"}
    assert set(driver.discovery(Profile())) == {"uagv/v2/+/+/state", "uagv/v2/+/+/connection"}


def test_a_pressed_emergency_stop_lets_no_order_go():
    stage = Stage(drive("A")).run(1)
    pressed = stage.robot.state() | {"safetyState": {"eStop": "MANUAL", "fieldViolation": False}}
    stage._heard("state", pressed)()
    stage.dispatch().run(5)
    assert stage.orders == []
    stage.robot.tell()
    assert stage.to_the_end().words[-1] == "finished"


# --- two devices under one serial number


def told(ear, numbers, places, every_s=1.0, knows=True, late_s=()):
    """How often these states, with these numbers and from these places, looked like two robots."""
    found = []
    for n, (number, x) in enumerate(zip(numbers, places, strict=True)):
        position = {"x": x, "y": 0.0, "theta": 0.0, "mapId": "", "positionInitialized": knows}
        state = json.loads(STATE) | {"headerId": number, "agvPosition": position}
        if late_s:
            state["timestamp"] = (START + timedelta(seconds=n * every_s - late_s[n])).isoformat()
        state = json.dumps(state)
        found += hints(ear.hear("state", state.encode(), n * every_s))
    return found.count("doubled")


def test_two_robots_of_one_serial_number_are_noticed():
    assert told(Ear(), [500, 7, 501, 8, 502, 9, 503, 10, 504], [0, 40] * 4 + [0])
    row = [number for n in range(7) for number in (500 + n, 7 + n)]
    assert told(Ear(), row, [0, 40] * 7) == 2, "and then from the beginning"
    assert not told(Ear(), row, [0, 40] * 7, knows=False)
    assert told(Ear(), [5, 8, 6, 9, 7, 10, 8, 11, 9, 12, 10, 13, 11, 14, 12], [0, 40] * 7 + [0]), "on at the same time"
    assert told(Ear(), [*map(int, "112233445566778")], [0, 40] * 7 + [0]), "on in the same moment"
    assert told(Ear(), [2**32 - 3, 700, 2**32 - 2, 701, 2**32 - 1, 702, 0, 703, 1], [0, 40] * 4 + [0]), "begins anew"
    assert told(Ear(), [500, 501, 7, 502, 8, 10, 503, 505, 11, 506, 12], [0, 1, 40, 1, 40, 41, 2, 2, 41, 2, 41], 5)


@pytest.mark.parametrize(
    ("numbers", "places"),
    [
        ([500, 501, 0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 40, 40, 40, 40, 40, 40, 40, 40, 40]),
        ([0] * 11, [0, 40] * 5 + [0]),
        ([3, 99, 17, 4000, 8, 250, 1, 77, 5000, 31, 600], [0, 40] * 5 + [0]),
        ([5, 7, 6, 8, 10, 9, 11, 13, 12, 14, 15], [0] * 11),
        ([500, 7, 501, 8, 502, 9, 503, 10, 504, 11, 505], [0, 6] * 5 + [0]),
        (list(range(21)), [0, 40] * 10 + [0]),
        ([500, 7, 501, 8, 502, 9, 503], [0, 40] * 3 + [0]),
    ],
    ids=["it was started anew, elsewhere", "it does not count", "it counts oddly", "overtaken on the way",
         "it counts twice, as far apart as one drives", "it does not know where it is", "not often enough to be sure"],
)  # fmt: skip
def test_one_robot_is_never_taken_for_two(numbers, places):
    assert not told(Ear(), numbers, places)


@pytest.mark.parametrize(("every_s", "noticed"), [(60, True), (150, False)])
def test_to_and_fro_counts_within_ten_minutes(every_s, noticed):
    assert bool(told(Ear(), [500, 7, 501, 8, 502, 9, 503, 10], [0, 4000] * 4, every_s)) == noticed


def test_a_robot_that_says_late_what_it_could_not_say_is_not_two():
    """It drove on meanwhile, and sends what it kept between what it says now."""
    numbers = [500, 7, 501, 8, 502, 9, 503, 10, 504, 11, 505, 12, 506]
    assert not told(Ear(), numbers, [90, 0] * 6 + [90], late_s=[0, 60] * 6 + [0])
    assert told(Ear(), numbers, [90, 0] * 6 + [90], late_s=[0, 2] * 6 + [0]), "clocks are never quite right"

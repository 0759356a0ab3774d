"""What is played with a driver: each scenario is one thing that happens to robots, and what has to come of it."""

from collections.abc import Callable
from functools import partial

from telemetry.drivers.contract import Command
from telemetry.drivers.kit.bench import Bench
from telemetry.drivers.kit.double import Case, Deed, Said

SETTLE_S = 10.0  # from any change to what everybody knows
HOSTILE = (
    b"", b"\0", b"\xff\xfe\x00", b"{", b"null", b"[]", b"7", b'"text"', b"{}", b"[" * 2000, b'{"a":' * 2000,
    b'{"headerId":null,"robot":7,"type":[],"data":"x"}', b'{"x":NaN}', b'{"x":1e999}', b'{"id":"' + b"9" * 5000 + b'"}',
    '{"type":"\N{PILE OF POO}","state":{"mode":{}}}'.encode(), b'{"a":1}{"a":2}', b"online\n",
)  # fmt: skip


def _ready(case: Case, robot: int = 0) -> Bench:
    """The robot has come, and its gateway knows how it is."""
    bench = Bench(case, robot)
    bench.run_until("its link begins, and robot.state is said", lambda: bench.session and bench.said("robot.state"), 60)
    return bench


def _begun(case: Case, robot: int = 0) -> Bench:
    """It is in the middle of the second step."""
    bench = _ready(case, robot)
    bench.assign()
    _second_step(bench)
    return bench


def _second_step(bench: Bench) -> None:
    bench.run_until("step 1 is completed, by its word", lambda: 1 in bench.site.claims)
    bench.check(not bench.did("completed", 2), "step 1 is said only when step 2 is over")


def _finish(bench: Bench, within_s: float = 240) -> None:
    bench.run_until("the mission is finished, by its word", lambda: bench.site.ended, within_s)
    bench.check(bench.site.ended == "finished", f"the mission ended as {bench.site.ended}")
    _each_once(bench)


def _each_once(bench: Bench) -> None:
    for number in range(1, len(bench.case.steps) + 1):
        times = bench.deeds().count(Deed("completed", number))
        bench.check(times == 1, f"the robot did step {number} {times} times")


def a_mission_runs_to_its_end(case: Case) -> None:
    """Accepted, every step, finished; then a second one."""
    bench = _ready(case)
    for _ in range(2):
        bench.hints.clear()
        bench.assign()
        _finish(bench)
        bench.check("alive" in bench.hints, "it speaks, and no Link says alive")
        bench.check(bench.said("mission.accepted"), "it was never said to be accepted")
        bench.run_until("idle again, by its word", lambda: bench.site.mode == "idle", 60)


def two_robots_at_once(case: Case) -> None:
    """What one does is not said of the other: a driver is stateless, a conversation is one robot's."""
    busy, idle = _ready(case, 0), _ready(case, 1)
    busy.assign()
    for _ in range(60):
        busy.run(2)
        idle.run(2)
    _finish(busy, 120)
    idle.check(not idle.said("mission.accepted"), "the mission of one robot was said by the other")
    shared = busy.words.keys() & idle.words.keys()
    idle.check(not shared, f"words of two robots have the same id: {shared}")


def every_message_comes_twice(case: Case) -> None:
    bench = _ready(case)
    bench.up.copies = 2
    bench.assign()
    _finish(bench)


def every_command_comes_twice(case: Case) -> None:
    """Also to the driver: the gateway did not see that the first was delivered."""
    bench = _ready(case)
    bench.down.copies, bench.twice = 2, True
    bench.assign()
    _finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def messages_come_late_and_all_at_once(case: Case) -> None:
    bench = _begun(case)
    bench.up.held = True
    bench.run(8)
    bench.up.held = False
    _finish(bench)


def the_first_assignment_is_lost(case: Case) -> None:
    """What leaves in the first seconds reaches nobody."""
    bench = _ready(case)
    bench.down.loses = lambda number: True
    bench.assign()
    bench.run(1.5)
    bench.down.loses = lambda number: False
    bench.run_until("the robot took it", lambda: bench.did("accepted"), 90)
    _finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def messages_are_lost(case: Case) -> None:
    """Of the robot's messages every third, and then all for a while."""
    bench = _ready(case)
    bench.up.loses = lambda number: number % 3 == 0
    bench.assign()
    bench.run_until("the robot is at it", lambda: bench.did("accepted"), 90)
    bench.up.loses = lambda number: True
    bench.run_until("step 1 is done, unheard", lambda: bench.did("completed", 1))
    bench.up.loses = lambda number: number % 3 == 0
    _finish(bench)


def a_mission_is_cancelled_before_the_robot_has_it(case: Case) -> None:
    """Its assignment is lost, and never sent again once it is to end."""
    bench = _ready(case)
    bench.down.loses = lambda number: True
    bench.assign()
    bench.run(1.5)
    bench.down.loses = lambda number: False
    bench.site.cancel(bench.now)
    bench.run_until("mission.cancelled is said", lambda: bench.site.ended, 90)
    bench.check(bench.site.ended == "cancelled", f"the mission ended as {bench.site.ended}")
    bench.run(60)
    bench.check(not bench.did("accepted"), "the robot began a mission that had been cancelled")


def a_mission_is_cancelled_in_the_middle_of_a_step(case: Case) -> None:
    bench = _begun(case)
    bench.site.cancel(bench.now)
    bench.run_until("mission.cancelled is said", lambda: bench.site.ended, 90)
    bench.check(bench.site.ended == "cancelled", f"the mission ended as {bench.site.ended}")
    bench.check(bench.robot.stands, "cancelled is said, and the robot moves")
    bench.run(30)
    bench.check(not bench.said("mission.finished"), "it is said to be finished as well")


def a_cancel_is_lost_on_its_way(case: Case) -> None:
    bench = _begun(case)
    bench.down.loses = lambda number: True
    bench.site.cancel(bench.now)
    bench.run(0.5)
    bench.down.loses = lambda number: False
    bench.run_until("mission.cancelled is said", lambda: bench.site.ended, 90)
    bench.check(bench.site.ended == "cancelled", f"the mission ended as {bench.site.ended}")
    bench.check(bench.robot.stands, "cancelled is said, and the robot moves")


def a_mission_is_paused_and_resumed(case: Case) -> None:
    if not case.pauses:
        return
    bench = _begun(case)
    bench.site.pause(bench.now)
    bench.run_until("mission.paused is said", lambda: bench.said("mission.paused"), 30)
    _stands_still(bench, 30)
    bench.site.resume(bench.now)
    bench.run_until("mission.resumed is said", lambda: bench.said("mission.resumed"), 30)
    _finish(bench)


def a_robot_is_stopped_and_released(case: Case) -> None:
    """It stands until the release, and its mission until it is resumed."""
    bench = _begun(case)
    stop = bench.site.stop(bench.now)
    bench.run_until("robot.stopped is said, in reply to the stop", partial(_confirmed, bench, stop), 60)
    _stands_still(bench, 30)
    again = bench.site.stop(bench.now)
    bench.run_until("robot.stopped is said to a second stop", partial(_confirmed, bench, again), 60)
    if bench.site.ended:  # this brand stops by cancelling
        return
    bench.site.release(bench.now)
    bench.site.resume(bench.now)
    _finish(bench)


def a_robot_that_stands_is_stopped(case: Case) -> None:
    bench = _ready(case)
    stop = bench.site.stop(bench.now)
    bench.run_until("robot.stopped is said, in reply to the stop", partial(_confirmed, bench, stop), 60)
    bench.site.release(bench.now)
    bench.run(SETTLE_S)
    bench.assign()
    _finish(bench)


def _confirmed(bench: Bench, command: Command) -> bool:
    return command.id in bench.site.confirmed


def _stands_still(bench: Bench, seconds: float) -> None:
    before = [deed for deed in bench.deeds() if deed.kind == "completed"]
    bench.run(seconds)
    after = [deed for deed in bench.deeds() if deed.kind == "completed"]
    bench.check(bench.robot.stands and after == before, "it is to stand still, and the robot went on")


def a_question_is_answered(case: Case) -> None:
    """Asked for its state it tells the newest, in reply to the question; at rest and at work."""
    for bench in (_ready(case), _begun(case)):
        question = bench.site.ask(bench.now)
        bench.run_until("robot.state is said, in reply to the question", partial(_confirmed, bench, question), 30)


def the_gateway_is_restarted_at_rest(case: Case) -> None:
    """It hears the robot before it sends it anything, whatever waits."""
    bench = _ready(case)
    bench.up.held = True
    bench.connect()
    bench.assign()
    bench.run(20)
    bench.check(not bench.did("accepted"), "the robot was sent a mission by a gateway that had not heard it")
    bench.up.held = False
    _finish(bench)


def the_gateway_is_restarted_in_the_middle(case: Case) -> None:
    """It finds the mission that the robot is at, and neither begins it anew nor forgets a step."""
    bench = _begun(case)
    bench.connect()
    _finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def the_gateway_is_away_for_a_step(case: Case) -> None:
    """What was said meanwhile is lost."""
    bench = _begun(case)
    bench.up.loses = lambda number: True
    bench.run_until("step 2 is done, unheard", lambda: bench.did("completed", 2))
    bench.up.loses = lambda number: False
    bench.connect()
    _finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def the_gateway_is_restarted_while_it_cancels(case: Case) -> None:
    bench = _begun(case)
    bench.up.held = True
    bench.site.cancel(bench.now)
    bench.run(1.5)
    bench.connect()
    bench.up.held = False
    bench.run_until("mission.cancelled is said", lambda: bench.site.ended, 90)
    bench.check(bench.site.ended == "cancelled", f"the mission ended as {bench.site.ended}")
    bench.run(30)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the cancelled mission again")


def the_robot_is_restarted_in_the_middle(case: Case) -> None:
    """Whatever it remembers: it is heard again, answers a question, and what is said of it is true."""
    bench = _begun(case)
    bench.robot.restart(bench.now)
    bench.run(SETTLE_S)
    question = bench.site.ask(bench.now)
    bench.run_until("robot.state is said, in reply to a question", partial(_confirmed, bench, question), 90)
    bench.run(SETTLE_S)
    bench.check(bench.site.mode == bench.robot.mode, f"it is said to be {bench.site.mode}, and is {bench.robot.mode}")
    if bench.site.ended:
        return
    bench.site.cancel(bench.now)
    bench.run_until("its mission ends when it is cancelled", lambda: bench.site.ended, 120)


def retained_messages_say_nothing(case: Case) -> None:
    """All that was ever heard comes again as if it had lain on the broker: `Bench` looks at the answers."""
    bench = _begun(case)
    _finish(bench)
    heard = list(bench.sayings)
    bench.connect()
    for said in heard:
        bench.hear(said, retained=True)
    sent = bench.down.count
    bench.assign()
    bench.run_until("the robot is given a new mission", lambda: bench.down.count > sent, 90)
    _finish(bench)


def hostile_messages_cost_nothing_else(case: Case) -> None:
    """Rubbish on each topic, in the middle of a mission: complained of, and nothing is said because of it."""
    bench = _begun(case)
    topics = {topic for topic, _ in bench.driver.topics(bench.spec) if "+" not in topic and "#" not in topic}
    topics |= {said.topic for said in bench.sayings}
    words, told = len(bench.words), len(bench.told)
    for topic in sorted(topics):
        for payload in HOSTILE:
            bench.hear(Said(topic=topic, payload=payload))
    bench.check(len(bench.words) == words and len(bench.told) == told, "rubbish was taken for a word of the robot")
    bench.check(bench.complaints, "nobody complained of rubbish")
    _finish(bench)


def mutilated_messages_raise_nothing(case: Case) -> None:
    """Its own messages cut short, with bytes turned over and values exchanged, for a conversation of their own."""
    bench = _begun(case)
    for said in {(said.topic, said.payload): said for said in bench.sayings}.values():
        talk = bench.driver.converse(bench.spec)
        for payload in _mutilated(said.payload):
            bench.try_out(talk, said.topic, payload)


def _mutilated(payload: bytes) -> list[bytes]:
    cut = [payload[:n] for n in range(0, len(payload), max(1, len(payload) // 20))]
    turned = [payload[:n] + bytes([payload[n] ^ 0x15]) + payload[n + 1 :] for n in range(0, len(payload), 7)]
    pairs = ((b'"', b""), (b":", b":null,"), (b"0", b"-1"), (b"1", b"1e400"), (b"{", b"["), (b"true", b'"yes"'),
             (b":", b':[{"a":{}}],"b":'), (b"-", b"\0"), (b"2", b'"2"'))  # fmt: skip
    return [*cut, *turned, *(payload.replace(old, new) for old, new in pairs)]


def nothing_is_sent_without_bound(case: Case) -> None:
    """The robot does not get what it is sent, and says a lot: what is sent again goes by the clock, and ever less often."""
    if case.answers:
        return
    sends: list[int] = []
    for copies in (1, 20):
        bench = _ready(case)
        bench.down.loses = lambda number: True
        bench.up.copies = copies
        before = bench.down.count
        bench.assign()
        bench.run(60)
        sends.append(bench.down.count - before)
    bench.check(sends[0] <= 60, f"{sends[0]} messages in a minute to a robot that gets none")
    bench.check(sends[1] <= sends[0] + 5, f"with 20 times the messages it is sent {sends[1]} instead of {sends[0]}")


SCENARIOS: tuple[Callable[[Case], None], ...] = (
    a_mission_runs_to_its_end,
    two_robots_at_once,
    every_message_comes_twice,
    every_command_comes_twice,
    messages_come_late_and_all_at_once,
    the_first_assignment_is_lost,
    messages_are_lost,
    a_mission_is_cancelled_before_the_robot_has_it,
    a_mission_is_cancelled_in_the_middle_of_a_step,
    a_cancel_is_lost_on_its_way,
    a_mission_is_paused_and_resumed,
    a_robot_is_stopped_and_released,
    a_robot_that_stands_is_stopped,
    a_question_is_answered,
    the_gateway_is_restarted_at_rest,
    the_gateway_is_restarted_in_the_middle,
    the_gateway_is_away_for_a_step,
    the_gateway_is_restarted_while_it_cancels,
    the_robot_is_restarted_in_the_middle,
    retained_messages_say_nothing,
    hostile_messages_cost_nothing_else,
    mutilated_messages_raise_nothing,
    nothing_is_sent_without_bound,
)

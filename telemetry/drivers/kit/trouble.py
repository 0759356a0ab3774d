"""Scenarios of what happens on the way: losses, repeats, lateness, and restarts of gateway and robot."""

from functools import partial

from telemetry.drivers.kit.double import Case, Deed
from telemetry.drivers.kit.playing import SETTLE_S, begun, confirmed, finish, ready


def every_message_comes_twice(case: Case) -> None:
    bench = ready(case)
    bench.up.copies = 2
    bench.assign()
    finish(bench)


def every_command_comes_twice(case: Case) -> None:
    """Also to the driver: the gateway did not see that the first was delivered."""
    bench = ready(case)
    bench.down.copies, bench.twice = 2, True
    bench.assign()
    finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def messages_come_late_and_all_at_once(case: Case) -> None:
    bench = begun(case)
    bench.up.held = True
    bench.run(8)
    bench.up.held = False
    finish(bench)


def the_first_assignment_is_lost(case: Case) -> None:
    """What leaves in the first seconds reaches nobody."""
    bench = ready(case)
    bench.down.loses = lambda number: True
    bench.assign()
    bench.run(1.5)
    bench.down.loses = lambda number: False
    bench.run_until("the robot took it", lambda: bench.did("accepted"), 90)
    finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def messages_are_lost(case: Case) -> None:
    """Of the robot's messages every third, and then all for a while."""
    bench = ready(case)
    bench.up.loses = lambda number: number % 3 == 0
    bench.assign()
    bench.run_until("the robot is at it", lambda: bench.did("accepted"), 90)
    bench.up.loses = lambda number: True
    bench.run_until("step 1 is done, unheard", lambda: bench.did("completed", 1))
    bench.up.loses = lambda number: number % 3 == 0
    finish(bench)


def the_gateway_is_restarted_at_rest(case: Case) -> None:
    """It hears the robot before it sends it anything, whatever waits."""
    bench = ready(case)
    bench.up.held = True
    bench.connect()
    bench.assign()
    bench.run(20)
    bench.check(not bench.did("accepted"), "the robot was sent a mission by a gateway that had not heard it")
    bench.up.held = False
    finish(bench)


def the_gateway_is_restarted_in_the_middle(case: Case) -> None:
    """It finds the mission that the robot is at, and neither begins it anew nor forgets a step."""
    bench = begun(case)
    bench.connect()
    finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def the_gateway_is_away_for_a_step(case: Case) -> None:
    """What was said meanwhile is lost."""
    bench = begun(case)
    bench.up.loses = lambda number: True
    bench.run_until("step 2 is done, unheard", lambda: bench.did("completed", 2))
    bench.up.loses = lambda number: False
    bench.connect()
    finish(bench)
    bench.check(bench.deeds().count(Deed("accepted")) == 1, "the robot took the same mission twice")


def the_gateway_is_restarted_while_it_cancels(case: Case) -> None:
    bench = begun(case)
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
    bench = begun(case)
    bench.robot.restart(bench.now)
    bench.run(SETTLE_S)
    question = bench.site.ask(bench.now)
    bench.run_until("robot.state is said, in reply to a question", partial(confirmed, bench, question), 90)
    bench.run(SETTLE_S)
    bench.check(bench.site.mode == bench.robot.mode, f"it is said to be {bench.site.mode}, and is {bench.robot.mode}")
    if bench.site.ended:
        return
    bench.site.cancel(bench.now)
    bench.run_until("its mission ends when it is cancelled", lambda: bench.site.ended, 120)


def nothing_is_sent_without_bound(case: Case) -> None:
    """The robot does not get what it is sent, and says a lot: what is sent again goes by the clock, and ever less often."""
    if case.answers:
        return
    sends: list[int] = []
    for copies in (1, 20):
        bench = ready(case)
        bench.down.loses = lambda number: True
        bench.up.copies = copies
        before = bench.down.count
        bench.assign()
        bench.run(60)
        sends.append(bench.down.count - before)
    bench.check(sends[0] <= 60, f"{sends[0]} messages in a minute to a robot that gets none")
    bench.check(sends[1] <= sends[0] + 5, f"with 20 times the messages it is sent {sends[1]} instead of {sends[0]}")

"""Scenarios of what people ask of robots: missions, pauses, cancels, stops and questions."""

from functools import partial

from telemetry.drivers.kit.double import Case
from telemetry.drivers.kit.playing import SETTLE_S, begun, confirmed, finish, ready, stands_still


def a_mission_runs_to_its_end(case: Case) -> None:
    """Accepted, every step, finished; then a second one."""
    bench = ready(case)
    for _ in range(2):
        bench.hints.clear()
        bench.assign()
        finish(bench)
        bench.check("alive" in bench.hints, "it speaks, and no Link says alive")
        bench.check(bench.said("mission.accepted"), "it was never said to be accepted")
        bench.run_until("idle again, by its word", lambda: bench.site.mode == "idle", 60)


def two_robots_at_once(case: Case) -> None:
    """What one does is not said of the other: a driver is stateless, a conversation is one robot's."""
    busy, idle = ready(case, 0), ready(case, 1)
    busy.assign()
    for _ in range(60):
        busy.run(2)
        idle.run(2)
    finish(busy, 120)
    idle.check(not idle.said("mission.accepted"), "the mission of one robot was said by the other")
    shared = busy.words.keys() & idle.words.keys()
    idle.check(not shared, f"words of two robots have the same id: {shared}")


def a_mission_is_cancelled_before_the_robot_has_it(case: Case) -> None:
    """Its assignment is lost, and never sent again once it is to end."""
    bench = ready(case)
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
    bench = begun(case)
    bench.site.cancel(bench.now)
    bench.run_until("mission.cancelled is said", lambda: bench.site.ended, 90)
    bench.check(bench.site.ended == "cancelled", f"the mission ended as {bench.site.ended}")
    bench.check(bench.robot.stands, "cancelled is said, and the robot moves")
    bench.run(30)
    bench.check(not bench.said("mission.finished"), "it is said to be finished as well")


def a_cancel_is_lost_on_its_way(case: Case) -> None:
    bench = begun(case)
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
    bench = begun(case)
    bench.site.pause(bench.now)
    bench.run_until("mission.paused is said", lambda: bench.said("mission.paused"), 30)
    stands_still(bench, 30)
    bench.site.resume(bench.now)
    bench.run_until("mission.resumed is said", lambda: bench.said("mission.resumed"), 30)
    finish(bench)


def a_robot_is_stopped_and_released(case: Case) -> None:
    """It stands until the release, and its mission until it is resumed."""
    bench = begun(case)
    stop = bench.site.stop(bench.now)
    bench.run_until("robot.stopped is said, in reply to the stop", partial(confirmed, bench, stop), 60)
    stands_still(bench, 30)
    again = bench.site.stop(bench.now)
    bench.run_until("robot.stopped is said to a second stop", partial(confirmed, bench, again), 60)
    if bench.site.ended:  # this brand stops by cancelling
        return
    bench.site.release(bench.now)
    bench.site.resume(bench.now)
    finish(bench)


def a_robot_that_stands_is_stopped(case: Case) -> None:
    bench = ready(case)
    stop = bench.site.stop(bench.now)
    bench.run_until("robot.stopped is said, in reply to the stop", partial(confirmed, bench, stop), 60)
    bench.site.release(bench.now)
    bench.run(SETTLE_S)
    bench.assign()
    finish(bench)


def a_failed_step_is_tried_again(case: Case) -> None:
    """Under its next attempt, which its words bear."""
    if not case.retries:
        return
    bench = ready(case)
    bench.robot.fail(2)  # type: ignore[attr-defined]
    bench.assign()
    bench.run_until("the first try of step 2 has failed, by its word", lambda: (2, 1) in bench.site.failed)
    bench.run(SETTLE_S)
    bench.check(not bench.did("completed", 2), "a step was tried again before anybody said so")
    bench.site.retry(2, bench.now)
    finish(bench)
    attempts = {word.attempt for word in bench.said("mission.step_completed") if word.step == 2}
    bench.check(attempts == {2}, f"step 2 was completed at its second try, and said of {attempts}")


def a_step_is_skipped(case: Case) -> None:
    """In the middle of it: the robot leaves it, and goes on with the next."""
    if not case.retries:
        return
    bench = begun(case)
    bench.site.skip(2, bench.now)
    bench.run_until("the mission is finished, by its word", lambda: bench.site.ended)
    bench.check(not bench.did("completed", 2), "the robot did the step that it was to skip")
    bench.check(2 not in bench.site.claims, "a step that was skipped is said to be completed")


def a_question_is_answered(case: Case) -> None:
    """Asked for its state it tells the newest, in reply to the question; at rest and at work."""
    for bench in (ready(case), begun(case)):
        question = bench.site.ask(bench.now)
        bench.run_until("robot.state is said, in reply to the question", partial(confirmed, bench, question), 30)

"""What many scenarios begin with, wait for and end with."""

from telemetry.drivers.contract import Command
from telemetry.drivers.kit.bench import Bench
from telemetry.drivers.kit.double import Case, Deed

SETTLE_S = 10.0  # from any change to what everybody knows


def ready(case: Case, robot: int = 0) -> Bench:
    """The robot has come, and its gateway knows how it is."""
    bench = Bench(case, robot)
    bench.run_until("its link begins, and robot.state is said", lambda: bench.session and bench.said("robot.state"), 60)
    return bench


def begun(case: Case, robot: int = 0) -> Bench:
    """It is in the middle of the second step."""
    bench = ready(case, robot)
    bench.assign()
    _second_step(bench)
    return bench


def _second_step(bench: Bench) -> None:
    bench.run_until("step 1 is completed, by its word", lambda: 1 in bench.site.claims)
    bench.check(not bench.did("completed", 2), "step 1 is said only when step 2 is over")


def finish(bench: Bench, within_s: float = 240) -> None:
    bench.run_until("the mission is finished, by its word", lambda: bench.site.ended, within_s)
    bench.check(bench.site.ended == "finished", f"the mission ended as {bench.site.ended}")
    _each_once(bench)


def _each_once(bench: Bench) -> None:
    for number in range(1, len(bench.case.steps) + 1):
        times = bench.deeds().count(Deed("completed", number))
        bench.check(times == 1, f"the robot did step {number} {times} times")


def confirmed(bench: Bench, command: Command) -> bool:
    return command.id in bench.site.confirmed


def stands_still(bench: Bench, seconds: float) -> None:
    before = [deed for deed in bench.deeds() if deed.kind == "completed"]
    bench.run(seconds)
    after = [deed for deed in bench.deeds() if deed.kind == "completed"]
    bench.check(bench.robot.stands and after == before, "it is to stand still, and the robot went on")

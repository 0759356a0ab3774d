"""Runs chaos schedules against a site of its own: `python -m tests.chaos.soak --seed 1 --count 500`.

One JSON line per schedule on stdout; the first that fails ends it with exit code 1 and its seed, and says on stderr all that is
known of the missions concerned. The same seed brings about the same trouble again (not the same races: the machine has its own
pace).
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.chaos.world import World

A_WORLD_LASTS = 25  # schedules; then its history is long and checking it slow
WS, HTTP = 5, 3  # robots


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; the next have the next numbers")
    parser.add_argument("--count", type=int, default=500, help="schedules")
    parser.add_argument(
        "--minutes", type=float, default=0, help="end after so long, however many were run; 0: no limit"
    )
    parser.add_argument("--trouble", action="append", default=[], help="only this kind; one after the other if several")
    parser.add_argument("--small-disks", action="store_true", help="stores on small disks, for trouble with full ones")
    parser.add_argument("--log", type=Path, help="file that gets the lines as well")
    parser.add_argument("--keep-going", action="store_true", help="go on after one that fails")
    return parser.parse_args()


def populate(world: World) -> tuple[int, list[str]]:
    """A site with robots that are online; their ids."""
    from django.core.management import call_command

    from fleet.models import Robot
    from fleet.robots import actions, credentials
    from tests.actors import SYSTEM, site_with_places
    from tests.eventually import eventually

    call_command("migrate", verbosity=0)
    from fleet.brands.actions import create_brand

    site = site_with_places("Hall 1")
    brand = create_brand(
        "Haulmate", capabilities=["navigate", "pick", "drop", "wait", "charge"],
        suspect_after_s=5, offline_after_s=12, abandon_after_s=20, by=SYSTEM,
    )  # fmt: skip
    places = [["Dock A", 1, 2, 0], ["Shelf 3", 9, 4, 0], ["Charger 1", 0, 0, 0]]
    world.start_web()
    configs: dict[str, list[dict]] = {"ws": [], "http": []}
    for n in range(WS + HTTP):
        pk, over = f"RB-{n:03}", "ws" if n < WS else "http"
        actions.enrol_robot(id=pk, name=pk, site=site, brand=brand, by=SYSTEM)
        configs[over].append({
            "id": pk, "token": credentials.issue_credential(pk, by=SYSTEM), "seed": n, "transport": over, "speed_up": 20,
            "url": f"ws://127.0.0.1:{world.port}/robot/v1/ws", "capabilities": ["navigate", "pick", "drop", "charge"],
            "places": places, "start": "Dock A", "memory": str(world.folder / f"{pk}.memory"),
        })  # fmt: skip
    for name in ("worker-1", "worker-2"):
        world.worker(name).start()
    for over, mine in configs.items():
        world.start_robots(f"robots-{over}", mine, world.folder / f"robots-{over}.notes")
    eventually(
        lambda: set(Robot.objects.values_list("presence", flat=True)) == {"online"}, what="all robots are online"
    )
    return site.pk, [config["id"] for every in configs.values() for config in every]


def run(seeds: list[int], ends: float, args: argparse.Namespace) -> int:
    """Schedules on one world, to the first that fails: which of them that is, from 1; 0 when all are well."""
    with tempfile.TemporaryDirectory(prefix="drover-chaos-", ignore_cleanup_errors=True) as folder:
        world = World(Path(folder), small_disks=args.small_disks)
        try:
            os.environ.update(world.start_stores())
            import django

            django.setup()
            from tests.chaos.schedule import Schedule

            site, robots = populate(world)
            for place, seed in enumerate(seeds, 1):
                if time.monotonic() > ends:
                    break
                began, only = (
                    time.monotonic(),
                    args.trouble[(seed - args.seed) % len(args.trouble)] if args.trouble else None,
                )
                schedule = Schedule(seed, world, site, robots, troubles=(only,) if only else ())
                try:
                    wrong = schedule.run()
                except Exception:
                    wrong = [traceback.format_exc()]
                took = round(time.monotonic() - began, 1)
                line = {
                    "seed": seed,
                    "took_s": took,
                    "wrong": wrong,
                    "ended": _figures(schedule),
                    "said": {disk.name: _complaints(world, disk.name) for disk in world.disks},
                    "told": schedule.told,
                }
                print(json.dumps(line), flush=True)
                if args.log:
                    with args.log.open("a") as log:
                        log.write(json.dumps(line) + "\n")
                if wrong:
                    _show(world, schedule, wrong)
                    return place  # what went wrong may last: the next ones begin in a new world
                schedule.clear_up()
        finally:
            world.end()
    return 0


def _complaints(world: World, name: str) -> str:
    """What a store said of its disk."""
    return "".join(set(re.findall("No space left on device|Short write while writing", world.log_of(name))))


def _figures(schedule: Any) -> dict[str, int]:
    try:
        return schedule.judge.figures()
    except Exception:  # it has failed anyhow
        return {}


def _show(world: World, schedule: Any, wrong: list[str]) -> None:
    seed = schedule.seed
    print(f"schedule {seed} failed; what is known of its missions and the ends of the logs follow", file=sys.stderr)
    try:
        print(*schedule.judge.evidence(wrong), sep="\n", file=sys.stderr)
    except Exception:  # the database may be what has failed
        traceback.print_exc()
    for name in world.children:
        print(f"--- {name}\n{world.log_of(name)[-3000:]}", file=sys.stderr)


def main() -> None:
    args = arguments()
    ends = time.monotonic() + (args.minutes * 60 or float("inf"))
    seeds, failed = list(range(args.seed, args.seed + args.count)), 0
    # one world per process: Django is bound to the stores that it was set up with
    while seeds and time.monotonic() < ends and (args.keep_going or not failed):
        some, seeds = seeds[:A_WORLD_LASTS], seeds[A_WORLD_LASTS:]
        pid = os.fork()
        if not pid:
            try:
                os._exit(run(some, ends, args))
            except BaseException:
                traceback.print_exc()
                os._exit(101)
        if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            failed += 1
            if 0 < code <= A_WORLD_LASTS:
                seeds = some[code:] + seeds
            else:
                print(f"the world of {some[0]} to {some[-1]} fell: those without a line were not run", file=sys.stderr)
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

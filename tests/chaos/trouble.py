"""What is done to which process at which moments, and people who interfere: two tables of a schedule's acts."""

import random
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from uuid import UUID

import redis
from django.db import Error as DatabaseError
from django.db import connection

from fleet.robots import stopping
from missions import actions
from tests.actors import SYSTEM
from tests.chaos.world import World

WORKERS = ("worker-1", "worker-2")
HOOKS = ("before_decide", "before_commit", "before_ack")

Act = tuple[float, str, Callable[[], object]]  # when (s from the start), what, how


class Scene(Protocol):
    """Whom people meddle with; `attempt(what, asks, of)` remembers what was asked for."""

    missions: list[UUID]
    robots: list[str]

    def attempt(self, what: Callable[[], object], asks: str = "", of: object = "") -> None: ...


# --- trouble: at which moments what is done to which process


def _killed(name: str):
    def trouble(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
        which = chance.choice(WORKERS) if name == "worker" else name
        return [
            (at, f"{which} killed", world[which].kill),
            (at + lasts, f"{which} again", lambda: world[which].start()),
        ]

    return trouble


def _frozen(name: str):
    def trouble(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
        which = chance.choice(WORKERS) if name == "worker" else name
        return [(at, f"{which} frozen", world[which].freeze), (at + lasts, f"{which} thawed", world[which].thaw)]

    return trouble


def _planned(name: str, number: signal.Signals = signal.SIGTERM):
    def trouble(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
        which = chance.choice(WORKERS) if name == "worker" else name

        def again() -> None:
            world[which].end(number)
            world[which].start()

        return [(at, f"{which} restarted", again)]

    return trouble


def _at_a_hook(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
    which, hook = chance.choice(WORKERS), chance.choice(HOOKS)
    after = chance.randint(1, 10)

    def doomed() -> None:
        world[which].kill()
        world.worker(which, die_at=hook, after=after).start()

    def again() -> None:
        world[which].kill()
        world.worker(which).start()

    return [(at, f"{which} dies at {hook}, call {after}", doomed), (at + lasts + 1, f"{which} again", again)]


def _flushed(name: str):
    def trouble(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
        def flush() -> None:
            with suppress(redis.RedisError, OSError):  # it may be down just now
                world.flush(name)

        return [(at, f"{name} flushed", flush)]

    return trouble


def _lost_disk(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
    def lose() -> None:
        world["durable"].kill()
        world.lose_disk("durable")

    return [(at, "durable lost with its disk", lose), (at + lasts, "durable again", lambda: world["durable"].start())]


def _cut(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
    def cut() -> None:
        with suppress(DatabaseError):
            connection.close()
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend'"
                )

    return [(at, "sessions cut", cut), (at + lasts / 2, "sessions cut", cut)]


def _full(name: str):
    def trouble(world: World, chance: random.Random, at: float, lasts: float) -> list[Act]:
        def free() -> None:
            world.free(name)
            world[name].start()  # it may have given up, and is started again as often as that

        return [(0.3, f"disk of {name} full", lambda: world.fill(name)), (5.0, f"disk of {name} free", free)]

    return trouble


OF_SMALL_DISKS = {"postgres disk full": _full("postgres"), "durable disk full": _full("durable")}
TROUBLES = {
    "worker killed": _killed("worker"),
    "worker frozen": _frozen("worker"),
    "worker restarted": _planned("worker"),
    "worker dies at a hook": _at_a_hook,
    "web killed": _killed("web"),
    "web frozen": _frozen("web"),
    "web restarted": _planned("web"),
    "durable killed": _killed("durable"),
    "durable frozen": _frozen("durable"),
    "durable restarted": _planned("durable"),
    "durable flushed": _flushed("durable"),
    "durable loses its disk": _lost_disk,
    "live killed": _killed("live"),
    "live frozen": _frozen("live"),
    "live flushed": _flushed("live"),
    "postgres killed": _killed("postgres"),
    "postgres restarted": _planned("postgres", signal.SIGINT),
    "sessions cut": _cut,
    "robots killed": _killed("robots-ws"),
    "robots frozen": _frozen("robots-http"),
}


# --- people


def _cancel(scene: Scene, chance: random.Random, at: float) -> list[Act]:
    mission = chance.choice(scene.missions)
    return [
        (
            at,
            "somebody cancels",
            lambda: scene.attempt(lambda: actions.cancel_mission(mission, by=SYSTEM), "cancel", mission),
        )
    ]


def _stop(scene: Scene, chance: random.Random, at: float) -> list[Act]:
    robot = chance.choice(scene.robots)
    return [
        (
            at,
            f"somebody stops {robot}",
            lambda: scene.attempt(lambda: stopping.stop_robot(robot, by=SYSTEM), "stop", robot),
        ),
        (
            at + 1.5,
            f"releases {robot}",
            lambda: scene.attempt(lambda: stopping.release_robot(robot, by=SYSTEM), "release", robot),
        ),
    ]


def _pause(scene: Scene, chance: random.Random, at: float) -> list[Act]:
    mission = chance.choice(scene.missions)
    return [
        (at, "somebody pauses", lambda: scene.attempt(lambda: actions.pause_mission(mission, by=SYSTEM))),
        (at + 1, "and resumes", lambda: scene.attempt(lambda: actions.resume_mission(mission, by=SYSTEM))),
    ]


PEOPLE = {"cancel": _cancel, "stop": _stop, "pause": _pause}

"""One seeded schedule: robots at work while processes are killed, frozen and restarted, people interfere, then all heals.

What must hold at the end is in `judging`. Imported after Django is set up on the world's stores.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from fleet.models import Hold, Robot
from fleet.refusals import Refused
from fleet.robots import stopping
from missions import actions, drawing_up
from missions.models import FINAL, Mission
from telemetry import stream
from tests.actors import SYSTEM
from tests.chaos.judging import Judge
from tests.chaos.trouble import OF_SMALL_DISKS, PEOPLE, TROUBLES, WORKERS, Act
from tests.chaos.world import World
from tests.eventually import eventually
from tests.model import oracle

LASTS_S = 3.0  # of trouble
SETTLE_S = 180.0  # when to give up that everything ends after it: other tests want the machine as well


@dataclass
class Schedule:
    """`run` says what went wrong; nothing when all is well. The seed decides everything but the machine's own pace."""

    seed: int
    world: World
    site: int
    robots: list[str]
    missions: list[UUID] = field(default_factory=list)
    troubles: tuple[str, ...] = ()  # by name; none: the seed chooses
    told: list[str] = field(default_factory=list)  # what was done, in order
    asked: list[tuple[float, str, str]] = field(default_factory=list)  # when, what, of which mission or robot
    planned: dict[UUID, list[oracle.Step]] = field(default_factory=dict)
    _looks_at: float = 0.0  # time.monotonic()

    @property
    def judge(self) -> Judge:
        return Judge(self.world, self.missions, self.planned, self.asked)

    def run(self) -> list[str]:
        chance = random.Random(self.seed)
        self._begin(chance)
        began = time.monotonic()
        for at, what, act in sorted(self._acts(chance), key=lambda act: act[:2]):
            time.sleep(max(0.0, began + at - time.monotonic()))
            self.told.append(f"{time.monotonic() - began:.1f} {what}")
            act()
        self._heal()
        try:
            eventually(self._settled, SETTLE_S, "everything has ended")
        except AssertionError as error:
            return [f"{error}: {self._unsettled()}", *self.judge.wrong()]
        return self.judge.wrong()

    # --- what happens

    def _begin(self, chance: random.Random) -> None:
        for robot in self.robots:
            for n in range(2):
                steps = [
                    {"command": "navigate", "params": {"place": chance.choice(("Dock A", "Shelf 3"))},
                     "timeout_s": chance.choice((60, 60, 20, 6))}
                    for _ in range(chance.randint(1, 4))
                ]  # fmt: skip
                title = f"{self.seed} {robot} {n}"
                pk = drawing_up.draft_mission(title=title, site=self.site, robot=robot, steps=steps, by=SYSTEM)
                self.missions.append(pk)
                self.planned[pk] = [oracle.Step(step["timeout_s"]) for step in steps]
        for mission in self.missions:
            actions.queue_mission(mission, by=SYSTEM)

    def _acts(self, chance: random.Random) -> list[Act]:
        """Trouble of two to four kinds, and a person or two who interfere."""
        acts: list[Act] = []
        names = self.troubles or chance.sample(sorted(TROUBLES), chance.randint(2, 4))
        for name in names:
            trouble = (TROUBLES | OF_SMALL_DISKS)[name]
            at, lasts = chance.uniform(0.2, LASTS_S), chance.uniform(0.3, 3.0)
            if name == "worker frozen":
                lasts *= 2.5  # longer than it owns its partitions, now and then
            acts += trouble(self.world, chance, at, lasts)
        for name in chance.sample(sorted(PEOPLE), chance.randint(0, 2)):
            acts += PEOPLE[name](self, chance, chance.uniform(0.3, LASTS_S))
        return acts

    def _heal(self) -> None:
        for name in ("postgres", "durable", "live", *WORKERS, "web", "robots-ws", "robots-http"):
            self.world[name].thaw()
        for name in WORKERS:  # those that had to die at a hook and have not yet
            if 'die_at": "before' in self.world[name].argv[-1]:
                self.world[name].kill()
                self.world.worker(name)
        for name in ("postgres", "durable", "live", *WORKERS, "web", "robots-ws", "robots-http"):
            self.world[name].start()
        for robot in self.robots:
            self.persist(lambda robot=robot: stopping.release_robot(robot, by=SYSTEM))

    def persist(self, what: Callable[[], object], within_s: float = 20.0) -> object:
        """As a person who tries again while the database is away; a refusal is an answer."""
        ends = time.monotonic() + within_s
        while True:
            try:
                return what()
            except Refused:
                return None
            except DatabaseError:
                connection.close()
                if time.monotonic() > ends:
                    raise
                time.sleep(0.2)

    def attempt(self, what: Callable[[], object], asks: str = "", of: object = "") -> None:
        """As a person who gets an error page, or a refusal, and leaves it at that."""
        self.asked.append((time.time(), asks, str(of)))
        try:
            what()
        except Refused:
            pass
        except DatabaseError:
            connection.close()

    # --- how it ends

    def _settled(self) -> bool:
        self._resume_what_is_paused()
        return not self._unsettled()

    def _resume_what_is_paused(self) -> None:
        """As a person who looks at the page every second: a robot may say only now that it was stopped before."""
        if time.monotonic() < self._looks_at:
            return
        self._looks_at = time.monotonic() + 1.0
        connection.close()
        paused = Mission.objects.filter(pk__in=self.missions, paused_at__isnull=False).exclude(state__in=FINAL)
        for mission in paused.values_list("pk", flat=True):
            self.persist(lambda mission=mission: actions.resume_mission(mission, by=SYSTEM))

    def _unsettled(self) -> str:
        """What is still under way, in words. A robot that nobody heard of its stop keeps its next mission waiting."""
        connection.close()
        mine = Mission.objects.filter(pk__in=self.missions).exclude(state__in=FINAL)
        if running := list(mine.filter(dispatched_at__isnull=False).values_list("robot_id", "state", "current_step")):
            return f"missions run: {running}"
        held = Hold.objects.filter(released_at=None).values("robot")
        if waiting := list(mine.exclude(robot__in=held).values_list("robot_id", flat=True)):
            return f"missions wait: {waiting}"
        missing = self.judge.missing()
        return f"acknowledged, not applied: {sorted(missing)[:5]}" if missing else _backlog()

    def clear_up(self) -> None:
        """For the next schedule on the same world."""
        for mission in Mission.objects.exclude(state__in=FINAL):
            self.persist(lambda pk=mission.pk: actions.cancel_mission(pk, by=SYSTEM))
        for hold in Hold.objects.filter(released_at=None):
            stopping.release_robot(hold.robot_id, number=hold.number, by=SYSTEM)
        eventually(
            lambda: not Mission.objects.exclude(state__in=FINAL).exists(),
            SETTLE_S,
            "nothing is left of the last one",
        )
        eventually(
            lambda: set(Robot.objects.values_list("presence", flat=True)) == {"online"}, SETTLE_S, "all are online"
        )


def _backlog() -> str:
    with redis.from_url(settings.REDIS_URL) as client:
        for p in range(settings.PARTITIONS):
            for group in client.xinfo_groups(stream.key(p)):
                if group["pending"] or group["lag"]:
                    return f"stream {p} holds {group['pending']} pending and {group['lag']} unread"
    return ""

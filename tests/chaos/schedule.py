"""One seeded schedule: robots at work while processes are killed, frozen and restarted, people interfere, then all heals.

What must hold at the end is in `judge`. Imported after Django is set up on the world's stores.
"""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from fleet import actions as fleet_actions
from fleet.actions import Refused
from fleet.models import Command, Event, Hold, Robot
from missions import actions, invariants
from missions.models import FINAL, DeadLetter, Direction, Mission
from telemetry import stream
from telemetry.models import ProcessedMessage
from tests.actors import SYSTEM
from tests.chaos.world import World
from tests.eventually import eventually
from tests.model import oracle

LASTS_S = 3.0  # of trouble
SETTLE_S = 60.0  # until everything has ended after it
WORKERS = ("worker-1", "worker-2")
HOOKS = ("before_decide", "before_commit", "before_ack")

Act = tuple[float, str, Callable[[], object]]  # when (s from the start), what, how


class Life(NamedTuple):
    title: str
    story: oracle.Life
    end: oracle.End


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
            return [f"{error}: {self._unsettled()}", *self.judge()]
        return self.judge()

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
                pk = actions.draft_mission(title=title, site=self.site, robot=robot, steps=steps, by=SYSTEM)
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
            self.persist(lambda robot=robot: fleet_actions.release_robot(robot, by=SYSTEM))

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
        missing = self._missing()
        return f"acknowledged, not applied: {sorted(missing)[:5]}" if missing else _backlog()

    def evidence(self, wrong: list[str]) -> list[str]:
        """All that is known of the missions that `wrong` names, or whose robot it names: words, commands, events."""
        told = " ".join(wrong)
        mine = Mission.objects.filter(pk__in=self.missions)
        return [
            line
            for m in mine if m.title in told or str(m.pk) in told or f"'{m.robot_id}'" in told
            for line in (*self._words_about(m), *_commands_about(m), *_events_of(m))
        ]  # fmt: skip

    def _words_about(self, mission: Mission) -> Iterator[str]:
        rows = {str(row.msg_id): row for row in ProcessedMessage.objects.filter(robot_id=mission.robot_id)}
        began = mission.dispatched_at or timezone.now()
        yield f"--- {mission.title}, {mission.pk}: what {mission.robot_id} said, as it noted it"
        for what, robot, msg_id, *about in self._notes():
            row = rows.get(msg_id)
            if robot == mission.robot_id and about and (row is None or row.received_at >= began):
                came = (
                    f"{row.session}/{row.seq} {row.received_at:%T.%f} {row.verdict}, applied as {row.pk}"
                    if row
                    else "never applied"
                )
                yield f"{msg_id} {what} {about}: {came}"

    # --- notes

    def _notes(self) -> list[list]:
        """Of whole lines."""
        found = []
        for name in ("robots-ws", "robots-http"):
            path = self.world.folder / f"{name}.notes"
            for line in path.read_text().splitlines() if path.exists() else ():
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def _missing(self) -> set[tuple[str, str]]:
        """What a robot was told is stored, and is neither applied nor a dead letter."""
        stored = {(robot, msg_id) for what, robot, msg_id, *_ in self._notes() if what == "stored"}
        rows = ProcessedMessage.objects.values_list("robot_id", "msg_id")
        letters = DeadLetter.objects.filter(direction=Direction.IN).values_list("robot_id", "msg_id")
        return stored - {(robot, str(msg_id)) for rows in (rows, letters) for robot, msg_id in rows}

    def judge(self) -> list[str]:
        """What is not as it has to be."""
        wrong = [f"acknowledged and gone: {robot} {msg_id}" for robot, msg_id in self._missing()]
        wrong += invariants.check()
        wrong += _doubled(self.missions)
        wrong += self._finished_but_aborted()
        wrong += [f"{life.title}: {what}" for life in self._lives() for what in oracle.complaints(life.story, life.end)]
        wrong += [f"dead letter of {d.robot_id}: {d.kind} {d.reason}" for d in DeadLetter.objects.filter(
            direction=Direction.IN)]  # fmt: skip
        for name, child in self.world.children.items():
            if not child.runs:
                wrong.append(f"{name} has ended, see {child.log}")
        return wrong

    def figures(self) -> dict[str, int]:
        """How the missions ended, how many by a word that others had overtaken; messages acknowledged on this world so far."""
        ended = Counter(Mission.objects.filter(pk__in=self.missions).values_list("state", flat=True))
        overtaken = sum(life.story.until > life.end.ended_at for life in self._lives() if life.end.ended_at)
        acknowledged = sum(line[0] == "stored" for line in self._notes())
        return {**ended, "overtaken": overtaken, "acknowledged": acknowledged}

    def _finished_but_aborted(self) -> list[str]:
        """A robot's "finished" that was acknowledged decides, unless a person had ended the mission before."""
        notes = self._notes()
        stored = {msg_id for what, _, msg_id, *_ in notes if what == "stored"}
        finished = {
            line[4] for line in notes if line[0] == "said" and line[3] == "mission.finished" and line[2] in stored
        }
        aborted = Mission.objects.filter(pk__in=self.missions, state="aborted").exclude(abort_reason="operator")
        return [
            f"{mission.title} was finished by its robot and is aborted: {mission.abort_reason} {mission.abort_detail}"
            for mission in aborted
            if str(mission.pk) in finished
        ]

    def _lives(self) -> Iterator[Life]:
        """What was planned, said and asked about each mission that was dispatched, and what became of it."""
        rows = {str(row.msg_id): row for row in ProcessedMessage.objects.all()}
        words = [line for line in self._notes() if line[0] == "said" and line[2] in rows]
        for mission in Mission.objects.filter(pk__in=self.missions, dispatched_at__isnull=False):
            counted = _counted(mission, rows)
            said, late = [], []
            for line in words:
                if line[1] == mission.robot_id:
                    row = rows[line[2]]
                    word = _said(line, row.received_at.timestamp(), str(mission.pk))
                    (said if counted(row) else late).append(word)
            ended = mission.ended_at.timestamp() if mission.ended_at else time.time()
            asked = [
                oracle.Asked(at, what) for at, what, whose in self.asked if whose in (str(mission.pk), mission.robot_id)
            ]
            story = oracle.Life(
                steps=self.planned[mission.pk], mission_s=mission.timeout_s, asked=asked,
                until=max([ended, *(word.at for word in said)]), dispatched_at=mission.dispatched_at.timestamp(),
                said=sorted(said, key=_when), late=sorted(late, key=_when),
            )  # fmt: skip
            yield Life(mission.title, story, _end(mission))

    def clear_up(self) -> None:
        """For the next schedule on the same world."""
        for mission in Mission.objects.exclude(state__in=FINAL):
            self.persist(lambda pk=mission.pk: actions.cancel_mission(pk, by=SYSTEM))
        for hold in Hold.objects.filter(released_at=None):
            fleet_actions.release_robot(hold.robot_id, number=hold.number, by=SYSTEM)
        eventually(
            lambda: not Mission.objects.exclude(state__in=FINAL).exists(), SETTLE_S, "nothing is left of the last one"
        )
        eventually(
            lambda: set(Robot.objects.values_list("presence", flat=True)) == {"online"}, SETTLE_S, "all are online"
        )


_when = attrgetter("at")


def _counted(mission: Mission, rows: dict[str, ProcessedMessage]) -> Callable[[ProcessedMessage], bool]:
    """Was a word applied before the mission ended? That decides what it knew, not when the word was received.

    What a worker was still handed after another had taken over is applied up to a second late: a mission whose last
    word that is ends at a time before the words that it had overtaken.
    """
    ends = ("mission.succeeded", "mission.aborted")
    end = Event.objects.filter(aggregate=f"mission:{mission.pk}", kind__in=ends).first()
    if end is None:
        return lambda row: True
    kind, _, msg_id = end.cause.partition(":")
    if kind == "message" and msg_id in rows:
        return lambda row: row.pk <= rows[msg_id].pk
    return lambda row: row.applied_at <= end.recorded_at


_WORDS = {f"mission.step_{what}": what for what in ("completed", "failed", "started")}


def _said(line: list, at: float, mission: str) -> oracle.Said:
    """A robot's note as a word about this mission; a state may be about none."""
    _, _, _, kind, about, step, attempt, data = line
    if kind == "robot.state":
        named = data.get("mission") == mission
        return oracle.Said(
            at, "state", mode=data.get("mode", ""), named=named, ended=data.get("ended") or "" if named else "",
            answers=bool(data.get("reply_to")), completed=tuple(data.get("completed") or ()),
        )  # fmt: skip
    dispatch_no = 1 if about == mission else None
    return oracle.Said(at, _WORDS.get(kind, kind.rpartition(".")[2]), dispatch_no, step or 0, attempt or 0)


def _end(mission: Mission) -> oracle.End:
    edges = (
        Event.objects.filter(aggregate=f"mission:{mission.pk}").order_by("seq").values_list("state_from", "state_to")
    )
    stop = mission.stop_requested_at
    return oracle.End(
        mission.state, mission.abort_reason, mission.stop_confirmed, stop.timestamp() if stop else None,
        mission.ended_at.timestamp() if mission.ended_at else None,
        [oracle.StepEnd(s.outcome, s.attempt, s.inferred) for s in mission.steps.order_by("number")],
        [(a, b) for a, b in edges if a and a != b], mission.next_due_at is not None,
    )  # fmt: skip


def _commands_about(mission: Mission) -> Iterator[str]:
    yield f"--- {mission.title}: commands"
    commands = Command.objects.filter(robot=mission.robot_id, created_at__gte=mission.created_at).order_by("created_at")
    for c in commands:
        times = (f"{at:%T.%f}" if at else "-" for at in (c.created_at, c.sent_at, c.delivered_at))
        yield f"{c.pk} {c.kind} {c.state} made, sent, delivered {' '.join(times)} {c.body}"


def _events_of(mission: Mission) -> Iterator[str]:
    yield f"--- {mission.title}: events"
    names = [f"mission:{mission.pk}", f"robot:{mission.robot_id}"]
    events = Event.objects.filter(aggregate__in=names, recorded_at__gte=mission.created_at).order_by("id")
    for e in events:
        yield f"{e.aggregate[:12]} {e.seq} {e.recorded_at:%T.%f} {e.kind} {e.state_from}>{e.state_to} {e.cause} {e.data}"


def _backlog() -> str:
    with redis.from_url(settings.REDIS_URL) as client:
        for p in range(settings.PARTITIONS):
            for group in client.xinfo_groups(stream.key(p)):
                if group["pending"] or group["lag"]:
                    return f"stream {p} holds {group['pending']} pending and {group['lag']} unread"
    return ""


def _doubled(missions: list[UUID]) -> list[str]:
    """One event per edge: what happens once in a life is there once, each step completed once per attempt."""
    names = [f"mission:{pk}" for pk in missions]
    once = ("mission.started", "mission.succeeded", "mission.aborted", "mission.dispatched")
    counts = Counter(Event.objects.filter(aggregate__in=names, kind__in=once).values_list("aggregate", "kind"))
    wrong = [f"{n} times {kind} of {name}" for (name, kind), n in counts.items() if n > 1]
    steps: Counter[tuple[str, int]] = Counter()
    for name, data in Event.objects.filter(
        aggregate__in=names, kind="mission.step_completed").values_list("aggregate", "data"):  # fmt: skip
        steps[name, json.loads(data)["step"]] += 1
    return wrong + [f"step {step} of {name} completed {n} times" for (name, step), n in steps.items() if n > 1]


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


def _cancel(schedule: Schedule, chance: random.Random, at: float) -> list[Act]:
    mission = chance.choice(schedule.missions)
    return [
        (
            at,
            "somebody cancels",
            lambda: schedule.attempt(lambda: actions.cancel_mission(mission, by=SYSTEM), "cancel", mission),
        )
    ]


def _stop(schedule: Schedule, chance: random.Random, at: float) -> list[Act]:
    robot = chance.choice(schedule.robots)
    return [
        (
            at,
            f"somebody stops {robot}",
            lambda: schedule.attempt(lambda: fleet_actions.stop_robot(robot, by=SYSTEM), "stop", robot),
        ),
        (
            at + 1.5,
            f"releases {robot}",
            lambda: schedule.attempt(lambda: fleet_actions.release_robot(robot, by=SYSTEM), "release", robot),
        ),
    ]


def _pause(schedule: Schedule, chance: random.Random, at: float) -> list[Act]:
    mission = chance.choice(schedule.missions)
    return [
        (at, "somebody pauses", lambda: schedule.attempt(lambda: actions.pause_mission(mission, by=SYSTEM))),
        (at + 1, "and resumes", lambda: schedule.attempt(lambda: actions.resume_mission(mission, by=SYSTEM))),
    ]


PEOPLE = {"cancel": _cancel, "stop": _stop, "pause": _pause}

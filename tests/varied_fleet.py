"""A fleet in which every state that a card can show occurs, made by the actions and facts that make it in real life."""

from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

from django.db import transaction

from fleet.brands.actions import create_brand
from fleet.history import Origin
from fleet.models import Site
from fleet.robots import actions as robots
from fleet.robots import facts as words
from fleet.robots import stopping
from fleet.sites.actions import add_place, create_site
from missions import actions, drawing_up, facts
from missions.ledger import Ledger
from missions.models import Mission
from telemetry import snapshots, translate

ANA = Origin("user", "1", "Ana Kovač", "request:1")
STEPS = [
    {"command": "navigate", "params": {"place": "Dock A"}},
    {"command": "pick", "params": {"place": "Dock A", "load": "pallet 7"}},
    {"command": "navigate", "params": {"place": "Shelf 3"}},
    {"command": "drop", "params": {"place": "Shelf 3"}},
]


class Fleet:
    """Makes robots and tells facts about them, at chosen moments."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.seq = 0
        self.site = create_site("Hall 1, north", by=ANA)
        self.brand = create_brand(
            "Haulmate 3", capabilities=["navigate", "pick", "drop", "wait", "charge"], abandon_after_s=3600, by=ANA
        )
        for name, x, y in (("Dock A", 1.0, 2.0), ("Shelf 3", 9.0, 4.0), ("Charger 1", 0.0, 0.0)):
            add_place(self.site, name=name, x=x, y=y, is_charger=name.startswith("Charger"), by=ANA)

    def ago(self, minutes: float) -> datetime:
        return self.now - timedelta(minutes=minutes)

    def robot(self, robot_id: str, name: str, mode: str = "idle", minutes: float = 12, site: Site | None = None) -> str:
        robots.enrol_robot(id=robot_id, name=name, site=site or self.site, brand=self.brand, by=ANA)
        self.presence(robot_id, "online", minutes + 60)
        if mode:
            self.mode(robot_id, mode, minutes)
        return robot_id

    def presence(self, robot_id: str, presence: str, minutes: float = 0) -> None:
        at = self.ago(minutes)
        with transaction.atomic():
            ledger = Ledger.open([robot_id], now=at)
            translate.presence(ledger, robot_id, presence, at, at)
            ledger.commit()

    def mode(self, robot_id: str, mode: str, minutes: float = 0) -> None:
        self.seq += 1
        self.say(robot_id, words.Reported(1, self.seq, mode), minutes)

    def fault(self, robot_id: str, text: str, minutes: float = 0) -> None:
        self.seq += 1
        self.say(robot_id, words.Faulted(1, self.seq, text, "E1"), minutes)

    def stands(self, robot_id: str, minutes: float = 0) -> None:
        self.seq += 1
        self.say(robot_id, words.StoodStill(1, self.seq), minutes)

    def say(self, robot_id: str, fact: object, minutes: float = 0) -> None:
        at = self.ago(minutes)
        with transaction.atomic():
            ledger = Ledger.open([robot_id], now=at)
            ledger.tell_robot(robot_id, fact, Origin("robot", robot_id, robot_id, "message:test"), at)
            ledger.commit()

    def mission(self, title: str, robot_id: str | None = None, steps: list | None = None) -> UUID:
        return drawing_up.draft_mission(title=title, site=self.site, robot=robot_id, steps=steps or STEPS, by=ANA)

    def tell(self, mission_id: UUID, *told: object, minutes: float = 0) -> None:
        at = self.ago(minutes)
        for fact in told:
            with transaction.atomic():
                ledger = Ledger.open(mission_ids=[mission_id], now=at)
                robot = Mission.objects.get(pk=mission_id).robot_id or ""
                ledger.tell_mission(mission_id, fact, Origin("robot", robot, robot, "message:test"), at)
                ledger.commit()

    def running(self, title: str, robot_id: str, done: int = 0) -> UUID:
        """A dispatched mission whose first `done` steps are completed."""
        mission_id = self.mission(title, robot_id)
        actions.dispatch_mission(mission_id, by=ANA)
        self.tell(mission_id, facts.Delivered(), facts.Accepted(1))
        for step in range(1, done + 1):
            self.tell(mission_id, facts.StepCompleted(1, step, 1))
        return mission_id


_lossy = count(1)


def live(robot_id: str, at: datetime, **told: object) -> None:
    """Live facts, stored as a gateway does."""
    keys, arguments = snapshots._put_arguments(robot_id, 1, next(_lossy), at, told)
    snapshots.client().eval(snapshots.PUT, len(keys), *keys, *arguments)


def build(now: datetime) -> Fleet:
    """Twelve robots, each in another state."""
    fleet = Fleet(now)
    south = create_site("Yard south", by=ANA)
    fleet.robot("RB-001", "Ella")
    fleet.robot("RB-002", "Bruno", "running", 3)
    fleet.running("Pallets to the cold store", fleet.robot("RB-003", "Carla", "running", 2), done=2)
    fleet.robot("RB-004", "Dmitri", "charging", 34)
    paused = fleet.running("Empty crates back", fleet.robot("RB-005", "Esther", "running", 9), done=1)
    fleet.tell(paused, facts.Paused(1, 1, 10_000))
    fleet.mode("RB-005", "paused", 4)
    fleet.robot("RB-006", "Fritz", "running", 20)
    fleet.fault("RB-006", "Left wheel motor over temperature, 96 °C; cooling down, needs a look before it may go on", 6)
    fleet.running("Night round", fleet.robot("RB-007", "Greta", "running", 15), done=1)
    fleet.presence("RB-007", "offline", 5)
    fleet.presence(fleet.robot("RB-008", "Hugo", "idle", 400, south), "offline", 340)
    fleet.robot("RB-009", "Ines", "running", 8)
    stopping.stop_robot("RB-009", by=ANA, why="blocked aisle")
    fleet.stands("RB-009")
    stopping.stop_robot(fleet.robot("RB-010", "Juri", "running", 8), by=ANA)
    lost = fleet.running("Parts to line 4", fleet.robot("RB-011", "Klara", "running", 4), done=1)
    actions.cancel_mission(lost, by=ANA, reason="wrong parts")
    fleet.tell(lost, facts.Due("stop"), minutes=-1)  # a minute from now, but the page need not wait for it
    fleet.presence(fleet.robot("RB-012", "Lars", "idle", 50, south), "suspect", 0.3)
    waiting = fleet.mission("Fetch the samples", "RB-002")
    actions.dispatch_mission(waiting, by=ANA)
    fleet.mission("Sweep hall 1", "RB-003")
    fleet.mission("Restock shelf 3", "RB-009")
    fleet.mission("Somebody should bring the long ladder back to the workshop before the shift ends")
    fleet.mission("Charge over lunch", "RB-001")
    for number in range(1, 13):
        if number not in (4, 8, 7):
            live(f"RB-{number:03}", now, x=1.5 * number, y=4.0, speed=0.0, battery=97.0 - 6 * number, place="")
    live("RB-003", now, speed=0.84, place="Aisle 3", battery=64.0)
    live("RB-004", now, x=0.0, y=0.0, speed=0.0, battery=17.0, place="Charger 1")
    live("RB-007", now - timedelta(minutes=5), x=8.0, y=2.5, speed=0.9, battery=51.0)
    live("RB-008", now - timedelta(minutes=340), x=0.0, y=0.0, speed=0.0, battery=92.0, place="Dock A")
    live("RB-001", now, x=1.0, y=2.0, speed=0.0, battery=14.0, place="Dock A")
    return fleet

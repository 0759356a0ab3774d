"""Shared actors: people of one site, of another and of all; two sites with places; two robots; a mission."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from fleet.brands.actions import create_brand
from fleet.history import Origin, by_user
from fleet.models import Brand, Robot, Site
from fleet.people.actions import grant_access
from fleet.robots import actions as fleet_actions
from fleet.sites.actions import add_place, create_site
from missions import actions, drawing_up
from missions.facts import Accepted, Delivered
from missions.ledger import Ledger
from missions.models import Mission
from telemetry import translate

SYSTEM = Origin("system", actor_name="test")
START = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def user(name: str, role: str = "", *sites: Site) -> User:
    """Somebody with this role at these sites; at every site when none is named."""
    found = User.objects.create_user(name, password="correct horse battery")
    if role:
        grant_access(found, role=role, sites=sites, all_sites=not sites, by=SYSTEM)
    return found


@pytest.fixture
def admin_person(db) -> User:
    return user("Ada", "admin")


@pytest.fixture
def supervisor(site) -> User:
    return user("Ana", "supervisor", site)


@pytest.fixture
def other_supervisor(other_site) -> User:
    return user("Olga", "supervisor", other_site)


@pytest.fixture
def auditor(db) -> User:
    return user("Otto", "auditor")


@pytest.fixture
def site_auditor(site) -> User:
    return user("Sami", "auditor", site)


@pytest.fixture
def outsider(db) -> User:
    return user("Nobody")


def site_with_places(name: str) -> Site:
    site = create_site(name, by=SYSTEM)
    for place, x, y in (("Dock A", 1.0, 2.0), ("Shelf 3", 9.0, 4.0), ("Charger 1", 0.0, 0.0)):
        add_place(site, name=place, x=x, y=y, is_charger=place.startswith("Charger"), by=SYSTEM)
    return Site.objects.get(pk=site.pk)


@pytest.fixture
def site(db) -> Site:
    return site_with_places("Hall 1")


@pytest.fixture
def other_site(db) -> Site:
    return site_with_places("Hall 2")


@pytest.fixture
def brand(db) -> Brand:
    return create_brand(
        "Haulmate", capabilities=["navigate", "pick", "drop", "wait", "charge"],
        suspect_after_s=9, offline_after_s=20, abandon_after_s=60, by=SYSTEM,
    )  # fmt: skip


def online(robot_id: str, presence: str = "online", at: datetime | None = None) -> None:
    """The sweep has judged the robot's link."""
    with transaction.atomic():
        ledger = Ledger.open([robot_id], now=at or START)
        translate.presence(ledger, robot_id, presence, at or START, at or START)
        ledger.commit()


@pytest.fixture
def robot(site, brand) -> Robot:
    fleet_actions.enrol_robot(id="RB-001", name="Ella", site=site, brand=brand, by=SYSTEM)
    online("RB-001")
    return Robot.objects.get(pk="RB-001")


@pytest.fixture
def other_robot(site, brand) -> Robot:
    fleet_actions.enrol_robot(id="RB-002", name="Bruno", site=site, brand=brand, by=SYSTEM)
    online("RB-002")
    return Robot.objects.get(pk="RB-002")


STEPS = [
    {"command": "navigate", "params": {"place": "Dock A"}},
    {"command": "pick", "params": {"place": "Dock A", "load": "pallet 7"}},
    {"command": "drop", "params": {"place": "Shelf 3"}},
]


@pytest.fixture
def mission(robot, supervisor) -> Mission:
    """Drawn up, three steps, not dispatched."""
    pk = drawing_up.draft_mission(title="Fetch", site=robot.site, robot=robot, steps=STEPS, by=by_user(supervisor))
    return Mission.objects.get(pk=pk)


@pytest.fixture
def dispatched(mission, supervisor) -> Mission:
    actions.dispatch_mission(mission.pk, by=by_user(supervisor))
    return Mission.objects.get(pk=mission.pk)


@pytest.fixture
def running(dispatched) -> Mission:
    """Its robot has accepted it."""
    tell(dispatched, Delivered(), Accepted(1))
    return Mission.objects.get(pk=dispatched.pk)


def tell(mission: Mission, *facts: object, at: datetime | None = None, origin: Origin | None = None) -> list[str]:
    """Facts told to a mission, each in its own transaction one second after the other; the verdicts."""
    verdicts = []
    moment = at or Mission.objects.get(pk=mission.pk).dispatched_at or START
    who = origin or Origin("robot", mission.robot_id or "", "Ella", "message:test")
    for fact in facts:
        moment += timedelta(seconds=1)
        with transaction.atomic():
            ledger = Ledger.open(mission_ids=[mission.pk], now=moment)
            verdicts.append(str(ledger.tell_mission(mission.pk, fact, who, moment)))
            ledger.commit()
    return verdicts

"""What drivers are told of the site's side, and the look at links that show no credential."""

from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.brands.actions import create_brand
from fleet.models import Place, Robot
from fleet.ports import drivers
from fleet.robots import actions, credentials, stopping
from fleet.sites import actions as site_actions
from missions import actions as mission_actions
from missions import drawing_up, facts
from telemetry.drivers.contract import Wanted
from telemetry.gateways.mqtt.wanted import wanted
from telemetry.gateways.rows import Asked, look, open_session
from tests.actors import START, SYSTEM, online, tell
from tests.drivers import NATIVE, POST, of_these


@pytest.fixture
def foreign(site, monkeypatch):
    monkeypatch.setattr(drivers, "source", of_these(NATIVE, POST))
    brand = create_brand("Forker", driver="post", profile={"prefix": "fleet/v2"}, capabilities=["navigate"], by=SYSTEM)
    return actions.enrol_robot(
        id="F-7", name="Fork", site=site, brand=brand, address="KIT/0001", profile={"pause": False}, by=SYSTEM
    )


def test_nothing_is_wanted_of_a_robot_without_mission_and_hold(robot):
    assert wanted(["RB-001", "NOBODY"]) == {"RB-001": Wanted(), "NOBODY": Wanted()}
    assert wanted([]) == {}


def test_a_mission_as_drivers_see_it(dispatched, site, other_site):
    place = Place.objects.get(site=site, name="Dock A")
    nodes = {str(dispatched.robot.brand_id): "N12", "999": "other"}
    site_actions.edit_place(place.pk, name="Dock A", x=1.0, y=2.0, theta=0.0, is_charger=False, nodes=nodes, by=SYSTEM)
    found = wanted(["RB-001"])["RB-001"]
    assert found.stopped is False
    given = found.dispatch
    assert (given.mission, given.dispatch_no) == (dispatched.pk, 1)
    assert (given.current, given.accepted, given.paused, given.stopping) == (0, False, False, False)
    assert [(s.number, s.command, s.attempt, s.outcome, s.started_at) for s in given.steps] == [
        (1, "navigate", 1, "", None), (2, "pick", 1, "", None), (3, "drop", 1, "", None),
    ]  # fmt: skip
    assert given.steps[1].params == {"place": "Dock A", "load": "pallet 7"}
    dock = given.steps[0].place
    assert (dock.name, dock.x, dock.y, dock.theta, dock.node) == ("Dock A", 1.0, 2.0, 0.0, "N12")
    assert given.steps[2].place.node == ""
    assert isinstance(given.mission, UUID) and isinstance(given.steps, tuple)


def test_how_far_it_is_and_what_became_of_its_steps(dispatched):
    tell(dispatched, facts.Delivered(), facts.Accepted(1), facts.StepCompleted(1, 1, 1, "there"), at=START)
    given = wanted(["RB-001"])["RB-001"].dispatch
    assert (given.current, given.accepted) == (2, True)
    assert [s.outcome for s in given.steps] == ["completed", "", ""]
    assert given.steps[1].started_at is not None and given.steps[1].started_at.utcoffset().total_seconds() == 0


def test_a_stopped_robot_and_a_mission_that_is_to_end(dispatched):
    tell(dispatched, facts.Delivered(), facts.Accepted(1))
    stopping.stop_robot("RB-001", by=SYSTEM)
    mission_actions.cancel_mission(dispatched.pk, reason="enough", by=SYSTEM)
    found = wanted(["RB-001"])["RB-001"]
    assert (found.stopped, found.dispatch.paused, found.dispatch.stopping) == (True, True, True)
    stopping.release_robot("RB-001", by=SYSTEM)
    assert wanted(["RB-001"])["RB-001"].stopped is False


def test_a_mission_that_is_held_up_is_paused_for_its_robot(dispatched):
    tell(dispatched, facts.Delivered(), facts.Accepted(1), facts.RobotHeld(START))
    found = wanted(["RB-001"])["RB-001"]
    assert (found.stopped, found.dispatch.paused) == (False, True)


def test_a_resume_is_wanted_until_the_robot_goes_on_or_something_else_was_asked(dispatched):
    def wants() -> bool:
        return wanted(["RB-001"])["RB-001"].dispatch.resuming

    tell(dispatched, facts.Delivered(), facts.Accepted(1))
    assert not wants()
    tell(dispatched, facts.Paused(1, 1, 1))
    assert not wants()
    mission_actions.resume_mission(dispatched.pk, by=SYSTEM)
    assert wants()
    mission_actions.pause_mission(dispatched.pk, by=SYSTEM)
    assert not wants(), "paused anew"
    mission_actions.resume_mission(dispatched.pk, by=SYSTEM)
    stopping.stop_robot("RB-001", by=SYSTEM)
    assert not wants()
    stopping.release_robot("RB-001", by=SYSTEM)
    assert not wants(), "a release is no command to drive"
    mission_actions.resume_mission(dispatched.pk, by=SYSTEM)
    tell(dispatched, facts.Resumed(1, 1, 2))
    assert not wants(), "it goes on"


def test_a_place_is_as_it_was_sent(foreign, site):
    """What people change of a place while a mission is under way is for the missions to come."""
    place, brand = Place.objects.get(site=site, name="Dock A"), str(foreign.brand_id)
    site_actions.edit_place(place.pk, nodes={brand: "N12"}, by=SYSTEM)
    pk = drawing_up.draft_mission(
        title="Go", site=site, robot=foreign, by=SYSTEM,
        steps=[{"command": "navigate", "params": {"place": name}} for name in ("Dock A", "Shelf 3")],
    )  # fmt: skip
    online("F-7")
    mission_actions.dispatch_mission(pk, by=SYSTEM)
    before = wanted(["F-7"])["F-7"].dispatch.steps
    site_actions.edit_place(place.pk, x=7.0, nodes={brand: "N99"}, by=SYSTEM)
    shelf = Place.objects.get(site=site, name="Shelf 3")
    site_actions.edit_place(shelf.pk, name="Shelf 4", nodes={brand: "N4"}, by=SYSTEM)
    assert wanted(["F-7"])["F-7"].dispatch.steps == before
    assert [(s.place.name, s.place.node, s.place.x) for s in before] == [("Dock A", "N12", 1.0), ("Shelf 3", "", 9.0)]


def test_other_holds_are_no_stop_and_what_only_waits_is_not_dispatched(mission):
    actions.set_maintenance("RB-001", why="oil", by=SYSTEM)
    assert wanted(["RB-001"]) == {"RB-001": Wanted()}


def test_one_statement_for_all(dispatched, other_robot):
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert len(wanted(["RB-001", "RB-002"])) == 2
    assert len(asked) == 1


# --- links without a credential


def _asked(robot):
    session = open_session(robot.pk, "here").session
    return Asked(robot.pk, session, None, [], address=robot.address, brand=robot.brand_id)


def _refused(asked):
    [seen] = look([asked])
    return seen.refused


def test_a_link_without_credential_takes_commands(foreign):
    stopping.stop_robot("F-7", by=SYSTEM)
    [seen] = look([_asked(Robot.objects.get(pk="F-7"))])
    assert (seen.refused, [c.kind for c in seen.commands]) == (False, ["robot.stop"])


def test_it_is_refused_when_the_robot_is_another_or_out_of_service(foreign, site):
    asked = _asked(Robot.objects.get(pk="F-7"))
    assert not _refused(asked)
    assert _refused(asked._replace(address="")) and _refused(asked._replace(brand=foreign.brand_id + 1))
    told = {"name": "Fork", "site": site, "brand": foreign.brand_id}
    actions.edit_robot("F-7", **told, address="KIT/2", by=SYSTEM)
    assert _refused(asked)
    actions.edit_robot("F-7", **told, address="KIT/0001", by=SYSTEM)
    assert not _refused(asked)
    actions.retire_robot("F-7", by=SYSTEM)
    assert _refused(asked)
    assert _refused(asked._replace(robot="NOBODY"))


def test_who_shows_a_credential_is_judged_by_it(robot):
    session = open_session("RB-001", "here").session
    assert _refused(Asked("RB-001", session, 4711, [], address="", brand=robot.brand_id))
    token = credentials.issue_credential("RB-001", by=SYSTEM)
    credential = credentials.credential_of_token(token)
    assert not _refused(Asked("RB-001", session, credential.pk, []))
    credentials.revoke_credential("RB-001", credential.number, by=SYSTEM)
    assert _refused(Asked("RB-001", session, credential.pk, []))

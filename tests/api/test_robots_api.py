"""Robots over the API: what they are at, and stopping them."""

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from fleet.models import Event, Hold
from fleet.robots.actions import enrol_robot, retire_robot
from telemetry.api import robots
from tests.actors import SYSTEM


def test_a_robot_says_what_it_is_at(program, dispatched):
    said = program("GET", "/robots/RB-001").said
    assert (said["name"], said["brand"], said["presence"], said["holds"]) == ("Ella", "Haulmate", "online", [])
    assert said["mission"] == str(dispatched.pk)


def test_retired_ones_are_listed_when_asked_for(program, robot):
    retire_robot(robot.pk, by=SYSTEM)
    assert program("GET", "/robots").said["items"] == []
    assert [r["id"] for r in program("GET", "/robots?retired=true").said["items"]] == ["RB-001"]


def test_pages_of_robots(program, robot, other_robot):
    first = program("GET", "/robots?limit=1").said
    second = program("GET", f"/robots?limit=1&cursor={first['next']}").said
    assert [first["items"][0]["id"], second["items"][0]["id"], second["next"]] == ["RB-001", "RB-002", None]


def test_as_many_queries_for_many_as_for_one(program, robot, site, brand):
    counts = []
    for n in range(2):
        with CaptureQueriesContext(connection) as queries:
            program("GET", "/robots")
        counts.append(len(queries))
        for i in range(30 * (1 - n)):
            enrol_robot(id=f"RB-{100 + i}", name=f"R{i}", site=site, brand=brand, by=SYSTEM)
    assert counts[0] >= counts[1]


def test_places_have_their_pose(program, site):
    places = program("GET", f"/sites/{site.pk}/places").said
    assert {"name": "Dock A", "x": 1.0, "y": 2.0, "theta": 0.0} in places


def test_stop_holds_until_released_and_may_be_repeated(program, robot):
    for _ in range(2):
        answer = program("POST", "/robots/RB-001/stop", {"reason": "aisle blocked"})
        assert (answer.status_code, list(answer.said["robots"])) == (200, ["RB-001"])
    hold = Hold.objects.get()
    assert (hold.kind, hold.why, hold.by, hold.released_at) == ("stopped", "aisle blocked", "warehouse for Ana", None)
    assert program("GET", "/robots/RB-001").said["holds"][0]["why"] == "aisle blocked"
    assert program("POST", "/robots/RB-001/release").status_code == 200
    assert Hold.objects.get().released_by == "warehouse for Ana"


def test_stop_all_stops_this_site_and_no_other(program, robot, other_robot, other_site, brand):
    enrol_robot(id="RB-900", name="Far", site=other_site, brand=brand, by=SYSTEM)
    answer = program("POST", f"/sites/{robot.site_id}/stop", {"reason": "gate open"})
    assert set(answer.said["robots"]) == {"RB-001", "RB-002"}
    assert set(Hold.objects.values_list("robot_id", flat=True)) == {"RB-001", "RB-002"}


@pytest.mark.parametrize("reason", ["a\x00b", "x" * 5000, "\ud800"])
def test_no_reason_can_prevent_a_stop(program, robot, reason):
    import json

    answer = program("POST", "/robots/RB-001/stop", json.dumps({"reason": reason}))
    assert answer.status_code == 200
    assert Hold.objects.count() == 1


@pytest.mark.parametrize("body", ["", "{}", "null"])
def test_a_stop_needs_no_body(program, robot, body):
    assert program("POST", "/robots/RB-001/stop", body).status_code == 200


def test_an_unknown_robot_is_not_found(program, robot):
    before = Event.objects.count()
    for path in ("/robots/RB-404", "/robots/a%00b"):
        assert program("GET", path).status_code == 404
    assert program("POST", "/robots/RB-404/stop").status_code == 404
    assert Event.objects.count() == before


def test_a_filter_by_a_site_that_there_is_not_is_refused_by_name(program, robot, other_site):
    """An empty list would say that there are no robots there."""
    for site in (other_site.pk, 987_654, 10**30, -1):
        answer = program("GET", f"/robots?site={site}")
        assert (answer.status_code, answer.said["errors"][0]["field"]) == (422, "site")
        assert str(site) in answer.said["detail"]
    assert program("GET", f"/robots?site={robot.site_id}").said["items"]


@pytest.mark.parametrize("error", [OperationalError("connection refused"), InterfaceError("connection is closed")])
def test_without_the_database_it_is_worth_another_try(program, robot, monkeypatch, error):
    def away():
        raise error

    monkeypatch.setattr(robots, "rows", away)
    answer = program("GET", "/robots")
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert answer.said["detail"].startswith("The database does not answer, or takes no writes. Nothing was done")


def test_head_says_what_get_would_without_a_body(program, robot):
    for path in ("/robots", "/robots/RB-001", "/sites", "/missions", "/openapi.json"):
        told, asked = program("GET", path), program("HEAD", path)
        assert (asked.status_code, asked.content) == (told.status_code, b"") == (200, b"")
        assert asked["Content-Type"] == told["Content-Type"]
    assert program("HEAD", "/robots/RB-404").status_code == 404
    assert program("HEAD", "/robots?sight=1").status_code == 422
    assert program("HEAD", "/robots/RB-001/stop").status_code == 405
    assert not Hold.objects.exists()

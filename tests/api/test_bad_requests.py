"""What is no request, or a wrong one: an error that names the field, nothing stored, and no crash."""

from uuid import uuid4

import pytest

from fleet.models import Event
from fleet.robots.actions import enrol_robot
from missions.models import Mission
from tests.actors import SYSTEM

DRIVE = [{"command": "navigate", "params": {"place": "Dock A"}}]


BAD = [
    ({"title": ""}, "title"),
    ({"title": "a\x00b"}, "title"),
    ({"title": "x" * 201}, "title"),
    ({"title": None}, "title"),
    ({"steps": []}, "steps"),
    ({"steps": [{"command": "fly", "params": {}}]}, "steps.0.command"),
    ({"steps": [{"command": "navigate", "params": {"place": "Moon"}}]}, "steps.0.params.place"),
    ({"steps": [*DRIVE, {"command": "wait", "params": {"seconds": -1}}]}, "steps.1.params.seconds"),
    ({"steps": [{"command": "navigate", "params": {"place": "Dock A"}, "timeout_s": 0}]}, "steps.0.timeout_s"),
    ({"steps": DRIVE * 61}, "steps"),
    ({"robot": "RB-999"}, "robot"),
    ({"priority": 101}, "priority"),
    ({"importance": "vital"}, "importance"),
    ({"not_before": "soon"}, "not_before"),
    ({"not_before": "2026-12-01T10:00:00"}, "not_before"),  # no time zone
    ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
    ({"after": [str(uuid4())]}, "after"),
    ({"colour": "red"}, "colour"),
    ({"site": "Hall 1"}, "site"),
    ({"site": 1.5}, "site"),
    ({"site": None}, "site"),
]


@pytest.mark.parametrize(("wrong", "field"), BAD, ids=[f"{next(iter(w))}-{n}" for n, (w, _) in enumerate(BAD)])
def test_bad_input_names_the_field_and_stores_nothing(program, order, wrong, field):
    before = Event.objects.count()
    answer = program("POST", "/missions", {**order, **wrong})
    assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json")
    assert [error["field"] for error in answer.said["errors"]] == [field]
    [reason] = [error["reason"] for error in answer.said["errors"]]
    assert answer.said["detail"] == f"{field}: {reason}"
    if field == "colour":
        assert "There is no such field" in reason and "openapi.json" in reason
    if field == "not_before":
        assert "with its zone, such as" in reason
    if field == "site":
        assert reason == "A whole number."
    assert (Mission.objects.count(), Event.objects.count()) == (0, before)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", b"\xff\xfe", '{"title": "\\ud800"}', "[" * 5000])
def test_what_is_no_request_is_a_problem_and_no_crash(program, order, body):
    answer = program("POST", "/missions", body)
    assert answer.status_code in (400, 422)
    assert answer["Content-Type"] == "application/problem+json"


def test_a_body_that_is_too_large_is_told_so(program, order, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 2000
    answer = program("POST", "/missions", {**order, "title": "x" * 2000}, Idempotency_Key="k")
    assert (answer.status_code, answer["Content-Type"]) == (413, "application/problem+json")
    assert "2,000 bytes" in answer.said["detail"]


def test_a_method_that_is_not_there_and_a_path_that_is_not_there(program, mission):
    for path in ("/missions", f"/missions/{mission.pk}"):  # one that is async, and one that is not
        answer = program("DELETE", path)
        assert (answer.status_code, answer["Content-Type"]) == (405, "application/problem+json")
        assert "GET" in answer["Allow"] and "GET" in answer.said["detail"]
    assert program("GET", f"/missions/{uuid4()}").status_code == 404
    assert program("GET", "/missions/x").status_code == 404


@pytest.mark.parametrize("name", ["not_before", "expires_at"])
@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "9999-01-01T00:00:00Z"])
def test_a_time_that_could_not_be_read_back_is_refused(program, site, robot, name, at):
    answer = program("POST", "/missions", {"title": "x", "site": site.pk, "steps": DRIVE, name: at})
    assert (answer.status_code, answer.said["errors"][0]["field"]) == (422, name)
    assert program("GET", "/missions").status_code == 200


@pytest.mark.parametrize(
    "wrong", [{"title": "\ud800"}, {"robot": "\ud800"}, {"robot": "\x00"}, {"title": "a\x00"}, {"steps": [{"command": "\ud800"}]}]
)  # fmt: skip
def test_text_that_cannot_be_stored_is_refused(program, site, robot, wrong):
    assert program("POST", "/missions", {"title": "x", "site": site.pk, "steps": DRIVE} | wrong).status_code == 422


def test_a_robot_of_another_site_is_not_told_apart_from_none(program, other_site, site, robot, brand):
    enrol_robot(id="RB-900", name="Hidden", site=other_site, brand=brand, by=SYSTEM)
    said = [
        program("POST", "/missions", {"title": "x", "site": site.pk, "steps": DRIVE, "robot": name}).said
        for name in ("RB-900", "RB-901")
    ]
    assert str(said[0]).replace("RB-900", "RB-901") == str(said[1]) and "Hidden" not in str(said[0])

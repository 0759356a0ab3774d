"""Missions over the API: created once, listed page by page, followed, steered; errors that name the field."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.utils import timezone

from fleet.history import by_user
from fleet.models import ApiRequest, Event
from fleet.robots.actions import enrol_robot
from missions import actions, drawing_up
from missions.facts import Accepted, Paused
from missions.models import Mission
from telemetry.api.following import Followers, followers
from tests.actors import STEPS, SYSTEM, tell
from tests.together import together

DRIVE = [{"command": "navigate", "params": {"place": "Dock A"}}]


@pytest.fixture
def order(robot):
    return {"title": "Fetch pallet 7", "site": robot.site_id, "robot": robot.pk, "steps": STEPS}


def test_a_mission_is_drawn_up_and_run(program, order):
    answer = program("POST", "/missions", order)
    assert answer.status_code == 201
    mission = Mission.objects.get(pk=answer.said["id"])
    assert (mission.title, mission.robot_id, mission.steps.count()) == ("Fetch pallet 7", "RB-001", 3)
    assert mission.dispatched_at is not None
    assert answer.said["steps"][1]["params"]["load"] == "pallet 7"
    first = Event.objects.get(aggregate=f"mission:{mission.pk}", seq=1)
    assert (first.actor_kind, first.actor_name) == ("api", "warehouse for Ana")


def test_without_a_robot_one_is_chosen(program, order):
    del order["robot"]
    assert program("POST", "/missions", order).said["robot"] == "RB-001"


def test_a_draft_moves_nothing_until_it_is_run(program, order):
    draft = program("POST", "/missions", {**order, "run": False}).said
    assert (draft["state"], draft["dispatched_at"]) == ("pending", None)
    assert draft["waits_for"]
    assert program("POST", f"/missions/{draft['id']}/run").said["dispatched_at"]


def test_what_the_caller_says_is_kept(program, order, mission):
    later = timezone.now() + timedelta(hours=1)
    said = program(
        "POST", "/missions",
        {
            **order, "priority": 7, "importance": "important", "not_before": later.isoformat(),
            "expires_at": (later + timedelta(hours=1)).isoformat(), "needs_approval": True, "timeout_s": 90,
            "after": [str(mission.pk)], "run": False,
        },
    ).said  # fmt: skip
    kept = Mission.objects.get(pk=said["id"])
    assert (kept.priority, kept.importance, kept.not_before, kept.timeout_s) == (7, "important", later, 90)
    assert kept.needs_approval
    assert said["after"] == [str(mission.pk)]


# --- once


def test_the_same_request_again_makes_no_second_mission(program, order):
    first = program("POST", "/missions", order, Idempotency_Key="order-1")
    again = program("POST", "/missions", order, Idempotency_Key="order-1")
    assert (again.status_code, again.said) == (201, first.said)
    assert again["Idempotency-Replayed"] == "true"
    assert Mission.objects.count() == 1


def test_without_a_key_each_is_a_new_one(program, order):
    order["run"] = False
    program("POST", "/missions", order)
    program("POST", "/missions", order)
    assert Mission.objects.count() == 2


def test_a_key_belongs_to_one_request_and_one_token(program, caller, supervisor, order):
    program("POST", "/missions", order, Idempotency_Key="k")
    other = program("POST", "/missions", {**order, "title": "Another"}, Idempotency_Key="k")
    assert (other.status_code, Mission.objects.count()) == (422, 1)
    assert caller(supervisor)("POST", "/missions", order, Idempotency_Key="k").status_code == 201
    assert Mission.objects.count() == 2


def test_what_was_refused_may_be_sent_again(program, order):
    wrong = {**order, "steps": [{"command": "navigate", "params": {"place": "Moon"}}]}
    assert program("POST", "/missions", wrong, Idempotency_Key="k").status_code == 422
    assert not ApiRequest.objects.exists()
    assert program("POST", "/missions", order, Idempotency_Key="k").status_code == 201


@pytest.mark.parametrize("key", ["x" * 201, "a\tb"])
def test_a_key_that_cannot_be_kept_is_refused(program, order, key):
    answer = program("POST", "/missions", order, Idempotency_Key=key)
    assert (answer.status_code, answer.said["errors"][0]["field"]) == (422, "Idempotency-Key")


@pytest.mark.django_db(transaction=True)
def test_five_clicks_at_once_make_one_mission(program, order):
    answers = together(*[lambda: program("POST", "/missions", order, Idempotency_Key="clicked")] * 5)
    assert [a.status_code for a in answers] == [201] * 5
    assert len({a.said["id"] for a in answers}) == 1
    assert Mission.objects.count() == 1


# --- list


def draft(supervisor, robot, n):
    return [
        str(drawing_up.draft_mission(title=f"M{i}", site=robot.site, robot=robot, steps=DRIVE, by=by_user(supervisor)))
        for i in range(n)
    ]


def test_pages_hold_every_mission_once_also_while_new_ones_come(program, supervisor, robot):
    made = draft(supervisor, robot, 7)
    seen, cursor = [], ""
    while True:
        said = program("GET", f"/missions?limit=3&cursor={cursor}").said
        seen += [m["id"] for m in said["items"]]
        draft(supervisor, robot, 1)
        if (cursor := said["next"]) is None:
            break
    assert seen == made[::-1]


@pytest.mark.parametrize("cursor", ["x", "W10", "WyJhIl0", "WzEsMl0", "WyIyMDI2LTAxLTAxIiwgIlx1MDAwMCJd", "ä"])
def test_a_damaged_cursor_is_named(program, cursor):
    answer = program("GET", f"/missions?cursor={cursor}")
    assert (answer.status_code, answer.said["errors"][0]["field"]) == (422, "cursor")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=pending", 1), ("state=success", 0), ("state=pending&state=success", 1), ("robot=RB-001", 1),
        ("robot=RB-9", 0), ("site=999999", 0), ("created_after=2999-01-01T00:00:00Z", 0),
        ("created_before=2999-01-01T00:00:00Z", 1),
    ],
)  # fmt: skip
def test_filters(program, mission, query, expected):
    assert len(program("GET", f"/missions?{query}").said["items"]) == expected


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "site=x", "state=flying", "created_after=soon"])
def test_a_wrong_filter_is_named(program, query):
    answer = program("GET", f"/missions?{query}")
    assert answer.status_code == 422
    assert query.partition("=")[0] in answer.said["errors"][0]["field"]


@pytest.mark.parametrize(
    ("method", "path", "there"),
    [
        ("GET", "/missions?status=pending", "state"),
        ("GET", "/missions/{}?afer=1", "after"),
        ("GET", "/missions/{}/events?page=2", "cursor"),
        ("POST", "/missions/{}/cancel?reason=x", "none"),
    ],
)
def test_a_parameter_that_is_not_there_is_refused(program, mission, method, path, there):
    """A misspelt filter would show everything."""
    answer = program(method, path.format(mission.pk))
    assert answer.status_code == 422
    assert answer.said["errors"][0]["field"] == path.partition("?")[2].partition("=")[0]
    assert there in answer.said["detail"]
    assert Mission.objects.get().state == "pending"


def test_as_many_queries_for_many_as_for_one(program, supervisor, robot, django_assert_num_queries):
    from django.test.utils import CaptureQueriesContext

    counts = []
    for n in (1, 40):
        draft(supervisor, robot, n)
        with CaptureQueriesContext(connection) as queries:
            assert len(program("GET", "/missions?limit=200").said["items"]) >= n
        counts.append(len(queries))
    assert counts[0] >= counts[1]  # the first also notes the use of the token


# --- follow


@pytest.mark.django_db(transaction=True)
def test_following_answers_as_soon_as_it_changes(mission):
    def dispatch() -> None:
        actions.dispatch_mission(mission.pk, by=SYSTEM)
        connection.close()

    async def follow() -> None:
        async with asyncio.timeout(15):
            waiting = asyncio.create_task(followers().wait(mission.pk, mission.version, 20))
            await asyncio.to_thread(dispatch)
            await waiting
            await followers().task  # nobody waits any more: it ends and closes its connection

    asyncio.run(follow())


def test_following_ends_after_the_wait_with_what_there_is(program, mission):
    answer = program("GET", f"/missions/{mission.pk}?after={mission.version}&wait=0.05")
    assert (answer.status_code, answer.said["version"]) == (200, mission.version)


@pytest.mark.parametrize("query", ["wait=26", "wait=-1", "wait=x", "after=x"])
def test_a_wait_without_sense_is_named(program, mission, query):
    assert program("GET", f"/missions/{mission.pk}?{query}").status_code == 422


def test_many_who_wait_cost_one_query_at_a_time(mission):
    looked = []

    async def run() -> None:
        def look(ids):
            looked.append(sorted(ids))
            return {mission.pk: 2} if len(looked) > 1 else {mission.pk: 1}

        them = Followers(look)
        async with asyncio.timeout(10):
            await asyncio.gather(*(them.wait(mission.pk, 1, 9) for _ in range(50)))
        assert them.waiting == {}
        await asyncio.wait_for(them.task, 5)

    async_to_sync(run)()
    assert looked == [[mission.pk]] * 2


def test_the_events_say_who_and_what(program, mission):
    actions.dispatch_mission(mission.pk, by=SYSTEM)
    items = program("GET", f"/missions/{mission.pk}/events").said["items"]
    assert [e["seq"] for e in items] == list(range(1, len(items) + 1))
    assert items[0]["actor"] == "Ana"
    assert "Fetch" in items[0]["text"]


# --- steer


def test_cancel_is_idempotent(program, dispatched):
    first = program("POST", f"/missions/{dispatched.pk}/cancel", {"reason": "order withdrawn"})
    again = program("POST", f"/missions/{dispatched.pk}/cancel")
    assert (first.status_code, again.status_code) == (200, 200)


def test_what_cannot_be_done_is_a_conflict_in_words(program, mission):
    actions.cancel_mission(mission.pk, by=SYSTEM)
    for verb in ("run", "pause", "resume"):
        answer = program("POST", f"/missions/{mission.pk}/{verb}")
        assert (answer.status_code, answer["Content-Type"]) == (409, "application/problem+json")
        assert "ended" in answer.said["detail"]


def test_run_is_refused_when_somebody_was_faster(program, mission):
    answer = program("POST", f"/missions/{mission.pk}/run", {"version": mission.version - 1})
    assert (answer.status_code, Mission.objects.get(pk=mission.pk).dispatched_at) == (409, None)


def test_resume_is_refused_to_who_saw_an_older_mission(program, dispatched):
    tell(dispatched, Accepted(1), Paused(1, 1, 5))
    version = Mission.objects.get(pk=dispatched.pk).version
    told = [
        program("POST", f"/missions/{dispatched.pk}/resume", {"version": v}).status_code for v in (version - 1, version)
    ]
    assert told == [409, 200]


def test_to_run_what_is_drawn_up_needs_the_right_to_run(program, mission, order):
    actions.cancel_mission(mission.pk, by=SYSTEM)
    Group.objects.get(name="supervisor").permissions.remove(Permission.objects.get(codename="dispatch_mission"))
    for path, body in (("/missions", order), (f"/missions/{mission.pk}/rerun", {})):
        assert program("POST", path, {**body, "run": True}).status_code == 403
        assert program("POST", path, {**body, "run": False}).status_code == 201
    assert not Mission.objects.filter(queued_at__isnull=False).exists()


def test_rerun_makes_a_new_one_that_knows_its_origin(program, mission):
    actions.cancel_mission(mission.pk, by=SYSTEM)
    new = program("POST", f"/missions/{mission.pk}/rerun", {"run": False}, Idempotency_Key="r")
    assert (new.status_code, new.said["origin"], new.said["origin_kind"]) == (201, str(mission.pk), "rerun")
    assert program("POST", f"/missions/{mission.pk}/rerun", {"run": False}, Idempotency_Key="r").said == new.said
    other = f"/missions/{new.said['id']}/rerun"  # the same words about another mission are another request
    assert program("POST", other, {"run": False}, Idempotency_Key="r").status_code == 422
    assert Mission.objects.count() == 2


# --- bad input

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


def test_the_traces_of_caller_and_history_join(program, order):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    program("POST", "/missions", order, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    assert set(Event.objects.filter(aggregate__startswith="mission:").values_list("trace_id", flat=True)) == {trace}


def test_answer_and_history_name_the_same_request(program, order):
    answer = program("POST", "/missions", order)
    causes = Event.objects.filter(aggregate__startswith="mission:", actor_kind="api").values_list("cause", flat=True)
    assert set(causes) == {f"request:{answer['X-Request-Id']}"}


def test_the_schema_names_every_path(client):
    schema = client.get("/api/v1/openapi.json").json()
    assert "/api/v1/missions/{mission_id}/cancel" in schema["paths"]
    assert "/api/v1/sites/{site_id}/stop" in schema["paths"]


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

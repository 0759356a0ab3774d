"""Missions over the API, looked for and followed: page by page, filtered, and answered as soon as something changes."""

import asyncio

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from fleet.history import by_user
from fleet.robots import actions as robots
from missions import actions, drawing_up
from missions.models import Mission
from telemetry.api.following import Followers, followers
from tests.actors import STEPS, SYSTEM


def draft(supervisor, robot, n):
    return [
        str(
            drawing_up.draft_mission(
                title=f"M{i}", site=robot.site, robot=robot, steps=STEPS[:1], by=by_user(supervisor)
            )
        )
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
        ("created_after=2999-01-01T00:00:00Z", 0),
        ("created_before=2999-01-01T00:00:00Z", 1),
    ],
)  # fmt: skip
def test_filters(program, mission, query, expected):
    assert len(program("GET", f"/missions?{query}").said["items"]) == expected


def test_a_moment_belongs_to_what_follows_it(program, mission):
    at = mission.created_at.isoformat().replace("+00:00", "Z")
    asked = [program("GET", f"/missions?created_{side}={at}").said["items"] for side in ("after", "before")]
    assert [len(items) for items in asked] == [1, 0]


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


def test_a_filter_by_what_there_is_not_is_refused_by_name(program, other_program, dispatched, other_site):
    for field, value in [("site", other_site.pk), ("site", 987_654), ("robot", "RB-404"), ("robot", "")]:
        answer = program("GET", f"/missions?{field}={value}")
        assert (answer.status_code, answer.said["errors"][0]["field"]) == (422, field)
    hidden = other_program("GET", "/missions?robot=RB-001")
    assert (hidden.status_code, hidden.said["errors"][0]["field"]) == (422, "robot")
    assert program("GET", "/missions?robot=RB-001&state=success").said["items"] == []


def test_what_a_robot_did_here_is_found_wherever_it_works_by_now(program, mission, robot, other_site):
    actions.cancel_mission(mission.pk, by=SYSTEM)
    robots.edit_robot(robot.pk, name=robot.name, site=other_site, brand=robot.brand, by=SYSTEM)
    assert [m["id"] for m in program("GET", "/missions?robot=RB-001").said["items"]] == [str(mission.pk)]


def test_a_parameter_that_takes_one_value_is_not_given_two(program, dispatched, site):
    answer = program("GET", f"/missions?site={site.pk}&site={site.pk}")
    assert (answer.status_code, answer.said["errors"][0]["field"]) == (422, "site")
    assert program("GET", "/missions?state=pending&state=executing").said["items"]

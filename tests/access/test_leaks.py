"""Nothing about Hall 1 reaches people of Hall 2 (I11): not in a page, a list, a count, a search, a choice or a refusal."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from fleet.history import by_user
from fleet.robots import actions as fleet_actions
from fleet.robots import stopping
from fleet.sites import actions as site_actions
from missions import drawing_up
from missions.models import DeadLetter
from tests.access import table
from tests.access.test_who_may_what import ask
from tests.access.world import World
from tests.actors import user

STRANGERS = ("other_supervisor", "other_admin", "other_auditor")
SEARCHES = ("q=zebra", "term=z&site={site}", "site__id__exact={site}")


@pytest.fixture
def strangers(world: World, other_site: Any) -> World:
    world.people["other_auditor"] = user("Olaf", "auditor", other_site)
    return world


def urls(world: World, *, lists: bool = False) -> list[tuple[str, str]]:
    """Every address that shows something of one's own sites, each with what people ask of it."""
    found = []
    for route, line in table.LINES.items():
        if line.get.public or line.get.always or (lists and "<" in route):
            continue
        url = world.url(route, line.query)
        found.append((route, url))
        if "<" not in route and "add/" not in route:
            joined = "&" if "?" in url else "?"
            found += [(route, f"{url}{joined}{more.format(site=world.site.pk)}") for more in SEARCHES]
    return found


def body(answer: Any) -> str:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return content.decode(errors="replace")


def leaks(text: str, url: str, marks: list[str]) -> list[str]:
    """What of the marks a body has. An id that was in the address may be said back."""
    asked_for = [part for part in re.split(r"[/?&=]", url) if any(mark in part for mark in marks)]
    for part in asked_for:
        text = text.replace(part, "")
    return [
        text[max(0, at.start() - 60) : at.end() + 60] for mark in marks for at in re.finditer(re.escape(mark), text)
    ]


@pytest.mark.parametrize("name", [*STRANGERS[:2], "other_program"])
def test_no_page_says_anything_about_another_site(strangers: World, name: str):
    client = strangers.client(name)
    found = []
    for route, url in urls(strangers):
        for method in ("GET", "POST") if "?" not in url else ("GET",):
            answer = ask(client, method, url)
            where = f"{method} {url} ({route}) as {name}, {answer.status_code}"
            found += [f"{where}: …{part}…" for part in leaks(body(answer), url, strangers.marks)]
            found += [f"{where}: {value}" for value in answer.headers.values() if leaks(value, url, strangers.marks)]
    assert not found, "\n" + "\n".join(found)


def test_who_belongs_there_reads_the_marks(world: World):
    """So that the test above can fail: each text is there for the supervisor of Hall 1."""
    client = world.client("supervisor")
    read = "".join(body(client.get(url)) for route, url in urls(world) if "delete" not in route)
    for text in ("hall", "robot", "place", "mission", "template", "letter", "trouble", "reason", "person"):
        assert f"Zebra-{text}" in read, f"nobody reads Zebra-{text}"
    read = body(world.client("admin").get("/admin/fleet/robot/RB-ZEBRA/change/"))
    assert "Zebra-credential" in read


VOLATILE = (
    (r'name="csrfmiddlewaretoken" value="\w+"', ""),
    (r'"csrfToken": "\w+"', ""),
    (r'name="once" value="\w+"', ""),
    (r"\b\d+\s(s|seconds?|minutes?)\b", "some time"),
    (r"\d\d:\d\d(:\d\d)?(\.\d+)?", "a time"),
)


def steady(text: str) -> str:
    for pattern, instead in VOLATILE:
        text = re.sub(pattern, instead, text)
    return text


def bodies(client: Client, world: World) -> dict[str, str]:
    return {url: steady(body(client.get(url))) for _route, url in urls(world, lists=True)}


@pytest.mark.parametrize("name", ["other_supervisor", "other_admin"])
def test_no_page_becomes_different_when_something_happens_at_another_site(strangers: World, brand, name: str):
    """Counts, pagers, filters and tiles too: the same pages before and after."""
    client, by = strangers.client(name), by_user(strangers.people["supervisor"])
    if name == "other_admin":  # of people and sites as well
        User.objects.create(username="Own person")
    before = bodies(client, strangers)
    site_actions.add_place(strangers.site, name="Zebra-more", x=5, y=5, by=by)
    fleet_actions.enrol_robot(id="RB-ZEBRA-2", name="Zebra-two", site=strangers.site, brand=brand, by=by)
    stopping.stop_robot("RB-ZEBRA-2", why="Zebra-why", by=by)
    steps = [{"command": "navigate", "params": {"place": "Zebra-more"}}]
    for robot in ("RB-ZEBRA-2", None):
        drawing_up.draft_mission(title="Zebra-more", site=strangers.site, robot=robot, steps=steps, by=by)
    user("Zebra-new", "supervisor", strangers.site)
    letter = DeadLetter.objects.get()
    DeadLetter.objects.create(
        direction="out",
        robot_id="RB-ZEBRA-2",
        msg_id=letter.msg_id,
        reason="r",
        body="{}",
        created_at=letter.created_at,
    )
    after = bodies(client, strangers)
    changed = [f"{url}: {_first_difference(before[url], after[url])}" for url in before if before[url] != after[url]]
    assert not changed, "\n" + "\n".join(changed)


def _first_difference(one: str, other: str) -> str:
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"…{one[max(0, at - 80) : at + 60]!r} became …{other[max(0, at - 80) : at + 60]!r}"


@pytest.mark.parametrize("name", STRANGERS[1:2])
def test_what_is_elsewhere_and_what_is_nowhere_are_told_alike(strangers: World, name: str):
    """A refusal that differs would tell which robots, missions and people another site has."""
    client = strangers.client(name)
    different = []
    for route, line in table.LINES.items():
        if "<" not in route or (line.get.about != "here" and line.post.about != "here"):
            continue
        real, made_up = strangers.url(route), strangers.url(route, nowhere=True)
        for method in ("GET", "POST"):
            one, other = ask(client, method, real), ask(client, method, made_up)
            if one.status_code != other.status_code:
                different.append(f"{method} {route} as {name}: {one.status_code}, of nothing {other.status_code}")
    assert not different, "\n" + "\n".join(different)

"""What a form does not offer it does not take either: sites, robots and places of others, written by hand."""

import pytest

from fleet.models import Place, Robot, Site
from fleet.sites.actions import add_place
from missions.models import Mission
from tests.access.world import World
from tests.actors import SYSTEM

STEP = {"steps-TOTAL_FORMS": "1", "steps-INITIAL_FORMS": "0", "steps-0-command": "navigate"}
HEAD = {"title": "Foreign", "priority": "0", "timeout_s": "60", "importance": "normal"}


@pytest.mark.parametrize(
    ("where", "robot", "place", "taken"),
    [
        ("own", "RB-OWN", "Dock A", True),  # so that the others can fail
        ("other", "", "Dock A", False),
        ("other", "RB-ZEBRA", "Zebra-place", False),
        ("own", "RB-ZEBRA", "Dock A", False),
        ("own", "RB-OWN", "Zebra-place", False),
    ],
)
def test_nobody_draws_up_a_mission_elsewhere(
    world: World, other_site: Site, where: str, robot: str, place: str, taken: bool
):
    client, before = world.client("other_supervisor"), Mission.objects.count()
    site = other_site.pk if where == "own" else world.site.pk
    data = {**HEAD, **STEP, "site": site, "robot": robot, "steps-0-place": place}
    answer = client.post("/admin/missions/mission/add/", data)
    assert (Mission.objects.count() > before) is taken, answer.content.decode()[:2000]
    checked = client.post("/admin/missions/mission/check/", data).content.decode()
    for secret in ("Zebra-hall", "Zebra-robot"):
        assert secret not in checked and secret not in answer.content.decode()


def test_nobody_moves_a_robot_or_a_place_elsewhere(world: World, other_site: Site, brand):
    client = world.client("other_admin")
    data = {"name": "Own robot", "site": world.site.pk, "brand": brand.pk}
    assert client.post("/admin/fleet/robot/RB-OWN/edit/", data).status_code == 200
    assert Robot.objects.get(pk="RB-OWN").site == other_site
    client.post("/admin/fleet/robot/add/", {**data, "id": "RB-NEW"})
    assert not Robot.objects.filter(pk="RB-NEW").exists()
    client.post("/admin/fleet/place/add/", {"site": world.site.pk, "name": "Foreign", "x": 1, "y": 1, "theta": 0})
    assert not Place.objects.filter(name="Foreign").exists()


def test_stop_all_stops_the_own_sites(world: World, other_site: Site):
    client = world.client("other_supervisor")
    add_place(other_site, name="Any", x=1, y=1, by=SYSTEM)
    before = Robot.objects.get(pk="RB-ZEBRA").version
    assert client.post("/fleet/stop?site=all", {}).status_code == 302
    assert client.post("/fleet/stop", {"robots": "RB-OWN RB-ZEBRA"}).status_code == 404
    assert client.post(f"/fleet/stop?site={world.site.pk}").status_code == 404
    assert Robot.objects.get(pk="RB-ZEBRA").version == before
    assert Robot.objects.get(pk="RB-OWN").holds.filter(released_at=None).exists()

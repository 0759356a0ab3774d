"""Robots in admin: enrol, edit, stop, release, retire, credentials; a token is shown once and kept nowhere."""

import shlex

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.history import by_user
from fleet.models import Event, Hold, Robot, RobotCredential
from fleet.robots import actions, stopping
from fleet.robots.credentials import robot_of_token
from fleet.sites.actions import add_place
from missions import actions as missions
from missions import drawing_up
from missions.models import Mission
from telemetry.simulator.robot import Config
from tests.actors import STEPS, SYSTEM, online

pytestmark = pytest.mark.django_db
LIST = "/admin/fleet/robot/"
ROBOT = f"{LIST}RB-001/"


def said(answer) -> list[str]:
    return [str(m) for m in answer.context["messages"]]


def test_enrol_and_edit(client, admin_person, site, brand):
    client.force_login(admin_person)
    data = {"id": "AGV_7.b-1", "name": "Ella", "site": site.pk, "brand": brand.pk, "mode": "idle", "version": "9"}
    answer = client.post(f"{LIST}add/", data)
    robot = Robot.objects.get()
    assert (robot.pk, robot.name, robot.mode, robot.version) == ("AGV_7.b-1", "Ella", "unknown", 1)
    assert answer.url == f"{LIST}AGV_5F7.b-1/connect/"  # what to do next
    assert client.get(answer.url).status_code == 200
    client.post(answer.url.replace("connect", "edit"), {**data, "id": "other", "name": "Elsa"})
    assert list(Robot.objects.values_list("pk", "name", "mode")) == [("AGV_7.b-1", "Elsa", "unknown")]
    event = Event.objects.latest("id")
    assert (event.kind, event.actor_name) == ("robot.edited", admin_person.get_username())


@pytest.mark.parametrize("key", ["", " ", "a b", "ä", "a/b", "x" * 65, "a\n", "a\x00", "<b>"])
def test_the_form_of_an_id_is_checked(client, admin_person, site, brand, key):
    client.force_login(admin_person)
    answer = client.post(f"{LIST}add/", {"id": key, "name": "Ella", "site": site.pk, "brand": brand.pk})
    if key == "a\n":  # a browser's trailing line break is trimmed
        assert Robot.objects.get().pk == "a"
        return
    assert answer.context["form"].errors["id"]
    assert not Robot.objects.exists()


def test_an_id_is_enrolled_once(client, admin_person, robot, site, brand):
    client.force_login(admin_person)
    answer = client.post(f"{LIST}add/", {"id": robot.pk, "name": "Twin", "site": site.pk, "brand": brand.pk})
    assert "already enrolled" in str(answer.context["form"].non_field_errors())
    assert Robot.objects.get().name == "Ella"


def test_stop_holds_at_once_and_release_is_another_button(client, supervisor, robot):
    client.force_login(supervisor)
    for _ in range(2):  # never refused
        assert said(client.post(f"{ROBOT}stop/", {"reason": "aisle"}, follow=True))[0].startswith("Stopping RB-001…")
    hold = Hold.objects.get()
    assert (hold.kind, hold.why, hold.by, hold.released_at) == ("stopped", "aisle", "Ana", None)
    html = client.get(f"{ROBOT}change/").content.decode()
    assert "On hold" in html
    assert "Stopping…" in html
    answer = client.post(f"{ROBOT}release/", {"number": hold.number}, follow=True)
    assert said(answer) == ["Released: RB-001 may move again."]
    assert said(client.post(f"{ROBOT}release/", {"number": hold.number}, follow=True))[0].startswith(
        "There was no such"
    )
    assert Hold.objects.get().released_by == "Ana"


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "²", "9" * 30, "\x00"])
def test_a_forged_number_is_refused_in_words(client, admin_person, robot, number):
    client.force_login(admin_person)
    for verb in ("release", "revoke"):
        answer = client.post(f"{ROBOT}{verb}/", {"number": number}, follow=True)
        assert "number" in said(answer)[0]


def test_a_token_is_shown_once_and_kept_nowhere(client, admin_person, robot):
    client.force_login(admin_person)
    form = {"reason": "spring <b>key</b>", "once": client.get(f"{ROBOT}connect/").context["once"]}
    answer = client.post(f"{ROBOT}issue/", form)
    token = answer.context["token"]
    assert robot_of_token(token) == "RB-001"
    assert token in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    for url in (
        f"{ROBOT}change/",
        "/admin/fleet/event/",
        f"/admin/fleet/event/{Event.objects.latest('id').pk}/change/",
    ):
        html = client.get(url).content.decode()
        assert token not in html
        assert RobotCredential.objects.get().digest not in html
    assert not any(token in str(session) for session in client.session.values())
    client.post(f"{ROBOT}revoke/", {"number": RobotCredential.objects.get().number})
    assert robot_of_token(token) is None
    assert "Revoked" in client.get(f"{ROBOT}change/").content.decode()


def test_the_command_line_runs_a_robot_and_nothing_else(client, admin_person, robot, site):
    """A hostile place cannot break out of it, and the simulator understands it."""
    add_place(site, name="'; touch /tmp/x; '", x=0, y=0, by=SYSTEM)
    client.force_login(admin_person)
    answer = client.post(f"{ROBOT}issue/", {"once": "0" * 32})
    words = shlex.split(answer.context["command_line"])
    assert (words[0], words[2:]) == ("echo", ["|", ".venv/bin/python", "-m", "telemetry.simulator.robot", "RB-001"])
    config = msgspec.json.decode(words[1], type=Config)
    assert (config.id, config.token) == ("RB-001", answer.context["token"])
    assert "'; touch /tmp/x; '" in [p.name for p in config.places]


def test_retire_and_back(client, admin_person, robot, dispatched):
    client.force_login(admin_person)
    assert "has a mission" in said(client.post(f"{ROBOT}retire/", follow=True))[0]
    assert Robot.objects.get().retired_at is None
    missions.cancel_mission(dispatched.pk, by=by_user(admin_person))
    client.post(f"{ROBOT}retire/")
    assert Robot.objects.get().retired_at
    assert not client.get(LIST).context["cl"].result_list
    assert len(client.get(f"{LIST}?service=retired").context["cl"].result_list) == 1
    client.post(f"{ROBOT}reinstate/")
    assert Robot.objects.get().retired_at is None


def test_an_auditor_reads_everything_and_finds_no_button(client, auditor, supervisor, robot):
    stopping.stop_robot("RB-001", by=by_user(supervisor), why="aisle")
    client.force_login(auditor)
    answer = client.get(f"{ROBOT}change/")
    html = answer.content.decode()
    assert "aisle" in html
    assert 'method="post"' not in html.replace('id="logout-form" method="post"', "")
    assert [e.words for e in answer.context["entries"]] == [
        "Enrolled as Ella",
        "Link: online",
        "On hold, stopped: aisle",
    ]


def test_a_sentence_without_a_reason_ends_well(client, auditor, supervisor, robot):
    stopping.stop_robot("RB-001", by=by_user(supervisor))
    client.force_login(auditor)
    assert client.get(f"{ROBOT}change/").context["entries"][-1].words == "On hold, stopped"


def test_history_of_one_aggregate_can_be_found_and_read(client, auditor, supervisor, mission, dispatched):
    client.force_login(auditor)

    def shown(query: str) -> list:
        return [line.event for line in client.get(f"/admin/fleet/event/?{query}").context["lines"]]

    found = shown(f"q={mission.pk}")
    assert [e.kind for e in found] == ["mission.dispatched", "mission.drafted"]
    page = client.get(f"/admin/fleet/event/{found[0].pk}/change/")
    html = page.content.decode()
    assert "Dispatched to Ella" in html
    assert 'name="_save"' not in html
    assert found[0].cause in html
    assert "object-tools" not in html
    assert found[0].pk in {e.pk for e in shown(f"q={found[0].trace_id}")}
    for query, count in (("what=robot.enrolled", 1), ("by=user&what=mission.", 2), ("what=no.such", 0)):
        assert len(shown(query)) == count


def test_the_start_page_counts_what_the_user_may_see(client, supervisor, outsider, robot, other_robot, mission):
    from telemetry.pages.overview import overview

    stopping.stop_robot("RB-001", by=by_user(supervisor), why="aisle")
    client.force_login(supervisor)
    html = client.get("/admin/").content.decode()
    assert "1 robot stopped by a person" in html
    seen = overview(supervisor)
    assert {t.label: t.number for t in seen["robots"]}["Online"] == 2
    assert sum(t.number for t in seen["missions"]) == 1
    nobodys = overview(outsider)
    assert (nobodys["robots"], nobodys["missions"], nobodys["alerts"]) == ([], [], [])


def test_what_waits_for_a_person_links_to_a_list_of_just_that(client, admin_person, robot, other_robot, mission):
    from telemetry.pages.overview import overview

    by = by_user(admin_person)
    actions.set_maintenance("RB-001", why="wheel", by=by)
    stopping.stop_robot("RB-002", by=by)
    drawing_up.draft_mission(title="Ask", site=robot.site, steps=STEPS, needs_approval=True, by=by)
    client.force_login(admin_person)
    needs = {line.words: line.url for line in overview(admin_person)["needs"]}

    def shown(words):
        return [str(row.pk) for row in client.get(needs[words]).context["cl"].result_list]

    assert shown("1 robot in maintenance") == ["RB-001"]
    assert shown("1 mission to be approved") == [str(Mission.objects.get(title="Ask").pk)]


def test_a_robot_list_asks_as_much_for_many_as_for_few(client, auditor, admin_person, site, brand):
    client.force_login(auditor)
    by = by_user(admin_person)

    def more(numbers):
        for i in numbers:
            actions.enrol_robot(id=f"X{i}", name="x", site=site, brand=brand, by=by)
            online(f"X{i}")
            if i % 2:
                stopping.stop_robot(f"X{i}", by=by)
            else:
                missions.dispatch_mission(
                    drawing_up.draft_mission(title="t", site=site, robot=f"X{i}", steps=STEPS, by=by), by=by
                )

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            rows = client.get(f"{LIST}?service=all&all=").context["cl"].result_list
        assert len(rows) == Robot.objects.count()
        return len(queries)

    more(range(5))
    asked()
    few = asked()
    more(range(5, 200))
    asked()  # on a busy machine a minute has gone by, and the session is noted as seen again
    assert asked() == few


def test_the_list_says_what_each_is_at_and_finds_those_that_need_someone(client, supervisor, dispatched, other_robot):
    actions.set_maintenance("RB-002", why="brakes", by=by_user(supervisor))
    client.force_login(supervisor)
    html = client.get(LIST).content.decode()
    assert "Fetch" in html and "dispatching…" in html and "brakes" in html

    def shown(which: str) -> list[str]:
        return [r.pk for r in client.get(f"{LIST}?held={which}").context["cl"].result_list]

    assert (shown("work"), shown("no"), shown("maintenance"), shown("need")) == (["RB-001"], [], ["RB-002"], [])
    online("RB-001", "offline")
    stopping.stop_robot("RB-002", by=by_user(supervisor))
    assert shown("need") == ["RB-001", "RB-002"]
    counts = {d.name: d.count for d in client.get(LIST).context["cl"].daily}
    assert (counts["need"], counts["yes"], counts["away"]) == (2, 1, 1)


def test_a_daily_link_keeps_search_and_site_and_counts_what_it_shows(
    client, admin_person, robot, other_robot, other_site, brand
):
    actions.enrol_robot(id="RB-003", name="Ella too", site=other_site, brand=brand, by=by_user(admin_person))
    stopping.stop_robot("RB-003", by=by_user(admin_person))
    stopping.stop_robot("RB-002", by=by_user(admin_person))
    client.force_login(admin_person)

    def links(query: str) -> tuple[dict[str, str], dict[str, int]]:
        shown = client.get(f"{LIST}{query}").context["cl"]
        found = {link.name: link.address for link in shown.daily} | {"": shown.whole}
        for link in shown.daily:
            assert client.get(f"{LIST}{link.address}").context["cl"].result_count == link.count, (query, link)
        return found, {link.name: link.count for link in shown.daily if link.count}

    assert links("")[1] == {"need": 2, "yes": 2, "no": 1}
    found, counts = links(f"?q=ella&site__id__exact={robot.site_id}&presence__exact=online&held=yes&o=2&p=1")
    assert found["need"] == f"?held=need&o=2&q=ella&site__id__exact={robot.site_id}"
    assert found[""] == f"?o=2&q=ella&site__id__exact={robot.site_id}"
    assert counts == {"no": 1}
    assert links(f"?site__id__exact={other_site.pk}&service=retired")[1] == {"need": 1, "yes": 1}
    assert client.get(f"{LIST}?site__id__exact=x").status_code == 302

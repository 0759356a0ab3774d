"""Many missions at once: asked once, done each for itself, reported per mission, and only by those who may."""

import pytest

from fleet.history import by_user
from fleet.models import Event
from fleet.refusals import Refused
from missions import actions, drawing_up, facts
from missions.admin.mission_bulk import BULKS
from missions.models import Mission, State
from tests.actors import STEPS, tell

pytestmark = pytest.mark.django_db
LIST = "/admin/missions/mission/"


def draw(robot, person, title: str, **more) -> Mission:
    pk = drawing_up.draft_mission(title=title, site=robot.site_id, robot=robot, steps=STEPS, by=by_user(person), **more)
    return Mission.objects.get(pk=pk)


def choose(client, action: str, *missions: Mission, **more):
    """What the list's action menu sends; `confirmed` is what the question's button adds."""
    data = {"action": action, "_selected_action": [str(m.pk) for m in missions], **more}
    if "confirmed" in more:
        seen = Mission.objects.filter(pk__in=[m.pk for m in missions]).values_list("pk", "version")
        data = {"seen": " ".join(f"{pk}:{version}" for pk, version in seen), **data}
    return client.post(LIST, data | ({} if "confirmed" in more else {"index": "0"}), follow=True)


def said(answer) -> str:
    (message,) = answer.context["messages"]
    return str(message)


def test_the_question_names_what_it_touches_and_changes_nothing(client, supervisor, robot):
    first, second = draw(robot, supervisor, "<b>First</b>"), draw(robot, supervisor, "Second")
    client.force_login(supervisor)  # which is an event, too
    before = Event.objects.count()
    html = choose(client, "cancel", first, second).content.decode()
    assert "Cancel: 2 missions" in html and "cannot be revived" in html
    assert "&lt;b&gt;First&lt;/b&gt;" in html and "Second" in html and "<b>First" not in html
    assert Event.objects.count() == before


def test_cancel_many_reports_each_and_a_refusal_stops_nothing(client, supervisor, dispatched, other_robot, monkeypatch):
    tell(dispatched, facts.Accepted(1))
    drawn, broken = draw(other_robot, supervisor, "Drawn up"), draw(other_robot, supervisor, "<i>Broken</i>")
    real = actions.cancel_mission

    def cancel(mission_id, **more):
        if mission_id == broken.pk:
            raise Refused("It is locked for the inspection. Ask the inspector.")
        return real(mission_id, **more)

    monkeypatch.setattr(actions, "cancel_mission", cancel)
    client.force_login(supervisor)
    words = said(choose(client, "cancel", dispatched, broken, drawn, confirmed="1", text="wrong aisle"))
    assert words.startswith("Cancel: 1 cancelled, 1 stopping, 1 refused.") or words.startswith(
        "Cancel: 1 stopping, 1 cancelled, 1 refused."
    )
    assert "“<a" in words and "Drawn up</a>”: cancelled" in words
    assert "&lt;i&gt;Broken&lt;/i&gt;</a>”: refused. It is locked for the inspection. Ask the inspector." in words
    assert words.index("Broken") < words.index("Drawn up"), "what was refused comes first"
    assert Mission.objects.get(pk=drawn.pk).abort_detail == "wrong aisle"
    assert Mission.objects.get(pk=dispatched.pk).stop_requested_at
    assert Mission.objects.get(pk=broken.pk).state == State.PENDING


def test_every_line_of_the_menu_does_its_thing(client, supervisor, admin_person, robot):
    client.force_login(admin_person)
    mission = draw(robot, supervisor, "Round", needs_approval=True)

    def do(action, **more):
        return said(choose(client, action, mission, confirmed="1", **more)).split("<ul")[0]

    assert do("run") == "Run: 1 refused."
    assert do("approve") == "Approve: 1 approved."
    assert do("priority", text="7") == "Set priority: 1 moved in the queue."
    assert do("priority", text="high") == "Set priority: 1 refused."
    actions.queue_mission(draw(robot, supervisor, "Before it").pk, by=by_user(supervisor))
    assert do("run") == "Run: 1 waiting."
    assert do("withdraw") == "Take out of the queue: 1 out of the queue."
    assert do("pause") == "Pause: 1 refused."
    other = Mission.objects.get(title="Before it")
    tell(other, facts.Accepted(1))
    assert said(choose(client, "pause", other, confirmed="1")).startswith("Pause: 1 asked to pause.")
    assert said(choose(client, "resume", other, confirmed="1")).startswith("Resume: 1 asked to resume.")
    assert do("rerun") == "Rerun all steps: 1 refused."
    assert do("cancel") == "Cancel: 1 cancelled."
    assert do("rerun") == "Rerun all steps: 1 drawn up again."
    mission = Mission.objects.get(pk=mission.pk)
    assert (mission.priority, mission.state) == (7, State.ABORTED)
    assert Mission.objects.get(origin=mission.pk).origin_kind == "rerun"


def test_what_must_be_given_is_asked_for_again(client, supervisor, robot):
    mission = draw(robot, supervisor, "Round")
    client.force_login(supervisor)
    html = choose(client, "priority", mission, confirmed="1").content.decode()
    assert "This is needed: Priority, from -100 to 100." in html
    assert Mission.objects.get().version == 1


def test_what_changed_since_the_question_is_reported_too(client, supervisor, robot):
    """The confirmation does not look through the filter of the list that it came from."""
    mission = draw(robot, supervisor, "Round")
    actions.cancel_mission(mission.pk, by=by_user(supervisor))
    client.force_login(supervisor)
    data = {"action": "cancel", "_selected_action": str(mission.pk), "confirmed": "1", "query": "shown=draft"}
    answer = client.post(LIST, data)
    assert answer.url == f"{LIST}?shown=draft"
    assert "had ended (aborted)" in said(client.get(answer.url))


def test_only_those_who_may_and_only_their_sites(client, auditor, supervisor, other_supervisor, robot):
    mission = draw(robot, supervisor, "Round")
    client.force_login(auditor)
    assert "name=&quot;action&quot;" not in client.get(LIST).content.decode()
    for action in (bulk.name for bulk in BULKS):
        choose(client, action, mission, confirmed="1", text="1")
    client.force_login(other_supervisor)
    choose(client, "cancel", mission, confirmed="1")
    assert Mission.objects.get().version == 1


@pytest.mark.parametrize("data", [{"action": "delete_selected"}, {"action": "nonsense"}, {"action": ""}])
def test_nothing_else_can_be_done_to_many(client, admin_person, supervisor, robot, data):
    mission = draw(robot, supervisor, "Round")
    client.force_login(admin_person)
    for more in ({"index": "0"}, {"confirmed": "1"}):
        assert client.post(LIST, data | more | {"_selected_action": str(mission.pk)}).status_code in (200, 302)
    assert Mission.objects.get().version == 1

"""Templates in admin: drawn up with parameters, made into missions, and text everywhere."""

import pytest

from fleet.history import by_user
from missions import templates
from missions.models import Mission, Template
from tests.actors import STEPS

pytestmark = pytest.mark.django_db
LIST = "/admin/missions/template/"
ADD = f"{LIST}add/"
HOSTILE = "<img src=x onerror=alert(1)>"
FETCH = [
    {"command": "pick", "place": "{source}", "load": "pallet {number}"},
    {"command": "wait", "seconds": "{pause}"},
    {"command": "drop", "place": "Shelf 3"},
]
ASKS = [
    {"name": "source", "type": "place", "label": "From", "default": ""},
    {"name": "number", "type": "number", "default": "7"},
    {"name": "pause", "type": "number", "default": "2.5"},
]


def sent(site, steps=FETCH, parameters=ASKS, **head) -> dict:
    data = {
        "name": "Fetch",
        "site": site.pk,
        "title": "Fetch {number} from {source}",
        "priority": "3",
        "timeout_s": "300",
    }
    data |= {"importance": "important"} | head
    for prefix, rows in (("steps", steps), ("parameters", parameters)):
        data |= {f"{prefix}-TOTAL_FORMS": str(len(rows)), f"{prefix}-INITIAL_FORMS": "0"}
        data |= {f"{prefix}-{i}-{name}": value for i, row in enumerate(rows) for name, value in row.items()}
    return data


def url(template: Template, verb: str = "change") -> str:
    return f"{LIST}{template.pk}/{verb}/"


def test_a_template_becomes_missions(client, supervisor, robot):
    client.force_login(supervisor)
    assert "No templates yet" in client.get(LIST).content.decode()
    answer = client.post(ADD, sent(robot.site), follow=True)
    template = Template.objects.get()
    assert answer.redirect_chain[-1][0] == url(template)
    html = answer.content.decode()
    for words in ("Pick {source}, pallet {number}", "From</span> (place)", "usually", "New mission from it"):
        assert words in html
    form = client.get(url(template, "use")).context["form"]
    assert {name: field.initial for name, field in form.fields.items() if name != "robot"} == {
        "value-source": "", "value-number": 7, "value-pause": 2.5,
    }  # fmt: skip
    values = {"value-source": "Dock A", "value-number": "12", "value-pause": "4", "robot": "", "_run": "1"}
    answer = client.post(url(template, "use"), values, follow=True)
    mission = Mission.objects.get()
    assert (mission.title, mission.priority, mission.importance) == ("Fetch 12 from Dock A", 3, "important")
    assert [(s.command, s.params, s.timeout_s) for s in mission.steps.all()] == [
        ("pick", {"place": "Dock A", "load": "pallet 12"}, 60),
        ("wait", {"seconds": 4.0}, 64),
        ("drop", {"place": "Shelf 3", "load": ""}, 60),
    ]
    assert (mission.template_id, mission.origin_kind, mission.robot_id) == (template.pk, "template", "RB-001")
    assert [str(m) for m in answer.context["messages"]] == ["It is drawn up. Dispatched to Ella."]


def test_edit_keeps_what_was_entered(client, supervisor, robot):
    client.force_login(supervisor)
    client.post(ADD, sent(robot.site))
    template = Template.objects.get()
    forms = client.get(url(template, "edit")).context
    assert [row["place"].value() for row in forms["steps"]][:3] == ["{source}", None, "Shelf 3"]
    assert [row["seconds"].value() for row in forms["steps"]][1] == "{pause}"
    assert [row["name"].value() for row in forms["parameters"]][:3] == ["source", "number", "pause"]
    assert client.post(url(template, "edit"), sent(robot.site, name="Bring", version="1")).status_code == 302
    assert Template.objects.get().name == "Bring"
    answer = client.post(url(template, "edit"), sent(robot.site, version="1"))
    assert "has changed since you looked" in answer.content.decode()
    answer = client.post(url(template, "edit"), sent(robot.site))
    assert "out of date" in answer.content.decode()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": ""}, "Name: This is needed."),
        ({"title": ""}, "Title of its missions: This is needed."),
        ({"title": "Fetch {what}"}, "{what} is no parameter of this template."),
        ({"steps": [{"command": "pick", "place": "Mars"}]}, "Step 1, place: Mars is no place of this site."),
        ({"steps": [{"command": "pick", "place": "{nowhere}"}]}, "Step 1, place: {nowhere} is no place of this site."),
        ({"steps": [{"command": "wait", "seconds": "long"}]}, "Step 1, wait for (s): More than 0"),
        ({"steps": [{"command": "wait", "seconds": "0"}]}, "Step 1, wait for (s): More than 0"),
        ({"steps": [{"command": "custom", "name": "x"}]}, "Step 1, command: Robots of this brand cannot do custom"),
        ({"steps": []}, "A mission needs at least one step."),
        ({"parameters": [{"name": "Not a name", "type": "text"}]}, "Parameter 1, name: Small letters, digits"),
        ({"parameters": [*ASKS, {"name": "a", "type": "sea"}]}, "Parameter 4, type: "),
        ({"priority": "-999"}, "Priority: "),
    ],
)
def test_what_is_wrong_is_said_and_nothing_stored(client, supervisor, robot, more, said):
    client.force_login(supervisor)
    answer = client.post(ADD, sent(robot.site, **more))
    assert answer.status_code == 200
    assert any(said in p.text for p in answer.context["problems"]), answer.context["problems"]
    assert ('class="panel more" open' in answer.content.decode()) == ("priority" in more), (
        "what is wrong is not folded away"
    )
    assert not Template.objects.exists()


def saved(site, person, **more) -> Template:
    fields = {"name": "Round", "site": site, "title": "Round", "steps": STEPS, "by": by_user(person)} | more
    return Template.objects.get(pk=templates.save_template(**fields))


@pytest.mark.parametrize("values", [{}, {"value-to": "Mars"}, {"value-to": ""}])
def test_a_mission_asks_for_what_is_missing(client, supervisor, robot, values):
    steps = [{"command": "navigate", "params": {"place": "{to}"}}]
    template = saved(robot.site, supervisor, steps=steps, parameters=[{"name": "to", "type": "place", "label": "To"}])
    client.force_login(supervisor)
    answer = client.post(url(template, "use"), {"_save": "1", **values})
    assert answer.status_code == 200 and answer.context["form"].errors["value-to"]
    assert not Mission.objects.exists()


def test_out_of_use_means_no_more_missions(client, supervisor, robot):
    template = saved(robot.site, supervisor)
    client.force_login(supervisor)
    answer = client.post(url(template, "retire"), follow=True)
    assert "Out of use since" in answer.content.decode() and "New mission from it" not in answer.content.decode()
    assert "is out of use" in client.post(url(template, "use"), {"_save": "1"}).content.decode()
    assert len(client.get(LIST).context["cl"].result_list) == 0
    assert len(client.get(f"{LIST}?use=retired").context["cl"].result_list) == 1
    assert client.get(url(template, "edit")).url == url(template)


def test_each_sees_and_does_what_they_may(client, auditor, supervisor, other_supervisor, robot):
    template = saved(robot.site, supervisor)
    client.force_login(auditor)
    assert client.get(url(template)).status_code == 200
    assert [client.get(u).status_code for u in (ADD, url(template, "use"), url(template, "edit"))] == [403, 403, 403]
    client.force_login(other_supervisor)
    for verb in ("change", "use", "edit", "retire"):
        assert client.post(url(template, verb), {}).status_code == 404, verb
    assert not client.get(LIST).context["cl"].result_list


def test_text_is_text(client, supervisor, robot):
    asks = [{"name": "what", "type": "text", "label": HOSTILE, "default": HOSTILE}]
    template = saved(robot.site, supervisor, name=HOSTILE, title=HOSTILE + "{what}", parameters=asks)
    client.force_login(supervisor)
    for address in (LIST, url(template), url(template, "edit"), url(template, "use")):
        answer = client.get(address)
        assert (answer.status_code, "<img src=x" in answer.content.decode()) == (200, False), address

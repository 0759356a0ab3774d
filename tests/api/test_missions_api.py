"""Missions over the API: drawn up once, run, steered, and told apart by request and trace."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, Permission
from django.utils import timezone

from fleet.models import ApiRequest, Event
from missions import actions
from missions.facts import Accepted, Paused
from missions.models import Mission
from tests.actors import SYSTEM, tell
from tests.together import together


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

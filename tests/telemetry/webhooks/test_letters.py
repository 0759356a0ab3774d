"""What could not be sent for a day is a dead letter, which may be sent again."""

import json

import pytest

from fleet.history import by_user
from fleet.refusals import Refused
from missions import actions
from missions.letters import actions as letter_actions
from missions.models import DeadLetter
from telemetry.out.models import Sending
from telemetry.out.webhooks import actions as webhooks
from telemetry.out.webhooks import sending
from tests.actors import SYSTEM
from tests.telemetry.webhooks.sending import after, fan_out, send, states


def test_after_a_day_it_is_given_up_and_what_follows_goes_on(hook, there, mission, supervisor):
    fan_out()
    send(hook)
    there.answers["mission.priority_set"] = 422
    actions.set_priority(mission.pk, priority=60, by=by_user(supervisor))
    actions.cancel_mission(mission.pk, by=by_user(supervisor))
    fan_out()
    send(hook, after(23.9 * 3600))
    assert "dead" not in states()
    send(hook, after(25.1 * 3600))
    assert states()[-2:] == ["dead", "delivered"]
    [letter] = DeadLetter.objects.all()
    assert (letter.direction, letter.robot_id, letter.kind, letter.state) == (
        "web",
        "RB-001",
        "mission.priority_set",
        "open",
    )
    assert json.loads(letter.body)["about_id"] == str(mission.pk)
    assert letter.reason == "the webhook “MES” did not take it: it answers 422"
    send_it_again(letter, by_user(supervisor))
    assert send(hook, after(23 * 3600)) == 1
    letter.refresh_from_db()
    assert letter.state == "requeued", "it is tried for another day"
    send(hook, after(60 * 3600))
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("failed", "It failed again: it answers 422")
    there.answers.clear()
    send_it_again(letter, by_user(supervisor))
    assert send(hook, after(61 * 3600)) == 1
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("applied", "The receiver has taken it.")
    assert there.got[-1]["kind"] == "mission.priority_set"
    assert DeadLetter.objects.count() == 1


def send_it_again(letter, by) -> None:
    assert letter_actions.requeue_letter(letter.pk, by=by) == "requeued"
    assert letter_actions.requeue_letter(letter.pk, by=by) == "requeued already"


def test_a_letter_of_a_webhook_that_is_off_or_of_long_ago_is_not_sent_again(hook, there, mission, supervisor):
    fan_out()
    there.answers[""] = 422
    send(hook, after(25 * 3600))
    letter = DeadLetter.objects.first()
    webhooks.disable_webhook(hook.pk, by=SYSTEM)
    with pytest.raises(Refused, match="switched off"):
        letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    Sending.objects.all().delete()
    with pytest.raises(Refused, match="not kept"):
        letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))


def test_a_requeued_letter_does_not_wait_for_a_webhook_that_is_switched_off(hook, there, mission, supervisor):
    fan_out()
    there.answers[""] = 422
    send(hook, after(25 * 3600))
    letter = DeadLetter.objects.first()
    letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    webhooks.disable_webhook(hook.pk, by=SYSTEM)
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("failed", "It failed again: its webhook was switched off")
    webhooks.enable_webhook(hook.pk, by=SYSTEM)
    there.answers[""] = 204
    assert letter_actions.requeue_letter(letter.pk, by=by_user(supervisor)) == "requeued"
    assert send(hook, after(26 * 3600)) == 1
    letter.refresh_from_db()
    assert letter.state == "applied"


def test_a_requeued_letter_whose_event_is_not_there_has_failed_again(hook, there, mission, supervisor, monkeypatch):
    def gone(_):
        raise LookupError("event 1")

    fan_out()
    there.answers[""] = 422
    send(hook, after(25 * 3600))
    letter = DeadLetter.objects.first()
    letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    monkeypatch.setattr(sending, "payload", gone)
    send(hook, after(26 * 3600))
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("failed", "It failed again: The event is not there.")
    with pytest.raises(Refused, match="not kept"):
        letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    assert letter_actions.discard_letter(letter.pk, by=by_user(supervisor), why="long ago") == "discarded"

"""Run, withdraw, approve, reorder, rerun, clone: what people do with missions beside steering them."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet import triggers
from fleet.history import Origin, by_user
from fleet.models import ApiToken, Brand, Event
from fleet.people.tokens import by_token, issue_token
from fleet.refusals import Refused
from fleet.robots.actions import enrol_robot, set_maintenance
from fleet.robots.stopping import stop_robot
from missions import actions, drawing_up
from missions.facts import Accepted, Cancel, Cancelled, Delivered, Finished, StepCompleted, StepFailed
from missions.ledger import Ledger
from missions.models import Mission
from missions.queue.waiting import why_waiting
from missions.timings import WAITS_LONG_S
from tests.actors import STEPS, SYSTEM, tell

WAIT = [{"command": "wait", "params": {"seconds": 1}}]


def draw_up(site, **over):
    return drawing_up.draft_mission(**{"title": "Wait", "site": site, "steps": WAIT, "by": SYSTEM} | over)


def get(pk) -> Mission:
    return Mission.objects.get(pk=pk)


def kinds(pk) -> list[str]:
    return [
        k.removeprefix("mission.")
        for k in Event.objects.filter(aggregate=f"mission:{pk}").values_list("kind", flat=True)
    ]


def edit(pk, site, version, **over):
    said = {"title": "Wait", "site": site, "steps": WAIT, "by": SYSTEM, "version": version}
    drawing_up.edit_mission(pk, **said | over)


def test_run_dispatches_at_once_when_it_can(mission, supervisor):
    assert actions.queue_mission(mission.pk, by=by_user(supervisor)) == "dispatched to Ella"
    assert kinds(mission.pk) == ["drafted", "queued", "dispatched"]
    asked, given = Event.objects.filter(aggregate=f"mission:{mission.pk}").order_by("seq")[1:]
    assert (asked.actor_name, given.actor_kind, given.cause) == ("Ana", "policy", asked.cause)


def test_run_says_why_it_waits_and_stays_in_the_queue(mission, supervisor):
    stop_robot("RB-001", by=by_user(supervisor), why="spill")
    said = actions.queue_mission(mission.pk, by=by_user(supervisor))
    assert said == "waits: Ella is on hold. Stopped by Ana: spill"
    row = get(mission.pk)
    assert row.queued_at and not row.dispatched_at
    assert row.next_due_at == row.queued_at + timedelta(seconds=WAITS_LONG_S)
    assert actions.queue_mission(mission.pk, by=by_user(supervisor)) == said  # asking twice is asking once
    assert kinds(mission.pk) == ["drafted", "queued"]


def test_one_that_names_no_robot_gets_one_and_says_why(site, robot, other_robot, supervisor):
    stop_robot("RB-001", by=SYSTEM)
    pk = draw_up(site)
    assert actions.queue_mission(pk, by=by_user(supervisor)) == "dispatched to Bruno"
    chosen = Event.objects.get(kind="mission.robot_chosen")
    assert '"refused":{"RB-001":"Ella is on hold. Stopped by test"}' in chosen.data
    assert "Bruno: the only one that can now; Ella is on hold" in chosen.data
    again = drawing_up.rerun_mission(ended(pk), by=SYSTEM)
    assert get(again).robot_id is None  # nobody had named one


def ended(pk):
    tell(get(pk), Delivered(), Accepted(1), StepCompleted(1, 1, 1), Finished(1))
    assert get(pk).state == "success"
    return pk


def test_whoever_is_before_it_goes_first(mission, other_robot, site, supervisor):
    actions.dispatch_mission(mission.pk, by=SYSTEM)
    first, second = draw_up(site, robot="RB-001", title="A"), draw_up(site, robot="RB-001", title="B")
    actions.queue_mission(first, by=SYSTEM)
    said = actions.queue_mission(second, by=SYSTEM)
    assert said == "waits: Ella is busy with “Fetch”; 2nd in Ella's queue, behind “A”"
    actions.set_priority(second, priority=5, by=SYSTEM)
    words = why_waiting(get(first))
    assert words == "Ella is busy with “Fetch”; 2nd in Ella's queue, behind “B”"
    assert why_waiting(get(second)) == "Ella is busy with “Fetch”"


def test_withdrawn_it_waits_no_more(mission, supervisor):
    stop_robot("RB-001", by=SYSTEM)
    actions.queue_mission(mission.pk, by=SYSTEM)
    actions.withdraw_mission(mission.pk, by=SYSTEM)
    assert (get(mission.pk).queued_at, get(mission.pk).next_due_at) == (None, None)
    with pytest.raises(Refused, match="not in the queue"):
        actions.withdraw_mission(mission.pk, by=SYSTEM)


def test_what_needs_approval_waits_for_somebody_else(site, robot, supervisor, admin_person):
    author, other = by_user(supervisor), by_user(admin_person)
    pk = draw_up(site, robot="RB-001", needs_approval=True, by=author)
    for verb in (actions.queue_mission, actions.dispatch_mission):
        with pytest.raises(Refused, match="needs approval"):
            verb(pk, by=author)
    with pytest.raises(Refused, match="themselves"):
        actions.approve_mission(pk, by=author)
    actions.approve_mission(pk, by=other, version=get(pk).version)
    assert (get(pk).approved_by, get(pk).approved_at is not None) == ("Ada", True)
    with pytest.raises(Refused, match="approved already, by Ada"):
        actions.approve_mission(pk, by=other)
    assert actions.queue_mission(pk, by=author) == "dispatched to Ella"


def test_a_superuser_may_approve_their_own_and_an_editor_may_not(site, robot, supervisor, admin_person):
    pk = draw_up(site, needs_approval=True, by=by_user(supervisor))
    edit(pk, site, 1, needs_approval=True, by=by_user(admin_person))
    with pytest.raises(Refused, match="themselves"):
        actions.approve_mission(pk, by=by_user(admin_person))
    admin_person.is_superuser = True
    admin_person.save()
    actions.approve_mission(pk, by=by_user(admin_person))
    assert get(pk).approved_at


def test_an_edit_takes_approval_and_place_in_the_queue_away(site, robot, supervisor, admin_person):
    stop_robot("RB-001", by=SYSTEM)
    pk = draw_up(site, robot="RB-001", needs_approval=True, by=by_user(supervisor))
    actions.approve_mission(pk, by=by_user(admin_person))
    actions.queue_mission(pk, by=by_user(supervisor))
    edit(pk, site, get(pk).version, robot="RB-001", needs_approval=True)
    row = get(pk)
    assert (row.approved_at, row.approved_by, row.queued_at, row.next_due_at) == (None, "", None, None)


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ({"queued_at": timezone.now(), "next_due_at": timezone.now()}, "mission_approved_before_it_runs"),
        ({"needs_approval": False, "queued_at": timezone.now()}, "mission_queued_has_deadline"),
    ],
)
def test_the_database_itself_keeps_the_unapproved_and_the_unwatched_out(site, robot, columns, constraint):
    pk = draw_up(site, needs_approval=True)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        triggers.drop()  # they would be faster; the savepoint brings them back
        Mission.objects.filter(pk=pk).update(**columns)


def test_an_edited_mission_keeps_its_place_when_nobody_has_to_approve_it(site, robot):
    stop_robot("RB-001", by=SYSTEM)
    pk = draw_up(site, robot="RB-001")
    actions.queue_mission(pk, by=SYSTEM)
    queued_at = get(pk).queued_at
    edit(pk, site, get(pk).version, title="Wait longer")
    assert (get(pk).queued_at, get(pk).title, get(pk).robot_id) == (queued_at, "Wait longer", None)


def test_what_began_is_not_reordered_or_withdrawn(dispatched):
    for verb in (
        lambda: actions.set_priority(dispatched.pk, priority=1, by=SYSTEM),
        lambda: actions.withdraw_mission(dispatched.pk, by=SYSTEM),
        lambda: actions.queue_mission(dispatched.pk, by=SYSTEM),
        lambda: actions.approve_mission(dispatched.pk, by=SYSTEM),
    ):
        with pytest.raises(Refused, match="dispatched already"):
            verb()


def test_rerun_of_all_and_of_what_was_not_done(dispatched, site):
    with pytest.raises(Refused, match="has not ended"):
        drawing_up.rerun_mission(dispatched.pk, by=SYSTEM)
    tell(dispatched, Delivered(), Accepted(1), StepCompleted(1, 1, 1), StepFailed(1, 2, 1, "dropped"), Cancelled(1))
    assert get(dispatched.pk).state == "aborted"
    whole = get(drawing_up.rerun_mission(dispatched.pk, by=SYSTEM))
    rest = get(drawing_up.rerun_mission(dispatched.pk, by=SYSTEM, unfinished=True))
    assert [s.command for s in whole.steps.all()] == ["navigate", "pick", "drop"]
    assert [(s.number, s.command) for s in rest.steps.all()] == [(1, "pick"), (2, "drop")]
    assert (rest.origin, rest.origin_kind, rest.state, rest.robot_id) == (dispatched.pk, "rerun", "pending", "RB-001")
    assert get(dispatched.pk).state == "aborted"  # revived is nothing


def test_nothing_unfinished_is_nothing_to_rerun(site, robot):
    pk = draw_up(site, robot="RB-001")
    actions.queue_mission(pk, by=SYSTEM)
    with pytest.raises(Refused, match="Every step was completed"):
        drawing_up.rerun_mission(ended(pk), by=SYSTEM, unfinished=True)


def test_a_clone_of_anything(mission):
    clone = get(drawing_up.clone_mission(mission.pk, by=SYSTEM))
    assert (clone.origin, clone.origin_kind, clone.title) == (mission.pk, "clone", "Fetch")
    assert list(clone.steps.values_list("command", "params")) == list(mission.steps.values_list("command", "params"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"importance": "urgent"}, "importance: Choose one of normal, important"),
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "expires_at: That time has passed"),
        ({"not_before": timezone.now().replace(tzinfo=None)}, "not_before: Say in which time zone"),
        ({"not_before": timezone.now() + timedelta(days=2), "expires_at": timezone.now() + timedelta(days=1)},
         "later than not_before"),
        ({"priority": 40000}, "priority"),
    ],
)  # fmt: skip
def test_what_may_not_be_said(site, robot, said, why):
    with pytest.raises(Refused, match=why):
        draw_up(site, **said)


def test_everything_that_was_said_is_kept(site, robot):
    early, late = timezone.now() + timedelta(hours=1), timezone.now() + timedelta(hours=2)
    first = draw_up(site)
    pk = draw_up(
        site, importance="important", not_before=early, expires_at=late, needs_approval=True, priority=3, after=[first]
    )
    row = get(pk)
    assert (row.importance, row.not_before, row.expires_at, row.needs_approval, row.priority) == (
        "important", early, late, True, 3,
    )  # fmt: skip
    assert (row.expires_due_at, row.next_due_at) == (late, late)
    assert [d.on_id for d in row.dependencies.all()] == [first]


# --- one after the other


def test_no_circles_no_strangers_no_lost_causes(site, other_site, robot):
    a = draw_up(site, title="A")
    b = draw_up(site, title="B", after=[a])
    c = draw_up(site, title="C", after=[b, b])
    assert get(c).dependencies.count() == 1
    for after in ([c], [b], [a]):
        with pytest.raises(Refused, match="would wait for itself"):
            edit(a, site, get(a).version, after=after)
    with pytest.raises(Refused, match="no mission"):
        draw_up(site, after=[site_mission(other_site)])
    actions.cancel_mission(a, by=SYSTEM)
    with pytest.raises(Refused, match="was aborted"):
        draw_up(site, after=[a])


def site_mission(other_site):
    enrol_robot(id="RB-900", name="Far", site=other_site, brand=Brand.objects.get(), by=SYSTEM)
    return draw_up(other_site)


def test_what_others_come_after_stays_at_its_site(site, other_site, robot):
    a = draw_up(site)
    draw_up(site, after=[a])
    site_mission(other_site)
    with pytest.raises(Refused, match="stays at its site"):
        edit(a, other_site, get(a).version)


def test_it_waits_for_what_comes_before(site, robot, other_robot):
    a = draw_up(site, title="A", robot="RB-001")
    b = draw_up(site, title="B", robot="RB-002", after=[a])
    assert actions.queue_mission(b, by=SYSTEM) == "waits: It comes after “A”"
    with pytest.raises(Refused, match="comes after “A”. It runs when that has succeeded"):
        actions.dispatch_mission(b, by=SYSTEM)
    actions.queue_mission(a, by=SYSTEM)
    ended(a)
    assert actions.queue_mission(b, by=SYSTEM) == "dispatched to Bruno"


def test_steps_and_missions_before_it_can_be_taken_out_again(site, robot):
    a, b = draw_up(site, title="A"), draw_up(site, title="B")
    pk = draw_up(site, steps=STEPS, after=[a, b])
    edit(pk, site, 1, after=[b])
    assert [d.on_id for d in get(pk).dependencies.all()] == [b]
    edit(pk, site, 2)
    assert (get(pk).dependencies.count(), get(pk).steps.count()) == (0, 1)


def test_the_end_of_one_that_waits_says_nothing_about_the_one_that_runs(dispatched, site):
    pk = draw_up(site, robot="RB-001")
    with transaction.atomic():
        ledger = Ledger.open(["RB-001"], [pk], now=timezone.now())
        ledger.tell_mission(pk, Cancel("Ana"), SYSTEM)
        assert ledger.running == {"RB-001": dispatched.pk}
        ledger.commit()
    assert get(pk).state == "aborted"


def test_a_hold_says_until_when(mission):
    until = timezone.now() + timedelta(days=2)
    set_maintenance("RB-001", why="new tyres", until=until, by=SYSTEM)
    said = actions.queue_mission(mission.pk, by=SYSTEM)
    assert said == f"waits: Ella is on hold. Maintenance by test until {until:%d %b %H:%M} UTC: new tyres"


def test_nobody_approves_what_a_token_of_theirs_drew_up(site, robot, supervisor, admin_person):
    issue_token(supervisor, label="wms", scopes=["missions:write"], by=SYSTEM)
    by = by_token(ApiToken.objects.get(person=supervisor.pk))
    pk = drawing_up.draft_mission(title="Fetch", site=site, steps=STEPS, needs_approval=True, by=by)
    with pytest.raises(Refused, match="drew up or edited themselves"):
        actions.approve_mission(pk, by=by_user(supervisor))
    actions.approve_mission(pk, by=by_user(admin_person))
    somebody_else = Origin("api", f"{supervisor.pk}7/1", "wms for somebody whose number begins with theirs")
    pk = drawing_up.draft_mission(title="Fetch", site=site, steps=STEPS, needs_approval=True, by=somebody_else)
    actions.approve_mission(pk, by=by_user(supervisor))

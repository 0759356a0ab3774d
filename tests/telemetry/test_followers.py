"""Groups that follow the events: each event once, whatever was late, trimmed, stopped or killed meanwhile."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.utils import timezone

from fleet.alerts.actions import raise_alert
from fleet.history import by_user
from fleet.models import Event
from fleet.robots import stopping
from fleet.sites.actions import create_site
from missions import actions
from telemetry.out import behind, relay
from telemetry.out import group as groups
from telemetry.out.followers import GROUPS, LINES, step_of
from telemetry.out.group import Follow, Group
from telemetry.out.horizon import Horizon
from telemetry.out.models import Follower
from telemetry.out.waking import Loop, Waker
from telemetry.watching.watch import Watch
from tests.actors import SYSTEM

NOW = timezone.now()


class Noted:
    """A group that notes what it was told, in a table of its own, so that a rollback takes it back."""

    def __init__(self, kinds=None) -> None:
        self.told: list[int] = []
        self.group = Group("noted", lambda: kinds, self.effect)
        self.follow = Follow(self.group)
        first = Event.objects.order_by("id").values_list("id", flat=True).first()
        Follower.objects.filter(name="noted", moved_at=None).update(position=first - 1)

    def effect(self, events, now) -> None:
        self.told += [event.id for event in events]

    def all(self) -> list[int]:
        while self.follow.step(NOW):
            pass
        return self.told


def ids(**which) -> list[int]:
    return list(Event.objects.filter(**which).order_by("id").values_list("id", flat=True))


def test_each_event_once_in_order_and_only_those_that_are_wanted(dispatched, monkeypatch):
    everything, some = Noted(), Noted({"mission.queued", "robot.enrolled"})
    assert everything.all() == ids()
    assert everything.all() == ids(), "nothing twice"
    some.follow = Follow(some.group._replace(name="some"))
    assert some.all() == ids(kind__in=["mission.queued", "robot.enrolled"])
    stopping.stop_robot("RB-001", why="blocked", by=SYSTEM)
    assert everything.all() == ids()


@pytest.mark.parametrize(("chunk", "span"), [(2, 20_000), (1000, 3), (2, 3)])
def test_transactions_are_bounded(dispatched, monkeypatch, chunk, span):
    monkeypatch.setattr(groups, "CHUNK", chunk)
    monkeypatch.setattr(groups, "SPAN", span)
    noted = Noted()
    assert noted.follow.step(NOW) is True
    assert 0 < len(noted.told) <= min(chunk, span)
    assert noted.all() == ids()


def test_who_wants_nothing_goes_on_without_reading(dispatched, monkeypatch):
    monkeypatch.setattr(groups, "SPAN", 1)
    noted = Noted(())
    assert noted.follow.step(NOW) is False
    assert noted.told == []
    assert Follower.objects.get(name="noted").position >= ids()[-1]


def test_an_effect_that_fails_leaves_no_trace_and_comes_again(dispatched):
    noted = Noted()

    def fails(events, now):
        Follower.objects.create(name="half")
        raise RuntimeError("no")

    noted.follow.group = noted.group._replace(effect=fails)
    with pytest.raises(RuntimeError):
        noted.follow.step(NOW)
    assert not Follower.objects.filter(name="half").exists()
    assert Follower.objects.get(name="noted").position < ids()[0]
    noted.follow.group = noted.group
    assert noted.all() == ids()


class Late(threading.Thread):
    """Somebody whose transaction has an event and is not done with it yet."""

    def __init__(self, mission_id, user) -> None:
        super().__init__()
        self.written, self.may_end = threading.Event(), threading.Event()
        self.mission_id, self.user = mission_id, user
        self.gives_up = False

    def run(self) -> None:
        from django.db import transaction

        try:
            with transaction.atomic():
                actions.set_priority(self.mission_id, priority=80, by=by_user(self.user))
                self.written.set()
                self.may_end.wait(10)
                if self.gives_up:
                    transaction.set_rollback(True)
        finally:
            connections.close_all()

    def __enter__(self):
        self.start()
        assert self.written.wait(10)
        return self

    def __exit__(self, *_) -> None:
        self.may_end.set()
        self.join(10)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("gives_up", [False, True])
def test_an_event_that_commits_late_is_waited_for(mission, supervisor, gives_up):
    noted = Noted()
    before = list(noted.all())
    with Late(mission.pk, supervisor) as late:
        late.gives_up = gives_up
        create_site("Elsewhere", by=SYSTEM)  # a larger id, committed first
        newest = ids()[-1]
        assert noted.all() == before, "the smaller id may still come"
    assert noted.all() == ids()
    assert newest in noted.told
    assert len(set(noted.told)) == len(noted.told)
    assert Event.objects.filter(kind="mission.priority_set").exists() is not gives_up


@pytest.mark.django_db(transaction=True)
def test_while_somebody_always_writes_the_horizon_still_moves(mission, supervisor):
    horizon = Horizon()
    with Late(mission.pk, supervisor):
        assert horizon.look() < _newest()
        first_wait = _newest()
        create_site("Elsewhere", by=SYSTEM)
    with Late(mission.pk, supervisor):  # another one; the first is done
        assert horizon.look() == first_wait


@pytest.mark.django_db(transaction=True)
def test_however_often_it_is_looked_at_the_horizon_waits_for_whoever_writes(mission, supervisor):
    horizon = Horizon()
    before = horizon.look()
    with Late(mission.pk, supervisor):
        assert [horizon.look() < _newest() for _ in range(4)] == [True] * 4
        assert horizon.look() == before
    assert horizon.look() == _newest()


def test_whoever_begins_to_write_while_it_looks_is_waited_for(db, monkeypatch):
    """Between its two questions event 6 is given out, to somebody who is not done with it."""
    moments = iter([(5, set()), (6, {"writer"})])
    monkeypatch.setattr("telemetry.out.horizon._newest", lambda cursor: next(moments)[0])
    monkeypatch.setattr("telemetry.out.horizon._writers", lambda cursor: next(moments)[1])
    assert Horizon().look() < 6


def _newest() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM fleet_event_id_seq")
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_one_process_at_a_time_and_the_other_does_not_wait(dispatched):
    inside, go = threading.Event(), threading.Event()
    one, two = Noted(), Noted()

    def slow(events, now):
        inside.set()
        go.wait(10)
        one.effect(events, now)

    one.follow.group = one.group._replace(effect=slow)

    def run():
        try:
            one.follow.step(NOW)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(10)
    assert two.follow.step(NOW) is False
    go.set()
    thread.join(10)
    assert two.all() == []
    assert one.told == ids()


def test_the_stream_only_wakes(dispatched, durable, settings):
    """Trimmed, flushed or away: what a group gets is what the history has."""
    stopping = threading.Event()
    loop = Loop("noted", lambda now: None, stopping)
    waker = Waker([loop], stopping)
    assert waker.wait(block_ms=1) is False
    assert not loop.woken.is_set()
    waker._last = "0"
    while relay.Relay(durable).step(0.0):
        pass
    assert waker.wait(block_ms=1) is True
    assert loop.woken.is_set()
    assert waker.wait(block_ms=1) is False, "it knows the newest"
    noted = Noted()
    durable.flushdb()
    assert noted.all() == ids()


def test_a_group_that_is_behind_is_said_and_no_more_when_it_caught_up(dispatched, monkeypatch):
    monkeypatch.setattr(behind, "BEHIND_S", 0.0)
    said = Watch().checks.followers(NOW)
    assert said.keys() == {f"follower_behind:{group.name}" for group in GROUPS}, "also one that never began"
    assert all("manage.py followers" in found.text for found in said.values())
    for group in GROUPS:
        while Follow(group).step(NOW):
            pass
    assert Watch().checks.followers(NOW) == {}


def test_an_alert_wakes_the_e_mail_about_it_and_its_rows_are_the_guarantee(db, settings, mailoutbox):
    settings.EMAIL_CONFIGURED, settings.ALERT_EMAILS = True, "ops@example.org"
    [line] = [line for line in LINES if line.group.name == "e-mail"]
    step = step_of(line)
    raise_alert("c", severity="critical", text="it burns")
    assert step(NOW) is True
    assert [m.subject for m in mailoutbox] == ["[Drover] Critical: it burns"]
    Follower.objects.update(position=0)  # told everything again
    step(NOW)
    assert len(mailoutbox) == 1
    settings.ALERT_DIGEST_S = 60
    raise_alert("w", severity="warning", text="mind this")
    step(NOW)
    assert len(mailoutbox) == 1, "collected, and sent by time: no event will say when"
    step(NOW + timedelta(seconds=61))
    assert len(mailoutbox) == 2


def test_one_that_fails_holds_up_no_other_and_goes_on(caplog):
    """Loops are threads of their own: what one raises is said once, and it comes again."""
    caplog.set_level("INFO")
    stopping, calls = threading.Event(), []

    def step(now):
        calls.append(now)
        if len(calls) < 3:
            raise RuntimeError("no")
        stopping.set()
        return True

    loop = Loop("broken", step, stopping)
    loop.woken.wait = lambda timeout: None
    loop.run()
    assert len(calls) == 3
    assert [r.message for r in caplog.records] == ["broken rests: no", "broken goes on"]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_every_group_is_known_by_a_short_name_and_follows_from_the_beginning(group, dispatched):
    follow = Follow(group)
    assert Follower.objects.get(name=group.name).position == 0
    while follow.step(NOW + timedelta(seconds=1)):
        pass
    assert Follower.objects.get(name=group.name).position >= ids()[-1]

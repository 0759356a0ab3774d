"""The bell of the fleet page: who hears of what, in words, and at once."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from fleet.alerts import actions as alerts
from fleet.models import Alert
from telemetry.live import alarms, dirty, fragments
from telemetry.live.alarms import AlertRow
from telemetry.live.board import Board
from telemetry.live.viewer import Viewer
from tests.actors import SYSTEM
from tests.telemetry.test_fragments import Reader

T0 = datetime(2026, 11, 29, 10, 31, tzinfo=UTC)


def row(
    pk: int = 1, site: int | None = 1, severity: str = "warning", text: str = "hot motor", by: str = "", count: int = 1
):
    return AlertRow(pk, site, severity, text, T0, by, count)


def test_each_view_has_its_own_alerts():
    rows = [row(1, 1), row(2, 2), row(3, None)]
    for view, expected in ((frozenset({1}), {1}), (frozenset({1, 2}), {1, 2}), (None, {1, 2, 3}), (frozenset(), set())):
        bell, panel = fragments.alerts(view, rows)
        assert {r.id for r in rows if f'id="alert-{r.id}"' in panel.html} == expected
        assert f"<b>{len(expected)}</b>" in bell.html
        assert bell.shown_in(view)
        assert not bell.shown_in(frozenset({9}))


def test_the_bell_counts_what_nobody_has_acknowledged_and_takes_the_tone_of_the_worst():
    assert alarms.bell([]) == {"count": 0, "tone": "ok", "word": "No new alert"}
    rows = sorted([row(1), row(2, severity="critical"), row(3, by="Ana")], key=lambda r: r.rank)
    assert [r.id for r in rows] == [2, 1, 3]
    assert alarms.bell(rows)["tone"] == "bad"
    assert alarms.bell(rows)["count"] == 2


def test_text_of_others_is_text_and_the_fragments_have_one_root():
    for fragment in fragments.alerts(None, [row(text='<img src=x onerror="x">', by="<b>Ana")] * 60):
        read = Reader(fragment.html)
        assert read.roots == 1
        assert read.elements[0][1]["id"] == fragment.dom_id
        assert not any(tag in ("img", "b") and "onerror" in attrs for tag, attrs in read.elements)
    assert "10 more in Admin" in fragment.html


def test_a_change_reaches_the_viewers_that_may_see_it():
    board, here, elsewhere = Board(), Viewer(frozenset({1})), Viewer(frozenset({2}))
    for viewer in (here, elsewhere):
        board.viewers.add(viewer)
        viewer.snapshot_due = False
    board.put_alerts([])
    for viewer in (here, elsewhere):
        board.frame(viewer)
    board.put_alerts([row(site=1)])
    assert set(here.pending) == {"bell@1", "alerts@1"}
    assert not elsewhere.pending
    assert '"put":["' in board.frame(here)


def test_a_signal_makes_alerts_dirty_and_a_failed_load_keeps_them_so():
    board = Board()
    board.take()
    assert not board.take()
    board.signal([["alert", "", "row", 1]])
    taken = board.take()
    assert taken
    assert taken.alerts
    assert not taken.all
    board.give_back(taken)
    assert board.take().alerts


@pytest.mark.django_db(transaction=True)
def test_a_commit_is_announced(monkeypatch):
    sent = []
    monkeypatch.setattr(dirty.announcer, "publish", lambda messages: sent.append(messages) or True)
    alerts.raise_alert("x", severity="warning", text="x")
    assert b"alert" in sent[-1][0][1]


@pytest.mark.django_db
def test_what_is_loaded_is_open_and_not_silenced(site, robot):
    now = timezone.now()
    alerts.raise_alert("a", severity="warning", text="a", site=site.pk, robot="RB-001")
    alerts.raise_alert("b", severity="critical", text="b", site=site.pk, robot="RB-001")
    assert [r.text for r in alarms.load()] == ["b", "a"]
    alerts.silence(site=site, until=now + timedelta(hours=1), why="w", by=SYSTEM)
    assert [r.text for r in alarms.load()] == ["b"]
    alerts.clear_alert("b")
    assert alarms.load() == []


@pytest.mark.django_db
def test_the_page_has_them_and_its_button_acknowledges(site, robot, supervisor, other_supervisor, auditor, client):
    alerts.raise_alert("a", severity="warning", text="<b>hot</b>", site=site.pk, robot="RB-001")
    pk = Alert.objects.get().pk
    client.force_login(supervisor)
    html = client.get("/fleet/").content.decode()
    assert "&lt;b&gt;hot&lt;/b&gt;" in html
    assert "can-acknowledge" in html
    url = f"/fleet/alerts/{pk}/acknowledge"
    for person, status in ((other_supervisor, 404), (auditor, 403)):
        client.force_login(person)
        assert client.post(url, headers={"accept": "application/json"}).status_code == status
    assert "can-acknowledge" not in client.get("/fleet/").content.decode()
    client.force_login(supervisor)
    answer = client.post(url, headers={"accept": "application/json"})
    assert answer.json() == {"text": "Acknowledged."}
    assert "acknowledged by <bdi>Ana</bdi>" in client.get("/fleet/").content.decode()
    client.force_login(other_supervisor)
    assert "hot" not in client.get("/fleet/").content.decode()

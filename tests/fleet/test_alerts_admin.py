"""Alerts in admin: found, acknowledged, cleared and silenced there; the start page says what is open."""

import re
import uuid
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.alerts import actions as alerts
from fleet.alerts.heard import open_alerts
from fleet.models import Alert, Event, Silence
from fleet.robots import facts
from missions.ledger import Ledger
from telemetry.models import Partition
from telemetry.partitions import Partitions
from telemetry.stream import Entry, partition_of
from telemetry.worker import batch
from tests.actors import START, SYSTEM, user

pytestmark = pytest.mark.django_db
LIST = "/admin/fleet/alert/"


@pytest.fixture
def fault(robot) -> Alert:
    with transaction.atomic():
        ledger = Ledger.open(["RB-001"], now=START)
        ledger.tell_robot("RB-001", facts.Faulted(1, 1, "<b>left wheel</b>"), SYSTEM, START)
        ledger.commit()
    return Alert.objects.get()


def listed(client, **query) -> list[str]:
    return [alert.cause for alert in client.get(LIST, query).context["cl"].result_list]


def test_the_list_shows_what_is_open_and_the_rest_on_request(fault, supervisor, client):
    client.force_login(supervisor)
    html = client.get(LIST).content.decode()
    assert "&lt;b&gt;left wheel&lt;/b&gt;" in html
    assert "<b>left wheel" not in html
    assert listed(client, state="new") == [fault.cause]
    assert listed(client, state="seen") == listed(client, state="cleared") == listed(client, state="silent") == []
    alerts.acknowledge(fault.pk, by=SYSTEM)
    assert listed(client) == listed(client, state="seen") == [fault.cause]
    alerts.clear_by_person(fault.pk, by=SYSTEM, why="done")
    assert listed(client) == []
    assert listed(client, state="cleared") == listed(client, state="all") == [fault.cause]


def test_a_supervisor_acknowledges_and_clears_with_a_reason(fault, supervisor, client):
    client.force_login(supervisor)
    client.post(f"{LIST}{fault.pk}/acknowledge/")
    assert Alert.objects.get().acknowledged_by == "Ana"
    answer = client.post(f"{LIST}{fault.pk}/clear/", {"reason": ""}, follow=True)
    assert "Say why" in answer.content.decode()
    client.post(f"{LIST}{fault.pk}/clear/", {"reason": "cleaned"})
    html = client.get(f"{LIST}{fault.pk}/change/").content.decode()
    for expected in ("Cleared", "cleaned", "Ana", "Alert acknowledged by Ana"):
        assert expected in html


@pytest.mark.parametrize(("who", "status"), [("auditor", 403), ("site_auditor", 403), ("other_supervisor", 404)])
def test_who_may_not(fault, who, status, client, request):
    client.force_login(request.getfixturevalue(who))
    for verb in ("acknowledge", "clear"):
        assert client.post(f"{LIST}{fault.pk}/{verb}/", {"reason": "x"}).status_code == status
    assert (listed(client) == []) == (who == "other_supervisor")
    assert Alert.objects.get().version == 1


def test_an_admin_silences_a_robot_and_hears_it_again(fault, admin_person, supervisor, client):
    client.force_login(admin_person)
    said = {"site": fault.site_id, "robot": "RB-001", "hours": "4", "why": "new wheels"}
    answer = client.post("/admin/fleet/silence/add/", said, follow=True)
    assert "Critical alerts are still shown" in answer.content.decode()
    silence = Silence.objects.get()
    assert silence.until - silence.since == timedelta(hours=4)
    assert listed(client) == []
    assert listed(client, state="silent") == [fault.cause]
    assert "Silenced" in client.get(f"{LIST}{fault.pk}/change/").content.decode()
    client.force_login(supervisor)
    assert client.post(f"/admin/fleet/silence/{silence.pk}/end/").status_code == 403
    client.force_login(admin_person)
    client.post(f"/admin/fleet/silence/{silence.pk}/end/")
    assert listed(client) == [fault.cause]


def test_the_filter_by_site_says_every_site_to_those_who_have_it(fault, supervisor, other_site, client):
    for person, offered in ((user("Eva", "supervisor"), True), (supervisor, False)):
        client.force_login(person)
        html = client.get(LIST, {"state": "all"}).content.decode()
        assert bool(re.search(r'site__isnull=True[^"]*"[^>]*>\s*every site<', html)) is offered


def test_nobody_adds_an_alert_by_hand(fault, admin_person, client):
    admin_person.is_superuser = True
    admin_person.save()
    client.force_login(admin_person)
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(f"{LIST}{fault.pk}/change/", {"text": "x"}).status_code == 403


def test_the_start_page_lists_alerts_and_says_when_no_worker_runs(fault, supervisor, other_supervisor, client):
    client.force_login(supervisor)
    html = client.get("/admin/").content.decode()
    assert "RB-001 has a fault: &lt;b&gt;left wheel" in html
    assert "No worker runs" in html
    Partition.objects.create(id=0, owner="w", until=timezone.now() + timedelta(minutes=1))
    assert "No worker runs" not in client.get("/admin/").content.decode()
    client.force_login(other_supervisor)
    html = client.get("/admin/").content.decode()
    assert "left wheel" not in html
    assert "None is open" in html


def test_dead_letters_make_one_alert_per_robot(robot, supervisor):
    partitions = Partitions("test", 8)
    partitions.tend()
    p = partition_of("RB-001")

    def entries(count: int) -> list[Entry]:
        return [Entry(f"{n}-0", "RB-001", uuid.uuid4(), b'{"no": "sense"}', START) for n in range(count)]

    batch.apply(p, partitions.fences[p], entries(3), now=START, hook=lambda where: None)
    batch.apply(p, partitions.fences[p], entries(1), now=START, hook=lambda where: None)
    [alert] = open_alerts(supervisor)
    assert (alert.cause, alert.count) == ("dead_letter:robot:RB-001", 4)
    assert "Dead letter of RB-001" in alert.text
    assert "closed" in alerts.acknowledge(alert.pk, by=SYSTEM)
    assert Event.objects.filter(kind="alert.opened").count() == 1


def test_of_many_alerts_the_start_page_reads_those_that_it_shows(client, admin_person, site):
    """Thousands may be open when a network goes down, which is when somebody opens this page."""
    from telemetry.pages.overview import ALERTS, overview

    for n in range(ALERTS + 3):
        severity = "critical" if n == 1 else "info"
        alerts.raise_alert(f"x:{n}", severity=severity, text=f"Number {n}", site=site.pk)
    with CaptureQueriesContext(connection) as asked:
        seen = overview(admin_person)
    assert [a.words for a in seen["alerts"]][:2] == ["Number 1", f"Number {ALERTS + 2}"]
    assert (len(seen["alerts"]), seen["more_alerts"]) == (ALERTS, 3)
    assert any(f"LIMIT {ALERTS}" in query["sql"] for query in asked)

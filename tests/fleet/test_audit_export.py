"""Export of events: streamed, honest about what it holds, harmless in a spreadsheet."""

import csv
import json
import tracemalloc
from io import StringIO

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import AsyncClient

from fleet import triggers
from fleet.audit import export as audit_export
from fleet.audit import questions as audit
from fleet.audit.export import FIELDS, harmless
from fleet.models import Event
from fleet.robots import actions as robots
from tests.actors import SYSTEM

pytestmark = pytest.mark.django_db
URL = "/admin/fleet/event/export."


def got(client, kind: str, **question) -> str:
    return b"".join(client.get(URL + kind, question).streaming_content).decode()


def test_csv_has_a_header_names_and_full_precision(mission, auditor, client):
    client.force_login(auditor)
    rows = list(csv.DictReader(StringIO(got(client, "csv", what="mission.drafted"))))
    event = Event.objects.get(kind="mission.drafted")
    assert tuple(rows[0]) == FIELDS
    assert (rows[0]["about_name"], rows[0]["site"], rows[0]["actor_name"]) == ("Fetch", "Hall 1", "Ana")
    assert rows[0]["recorded_at"] == f"{event.recorded_at:%Y-%m-%dT%H:%M:%S.%f}Z"
    assert (rows[0]["data"], rows[0]["hash"]) == (event.data, bytes(event.hash).hex())


def test_json_lines_hold_the_same(mission, auditor, client):
    client.force_login(auditor)
    lines = [json.loads(line) for line in got(client, "jsonl", what="mission.").splitlines()]
    assert [tuple(line) for line in lines] == [FIELDS]
    assert lines[0]["data"]["title"] == "Fetch"


def test_nothing_found_is_a_header_only(robot, auditor, client):
    client.force_login(auditor)
    assert got(client, "csv", what="mission.").splitlines() == [",".join(FIELDS)]
    assert got(client, "jsonl", what="mission.") == ""


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", "  =1"])
def test_no_cell_is_a_formula(text, robot, auditor, client):
    assert harmless(text) == f"'{text}"
    client.force_login(auditor)
    robots.edit_robot("RB-001", name=text.strip(), site=robot.site_id, brand=robot.brand_id, by=SYSTEM)
    cells = [cell for row in csv.reader(StringIO(got(client, "csv"))) for cell in row]
    assert text.strip() == "x" or harmless(text.strip()) in cells
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert harmless("plain") == "plain"


def test_only_the_own_sites(robot, other_site, brand, site_auditor, client):
    robots.enrol_robot(id="RB-900", name="Zelda", site=other_site, brand=brand, by=SYSTEM)
    client.force_login(site_auditor)
    for kind in ("csv", "jsonl"):
        text = got(client, kind)
        assert "Ella" in text
        assert "Zelda" not in text


def test_a_question_that_makes_no_sense_is_refused(robot, auditor, client):
    client.force_login(auditor)
    assert client.get(f"{URL}csv", {"site": "x"}).status_code == 400
    assert client.get(f"{URL}xls", follow=True).status_code == 404
    assert client.head(f"{URL}csv").status_code == 200


def many(count: int) -> None:
    """Events without rows: only to be read."""
    triggers.drop()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fleet_event (aggregate, seq, site_id, kind, schema, data, state_from, state_to, actor_kind,"
            " actor_id, actor_name, cause, trace_id, span_id, occurred_at, recorded_at, prev_hash, hash)"
            " SELECT 'mission:' || md5((n / 20)::text)::uuid, n %% 20 + 1, 1, 'mission.late_receipt', 1,"
            " '{\"says\": \"' || repeat('x', 300) || '\"}', '', '', 'robot', 'B-1', 'Robot', '', '', '', now(),"
            " now() - n * interval '1 ms', sha256('x'), sha256('x') FROM generate_series(1, %s) AS n",
            [count],
        )
    triggers.create()


@pytest.mark.tampers
@pytest.mark.django_db(transaction=True)
def test_memory_stays_flat_however_many_they_are(auditor):
    many(8_000)
    events = audit.Question({}, auditor).events()
    few = events.filter(pk__lt=Event.objects.latest("pk").pk - 6_000)
    peak(few)  # warm
    (small, small_peak), (large, large_peak) = peak(few), peak(events)
    assert large > 3 * small > 1_000_000
    assert large_peak < 1.3 * small_peak


def peak(events) -> tuple[int, int]:
    """Bytes exported, and the most memory that it took at a time."""
    tracemalloc.start()
    size = sum(len(part) for part in audit_export.as_csv(events))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size, most


@pytest.mark.tampers
@pytest.mark.django_db(transaction=True)
async def test_an_asgi_server_gets_it_part_by_part(auditor):
    await sync_to_async(many)(5000)
    client = AsyncClient()
    await sync_to_async(client.force_login)(auditor)
    response = await client.get(f"{URL}csv")
    parts = [part async for part in response]
    await sync_to_async(lambda: connection.close())()  # the thread that read them has its own
    assert len(parts) >= 3
    assert b"".join(parts).count(b"mission.late_receipt") == 5000

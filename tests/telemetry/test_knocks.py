"""Robots that knocked: every gateway notes them, nobody can fill the table, no token is kept."""

import html
import json
import re
import uuid

import pytest
from django.core.management import call_command
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.models import Robot
from fleet.robots import actions, credentials
from fleet.robots.addresses import suggested_id
from telemetry import protocol
from telemetry.gateways import knocks
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.knocks import MANY, ROWS, ROWS_OF_ADDRESS, Knocks, Stranger, name_in, record
from telemetry.models import Knock
from telemetry.one_connection import OneConnection
from telemetry.pages.connecting import standing
from tests.actors import SYSTEM
from tests.telemetry.post import Post
from tests.telemetry.wire import Wire

LIST = "/admin/telemetry/knock/"


def knock(robot="RB-9", digest="", over="HTTP", address="192.0.2.1", count=1, at=None):
    record([(Stranger(digest, robot, over, address), count, at or timezone.now())])


@pytest.mark.django_db(transaction=True)
async def test_a_socket_without_a_good_token_is_noted_by_the_name_it_gives(ask, robot):
    token = "drover_wrong"
    async with Wire(token, "RB-77") as stranger:
        await stranger.send({"type": "hello", "v": 1, "robot": "RB-77", "msg_id": str(uuid.uuid4()), "data": {}})
        assert await stranger.closed() == protocol.UNAUTHORISED
    row = await ask(lambda: Knock.objects.get())
    assert (row.robot, row.why, row.over, row.count) == ("RB-77", "unknown", "WebSocket", 1)
    assert token not in str(vars(row)) and credentials.digest_of(token) not in str(vars(row))


@pytest.mark.django_db(transaction=True)
async def test_a_post_with_a_revoked_token_is_noted_as_its_robot(ask, robot):
    token = await ask(lambda: credentials.issue_credential("RB-001", by=SYSTEM))
    await ask(lambda: credentials.revoke_credential("RB-001", credentials.credential_of_token(token).number, by=SYSTEM))
    post = Post(token, "RB-X")
    body = json.dumps({"type": "hello", "v": 1, "robot": "RB-X", "msg_id": str(uuid.uuid4()), "data": {}}).encode()
    assert (await post.request("POST", "/robot/v1/events", body)).status == 401
    await Callers.leave()
    row = await ask(lambda: Knock.objects.get())
    assert (row.robot, row.why, row.over) == ("RB-001", "revoked", "HTTP")


@pytest.mark.django_db(transaction=True)
async def test_a_silent_stranger_is_not_waited_for_long(ask, robot, monkeypatch):
    monkeypatch.setattr(knocks, "WHO_S", 0.05)
    async with Wire(None) as stranger:
        assert await stranger.closed() == protocol.UNAUTHORISED
    assert (await ask(lambda: Knock.objects.get())).why == "none"


def test_the_same_is_counted_in_one_row(db):
    for _ in range(3):
        knock(count=4)
    row = Knock.objects.get()
    assert (row.count, row.first_at < row.last_at) == (12, True)


def test_many_names_from_one_address_share_a_row_and_push_nobody_out(db):
    knock("RB-OURS", address="192.0.2.9")
    for n in range(ROWS_OF_ADDRESS + 30):
        knock(f"X{n}")
    assert Knock.objects.filter(address="192.0.2.1").count() == ROWS_OF_ADDRESS + 1
    assert Knock.objects.get(why=MANY).count == 30
    assert Knock.objects.filter(robot="RB-OURS").exists()


def test_the_table_has_an_end(db):
    now = timezone.now()
    Knock.objects.bulk_create(
        Knock(robot=f"X{n}", why="none", over="HTTP", address=f"a{n}", count=1, first_at=now, last_at=now)
        for n in range(ROWS)
    )
    knock("RB-NEW", at=timezone.now())
    assert Knock.objects.count() == ROWS
    assert Knock.objects.filter(robot="RB-NEW").exists()


def test_a_flood_between_two_writes_is_bounded_in_memory():
    noted = Knocks(OneConnection("test"))
    for n in range(5000):
        noted.note(f"t{n}", f"X{n}", "HTTP", "192.0.2.1")
    assert len(noted._noted) == knocks.NOTED
    noted._rows.close()


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ('{"type":"hello","robot":"RB-1"}', "RB-1"), (b'[{"robot" : "RB-2"}, {"robot":"RB-3"}]', "RB-2"),
        ('{"robot": 7}', ""), ('{"robot":"<b>"}', ""), ('{"robot":"a\\u0000"}', ""), ("", ""), (b"\xff\xfe", ""),
        ('{"robot":"' + "x" * 65 + '"}', ""), ("[" * 9000, ""), ('{"robot":"RB\\u002d1"}', "RB-1"),
    ],
)  # fmt: skip
def test_the_name_in_a_hello(raw, name):
    assert name_in(raw) == name


def test_an_unknown_robot_can_be_enrolled_from_the_list(client, admin_person, robot):
    knock("RB-42")
    knock("RB-001", address="192.0.2.2")
    client.force_login(admin_person)
    html = client.get(LIST).content.decode()
    assert "/admin/fleet/robot/add/?id=RB-42" in html
    assert "/admin/fleet/robot/add/?id=RB-001" not in html
    assert "/admin/fleet/robot/RB-001/connect/" in html
    form = client.get("/admin/fleet/robot/add/?id=RB-42&name=RB-42").context["form"]
    assert (form["id"].value(), form["name"].value()) == ("RB-42", "RB-42")


def test_an_empty_list_says_what_will_appear(client, admin_person):
    client.force_login(admin_person)
    assert "Nobody has knocked" in client.get(LIST).content.decode()


# --- strangers on the broker


HOSTILE = "<script>alert(1)</script>/\u202e\x00'\"{{x}}"


def on_the_broker(*names, driver="vda5050"):
    """As the gateway notes them, and as they are stored."""
    noted = Knocks(rows=None)
    for name in names:
        noted.note("", name, "MQTT", "", driver=driver)
    record([(stranger, *seen) for stranger, seen in noted._noted.items()])


@pytest.fixture
def forker(db):
    return create_brand("Forker", driver="vda5050", capabilities=["navigate"], by=SYSTEM)


def test_whoever_speaks_on_the_broker_is_enrolled_by_its_address_with_one_click(client, admin_person, forker, site):
    on_the_broker("KIT/0001", "KIT/0001")
    client.force_login(admin_person)
    page = client.get(LIST)
    [row] = page.context["cl"].result_list
    assert (row.robot, row.why, row.over, row.driver, row.count) == ("KIT/0001", "broker", "MQTT", "vda5050", 2)
    link = html.unescape(re.search(r'href="([^"]+)">Enrol this robot', page.content.decode())[1])
    form = client.get(link).context["form"]
    assert [form[name].value() for name in ("id", "name", "address", "brand")] == [
        "KIT-0001", "KIT/0001", "KIT/0001", str(forker.pk),
    ]  # fmt: skip
    told = {name: form[name].value() for name in form.fields if form[name].value() is not None} | {"site": site.pk}
    answer = client.post("/admin/fleet/robot/add/", told)
    assert answer.status_code == 302
    robot = Robot.objects.get(pk="KIT-0001")
    assert (robot.address, robot.brand_id) == ("KIT/0001", forker.pk)
    page = client.get(LIST).content.decode()
    assert "/admin/fleet/robot/KIT-0001/change/" in page.replace("_2D", "-") and "Enrol this robot" not in page


def test_names_from_the_broker_are_text_bounded_and_storable(client, admin_person, forker):
    on_the_broker(HOSTILE, "M" * 5000 + "/1", "\ud800/1", "a\nb/1")
    client.force_login(admin_person)
    page = client.get(LIST).content.decode()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert max(len(name) for name in Knock.objects.values_list("robot", flat=True)) == 200
    assert all(name.isprintable() for name in Knock.objects.values_list("robot", flat=True))
    assert "Enrol this robot" not in page  # these are not the whole names


@pytest.mark.parametrize(("address", "id"), [
    ("KIT/0001", "KIT-0001"), ("Söhne & Co/№ 7", "Sohne-Co-No-7"), ("///", "robot"), ("-.x", "x"), ("機/器", "robot"),
    ("x" * 300, "x" * 58), ("RB-001", "RB-001-2"),
])  # fmt: skip
def test_an_id_is_suggested_that_is_one_and_free(robot, address, id):
    assert suggested_id(address) == id


def test_a_whole_fleet_on_the_broker_is_seen_and_no_more(forker, monkeypatch):
    monkeypatch.setattr(knocks, "ROWS_OF_BROKER", 30)
    for n in range(40):
        on_the_broker(f"KIT/{n}")
    knock("RB-9", address="")  # another with no address: not among them
    assert Knock.objects.filter(why="broker").count() == 30
    assert Knock.objects.get(why=MANY).count == 10
    assert Knock.objects.filter(robot="RB-9", driver="").exists()


def test_strangers_are_for_those_of_every_site(client, supervisor, forker):
    on_the_broker("KIT/0001")
    client.force_login(supervisor)
    assert client.get(LIST).status_code == 403


def test_before_a_stranger_is_enrolled_its_brand_is_made(client, admin_person):
    on_the_broker("KIT/0001")
    client.force_login(admin_person)
    page = client.get(LIST).content.decode()
    assert "Enrol this robot" not in page
    link = re.search(r'href="([^"]+)">Make its brand first', page)[1]
    assert client.get(link).context["form"]["driver"].value() == "vda5050"


def test_status_names_strangers_and_not_robots_that_were_enrolled_since(client, forker, site, capsys):
    on_the_broker("KIT/0001", "KIT/0002", "RB-8")
    knock("RB-9", address="192.0.2.7")
    actions.enrol_robot(id="K1", name="K1", site=site, brand=forker, address="KIT/0001", by=SYSTEM)
    call_command("status")
    said = capsys.readouterr().out
    assert "KIT/0002: its messages, on the broker, 1 time, last" in said
    assert "RB-9 from 192.0.2.7: no token, 1 time, last" in said
    assert "KIT/0001" not in said


def test_whose_words_a_stranger_speaks_is_said(client, admin_person):
    on_the_broker("KIT/0001")
    client.force_login(admin_person)
    assert "its messages, on the broker: VDA 5050" in client.get(LIST).content.decode()


def test_a_retired_robot_that_speaks_on_the_broker_is_said_to_be_one(client, admin_person, robot, capsys):
    """It hears nothing from us: whoever looks for it has to find why."""
    actions.retire_robot("RB-001", by=SYSTEM)
    on_the_broker("RB-001", "RB-8", driver="native")
    client.force_login(admin_person)
    page = client.get(LIST).content.decode()
    assert re.search(r'href="/admin/fleet/robot/RB-001/change/">Put it back in service', page.replace("_2D", "-"))
    assert "its messages, on the broker, as a retired robot" in page
    call_command("status")
    said = capsys.readouterr().out
    assert "RB-001: its messages, on the broker, as a retired robot" in said
    assert "RB-8: its messages, on the broker, 1 time" in said
    assert "It knocked" in standing(robot, timezone.now()).says
    assert standing(robot, timezone.now()).next == "Put the robot back in service first, on its page."

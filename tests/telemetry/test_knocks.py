"""Robots that knocked: every gateway notes them, nobody can fill the table, no token is kept."""

import json
import uuid

import pytest
from django.utils import timezone

from fleet import actions
from telemetry import protocol
from telemetry.gateways import knocks
from telemetry.gateways.callers import Callers
from telemetry.gateways.knocks import MANY, ROWS, ROWS_OF_ADDRESS, Knocks, Stranger, name_in, record
from telemetry.gateways.rows import Rows
from telemetry.models import Knock
from tests.actors import SYSTEM
from tests.telemetry.post import Post
from tests.telemetry.wire import Wire

LIST = "/admin/telemetry/knock/"


def knock(robot="RB-9", digest="", over="HTTP", address="192.0.2.1", count=1, at=None):
    record([(Stranger(digest, robot, over, address), count, at or timezone.now())])


@pytest.fixture
async def ask():
    rows = Rows()
    yield rows.ask
    await Callers.leave()
    rows.close()


@pytest.mark.django_db(transaction=True)
async def test_a_socket_without_a_good_token_is_noted_by_the_name_it_gives(ask, robot):
    token = "drover_wrong"
    async with Wire(token, "RB-77") as stranger:
        await stranger.send({"type": "hello", "v": 1, "robot": "RB-77", "msg_id": str(uuid.uuid4()), "data": {}})
        assert await stranger.closed() == protocol.UNAUTHORISED
    row = await ask(lambda: Knock.objects.get())
    assert (row.robot, row.why, row.over, row.count) == ("RB-77", "unknown", "WebSocket", 1)
    assert token not in str(vars(row)) and actions.digest_of(token) not in str(vars(row))


@pytest.mark.django_db(transaction=True)
async def test_a_post_with_a_revoked_token_is_noted_as_its_robot(ask, robot):
    token = await ask(lambda: actions.issue_credential("RB-001", by=SYSTEM))
    await ask(lambda: actions.revoke_credential("RB-001", actions.credential_of_token(token).number, by=SYSTEM))
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
    noted = Knocks(Rows())
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

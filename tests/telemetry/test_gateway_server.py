"""The robots' socket behind the real server: what only daphne can break."""

import asyncio
import json
import uuid

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fleet.robots import stopping
from telemetry import protocol
from tests.actors import SYSTEM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


def link(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    return connect(url, additional_headers=headers, open_timeout=20, proxy=None, compression=None)


async def closed(robot):
    async with asyncio.timeout(10):
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                await robot.recv()
    return caught.value.rcvd.code


def state(session, seq, **fields):
    return {
        "v": 1, "msg_id": str(uuid.uuid4()), "robot": "RB-001", "session": session, "channel": "critical", "seq": seq,
        "type": "robot.state", "occurred_at": "2026-11-29T10:00:00Z", "data": {"mode": "idle"}, **fields,
    }  # fmt: skip


async def test_a_link_lives_through_the_real_server_and_ends_with_codes_that_say_why(server, token, ask):
    process, url = server
    async with link(url, "drover_wrong") as stranger:
        assert await closed(stranger) == protocol.UNAUTHORISED
    async with link(url, token) as older:
        await older.send(json.dumps({"type": "hello", "v": 1, "robot": "RB-001"}))
        assert json.loads(await older.recv())["session"] == 1
        await older.send("x" * (protocol.MAX_BYTES + 1))
        assert json.loads(await older.recv())["field"] == "message"
        for frame in (json.dumps(state(1, 1)), json.dumps(state(1, 2)).encode()):  # text or binary
            await older.send(frame)
            assert json.loads(await older.recv())["verdict"] == "stored"
        async with link(url, token) as newer:
            await newer.send(json.dumps({"type": "hello", "v": 1, "robot": "RB-001"}))
            assert json.loads(await newer.recv())["session"] == 2
            assert await closed(older) == protocol.REPLACED
            await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
            first, again = [json.loads(await newer.recv()) for _ in range(2)]
            assert first == again
            assert first["type"] == "robot.stop"
            process.terminate()  # a second after the last handshake: daphne cuts younger sockets without a code
            assert await closed(newer) == protocol.COME_BACK


async def test_a_robot_that_hangs_up_in_the_middle_and_an_address_of_nothing_leave_no_traceback(server, token):
    _, url = server
    beat = state(1, 1, type="robot.heartbeat", channel="lossy", data={"battery": None})
    async with link(url, token) as robot:
        await robot.send(json.dumps({"type": "hello", "v": 1, "robot": "RB-001"}))
        await robot.recv()
        for seq in range(1, 500):
            await robot.send(json.dumps(beat | {"seq": seq, "msg_id": str(uuid.uuid4())}))
        robot.transport.abort()
    for nowhere in ("/robot/v1/ws/", "/nothing"):
        with pytest.raises(InvalidStatus) as refused:
            await link(url.replace("/robot/v1/ws", nowhere), token)
        assert refused.value.response.status_code == 403
    async with link(url, token) as robot:
        await robot.send(json.dumps({"type": "hello", "v": 1, "robot": "RB-001"}))
        assert json.loads(await robot.recv())["session"] == 2

"""A broker that speaks MQTT 3.1.1 only: it is found out, and robots are heard all the same. In memory, on a free port."""

import asyncio
import logging
import socket

import pytest
from amqtt.broker import Broker as AmqttBroker

from telemetry.gateways.mqtt import dialling, rests
from telemetry.gateways.mqtt.broker import Address, Broker
from tests.eventually import eventually_async as until


class OldBroker(AmqttBroker):
    """Closes what amqtt leaves open: the connection of a client that it has refused."""

    async def stream_connected(self, reader, writer, listener_name):
        try:
            await super().stream_connected(reader, writer, listener_name)
        finally:
            writer.close()


@pytest.fixture
async def old_broker():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logging.getLogger("amqtt").setLevel(logging.CRITICAL)
    logging.getLogger("transitions").setLevel(logging.CRITICAL)
    old = OldBroker({
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    })  # fmt: skip
    await old.start()
    yield f"mqtt://127.0.0.1:{port}"
    await old.shutdown()


async def test_an_old_broker_is_spoken_to_as_it_speaks(old_broker, monkeypatch):
    monkeypatch.setattr(rests, "BACKOFF_S", (0.01,))
    monkeypatch.setattr(dialling, "CONNECT_S", 2.0)
    heard: list = []

    def hear(message):
        heard.append(message)
        ear.ack(message)

    ear = Broker(Address.of(old_broker), "drover-ear", hear)
    ear.want({"a/+": 1}, commands=["c"])
    running = asyncio.create_task(ear.run())
    try:
        await until(lambda: ear.hears)
        assert not ear.speaks_5
        for n in range(20):
            ear.publish(f"a/{n}", bytes([n]), 1)
        await until(lambda: len(heard) == 20)
        assert sorted(m.payload[0] for m in heard) == [*range(20)]
        assert {m.qos for m in heard} == {1}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await ear.end()


async def test_a_broker_that_has_spoken_5_and_is_silent_is_no_old_one(monkeypatch):
    """It was frozen: once it wakes it is spoken to as before."""
    monkeypatch.setattr(rests, "BACKOFF_S", (0.01,))
    monkeypatch.setattr(dialling, "CONNECT_S", 0.2)
    levels: list[int] = []

    async def broker(reader, writer):
        try:
            packet = await reader.read(1000)
            levels.append(packet[packet.index(b"MQTT") + 4])
            if len(levels) in (2, 3):
                await reader.read()  # frozen: taken by the kernel, answered by nobody
            else:
                writer.write(bytes([0x20, 3, 0, 0, 0]))  # welcome, in MQTT 5; and then it ends
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    ear = Broker(
        Address.of(f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"), "drover-ear", lambda message: None
    )
    running = asyncio.create_task(ear.run())
    try:
        await until(lambda: len(levels) > 3)
        assert levels[:4] == [5, 5, 5, 5]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await ear.end()
        server.close()
        await server.wait_closed()

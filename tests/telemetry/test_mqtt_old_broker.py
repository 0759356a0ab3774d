"""A broker that speaks MQTT 3.1.1 only: it is found out, and robots are heard all the same. In memory, on a free port."""

import asyncio
import logging
import socket

import pytest
from amqtt.broker import Broker as OldBroker

from telemetry.gateways.mqtt import dialling, rests
from telemetry.gateways.mqtt.broker import Address, Broker


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


async def until(predicate):
    for _ in range(1500):
        if predicate():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


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

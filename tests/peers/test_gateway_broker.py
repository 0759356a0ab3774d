"""The gateway and a real broker that restarts, freezes, is not there, refuses, or gives our name to somebody else."""

import asyncio
import signal
import subprocess

import pytest

from telemetry.gateways.mqtt import dialling, rests
from telemetry.gateways.mqtt.broker import DEAF_S, Address, Broker, Incoming
from tests.eventually import eventually_async
from tests.peers.brokers import Mosquitto
from tests.tools import tool


class Ear:
    """A broker's client that keeps what it hears."""

    def __init__(self, url: str, name: str = "drover-ear", presence: str = "", *, acks: bool = True) -> None:
        self.heard: list[Incoming] = []
        self.acks, self.changes = acks, 0
        self.broker = Broker(Address.of(url), name, self._hear, changed=self._change, presence=presence)

    def _hear(self, message: Incoming) -> None:
        self.heard.append(message)
        if self.acks:
            self.broker.ack(message)

    def _change(self) -> None:
        self.changes += 1

    async def __aenter__(self) -> "Ear":
        self._task = asyncio.create_task(self.broker.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.broker.end()

    async def up(self) -> "Ear":
        await eventually_async(lambda: self.broker.hears, what=lambda: f"connected ({self.broker.why})")
        return self

    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.heard]


@pytest.fixture
def mosquitto(tmp_path):
    with Mosquitto(tmp_path / "broker") as broker:
        yield broker


async def test_what_was_not_acknowledged_comes_again_after_a_restart_of_ours_and_of_the_brokers(mosquitto):
    async with Ear(mosquitto.url, acks=False) as ear, Ear(mosquitto.url, "robot") as robot:
        ear.broker.want({"a/#": 1})
        await ear.up()
        await robot.up()
        robot.broker.publish("a/1", b"one", 1)
        await eventually_async(lambda: ear.payloads() == [b"one"])
        ear.broker.renew("a test")
        await ear.up()
        await eventually_async(lambda: ear.payloads() == [b"one", b"one"])
        mosquitto.stop()
        await eventually_async(lambda: not ear.broker.hears)
        mosquitto.start()
        await ear.up()
        await eventually_async(lambda: ear.payloads() == [b"one"] * 3)
        ear.broker.ack(ear.heard[0])  # of an old connection: says nothing
        ear.broker.ack(ear.heard[-1])
        await eventually_async(lambda: not ear.broker._client.want_write())
        ear.broker.renew("a test")
        await ear.up()
        await robot.up()
        robot.broker.publish("a/2", b"two", 1)
        await eventually_async(lambda: ear.payloads()[3:] == [b"two"], what=lambda: f"two after {ear.payloads()}")


async def test_subscriptions_follow_what_is_wanted(mosquitto):
    async with Ear(mosquitto.url) as ear, Ear(mosquitto.url, "robot") as robot:
        ear.broker.want({f"a/{n}": 0 for n in range(200)})
        await ear.up()
        await robot.up()
        ear.broker.want({"a/199": 0, "b": 0}, commands=["c"])
        robot.broker.publish("a/1", b"gone", 0)
        robot.broker.publish("c", b"command", 0)
        ear.broker.publish("c", b"own command", 0)
        ear.broker.publish("b", b"own", 0)

        async def heard_all():
            robot.broker.publish("b", b"new", 0)
            robot.broker.publish("a/199", b"kept", 0)
            return {b"new", b"kept", b"command"} <= set(ear.payloads())

        await eventually_async(heard_all)
        assert b"own command" not in ear.payloads()


async def test_the_broker_keeps_what_does_not_fit_the_window(mosquitto, monkeypatch):
    monkeypatch.setattr(dialling, "WINDOW", 10)
    async with Ear(mosquitto.url, acks=False) as ear, Ear(mosquitto.url, "robot") as robot:
        ear.broker.want({"a": 1})
        await ear.up()
        await robot.up()
        for n in range(50):
            robot.broker.publish("a", str(n).encode(), 1)
        await eventually_async(lambda: len(ear.heard) == 10)
        await asyncio.sleep(0.3)
        assert len(ear.heard) == 10, "memory is bounded"
        done = 0
        while done < 50:
            await eventually_async(lambda: len(ear.heard) > done)  # noqa: B023
            ear.broker.ack(ear.heard[done])
            done += 1
        assert ear.payloads() == [str(n).encode() for n in range(50)], "in order"


async def test_a_frozen_broker_is_noticed_within_seconds_and_heard_again_when_it_wakes(mosquitto):
    async with Ear(mosquitto.url) as ear:
        await ear.up()
        mosquitto.signal(signal.SIGSTOP)
        await eventually_async(lambda: not ear.broker.hears)
        assert ear.broker.is_connected
        mosquitto.signal(signal.SIGCONT)
        await ear.up()


async def test_a_quiet_broker_that_lives_is_heard(mosquitto):
    async with Ear(mosquitto.url) as ear:
        await ear.up()
        for _ in range(int(DEAF_S + 3) * 10):
            await asyncio.sleep(0.1)
            assert ear.broker.hears


async def test_a_broker_that_is_not_there_yet_is_tried_again(tmp_path):
    mosquitto = Mosquitto(tmp_path / "broker")
    async with Ear(mosquitto.url) as ear:
        await eventually_async(lambda: "cannot be reached" in ear.broker.why)
        assert not ear.broker.hears
        with mosquitto:
            await ear.up()


async def test_who_has_our_name_and_we_do_not_throw_each_other_out_for_ever(mosquitto, monkeypatch):
    monkeypatch.setattr(rests, "CLASH_S", (2.0, 60.0))
    async with Ear(mosquitto.url, "drover-x") as one:
        await one.up()
        async with Ear(mosquitto.url, "drover-x") as two:
            await eventually_async(lambda: one.broker.clash)
            assert "DROVER_GATEWAY" in one.broker.why
            await two.up()
            await eventually_async(lambda: two.broker.clash)  # it came back once
            await eventually_async(lambda: one.broker.clash)
            connections = one.broker.connection + two.broker.connection
            await asyncio.sleep(3)
            assert one.broker.connection + two.broker.connection <= connections + 1


async def test_the_end_in_order_and_the_end_without_a_word_are_seen_by_whoever_listens(mosquitto):
    where = "drover/gateways/drover-x/presence"
    async with Ear(mosquitto.url, "listener") as listener:
        listener.broker.want({where: 1})
        await listener.up()
        async with Ear(mosquitto.url, "drover-x", presence=where) as ear:
            await ear.up()
            await eventually_async(lambda: listener.payloads() == [b"online"])
        await eventually_async(lambda: listener.payloads() == [b"online", b"offline"])
        async with Ear(mosquitto.url, "drover-x", presence=where) as ear:
            await ear.up()
            await eventually_async(lambda: listener.payloads()[2:] == [b"online"])
            ear.broker.renew("a test")  # no goodbye: the will
            await eventually_async(lambda: listener.payloads()[3:4] == [b"offline"])


async def test_an_unknown_user_is_refused_with_the_reason(tmp_path):
    passwords = tmp_path / "passwords"
    subprocess.run([tool("mosquitto_passwd"), "-b", "-c", str(passwords), "drover", "p:/w"],
                   check=True)  # fmt: skip
    passwords.chmod(0o644)
    with Mosquitto(tmp_path / "broker", "allow_anonymous false", f"password_file {passwords}") as mosquitto:
        async with Ear(mosquitto.url.replace("//", "//drover:wrong@")) as ear:
            await eventually_async(lambda: "refuses us" in ear.broker.why)
            assert ear.broker.is_refused, "which does not pass by itself"
        async with Ear(mosquitto.url.replace("//", "//drover:p%3A%2Fw@")) as ear:
            await ear.up()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves what it did not trust
async def test_over_tls(tmp_path):
    ca, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    subprocess.run(
        [tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", str(key), "-out", str(ca), "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o644)
    tls = (f"certfile {ca}", f"keyfile {key}")
    with Mosquitto(tmp_path / "broker", listener=tls) as mosquitto:
        url = mosquitto.url.replace("mqtt:", "mqtts:")
        async with Ear(url) as stranger:
            await eventually_async(
                lambda: "certificate" in stranger.broker.why.lower(), what=lambda: stranger.broker.why
            )
        async with Ear(f"{url}?ca={ca}") as ear, Ear(f"{url}?ca={ca}", "robot") as robot:
            ear.broker.want({"a": 0})
            await ear.up()
            await robot.up()
            for n in range(3):
                robot.broker.publish("a", bytes([n]) * 100_000, 0)
            await eventually_async(lambda: [len(p) for p in ear.payloads()] == [100_000] * 3)

"""The one connection of a gateway to the MQTT broker: made anew for ever, never a call that waits in the event loop.

Each connection is a client of its own, so nothing of an old one is sent or acknowledged on a new one; the broker keeps
what was not acknowledged and sends it again. MQTT 5 where the broker speaks it, else 3.1.1.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct
from paho.mqtt import client as paho
from paho.mqtt.subscribeoptions import SubscribeOptions

from telemetry.gateways.mqtt import dialling
from telemetry.gateways.mqtt.beside import beside
from telemetry.gateways.mqtt.broker_address import Address
from telemetry.gateways.mqtt.quick_client import QuickClient
from telemetry.gateways.mqtt.rests import Rests

log = logging.getLogger(__name__)
PROBE_S = 2.0  # the broker was silent for so long: it is asked for an answer
DEAF_S = 4.0  # and then for so long: robots cannot be heard
DEAD_S = 10.0  # and then for so long: the connection is made anew
READ_AT_ONCE = 100  # packets until others have their turn
UNSENT = 5000  # messages to robots that the broker has not taken; more are refused
TAKEN_OVER = 0x8E  # reason code of MQTT 5
NOT_FOR_US = {0x85, 0x86, 0x87, 0x8A}  # the same: name, password, access list, banned. Not: it is busy, or starts
CATCH_UP_S = 2.0
NOT_YET = "not connected yet"


class Away(ConnectionError):
    """The broker is not there, or takes nothing more: what was to be sent has not left."""


class Incoming(Struct):
    """A message as it came. `connection`: over which it came; only there can it be acknowledged."""

    topic: str
    payload: bytes
    qos: int
    retained: bool
    mid: int
    connection: int


class Broker:
    """`run` keeps the connection. `heard` gets each message in the order of their coming, and must not wait."""

    def __init__(
        self, address: Address, client_id: str, heard: Callable[[Incoming], None], *,
        clock: Callable[[], float] = time.monotonic, changed: Callable[[], None] = lambda: None,
        presence: str = "",
    ) -> None:  # fmt: skip
        self.address, self.client_id, self.clock = address, client_id, clock
        self._heard, self._changed, self._presence = heard, changed, presence
        self._client: QuickClient | None = None
        self._wanted: dict[str, tuple[int, bool]] = {}  # filter → quality of service, whether it is a commands' topic
        self._unsent: set[int] = set()
        self._packets = 0
        self._last_packet = self._since = 0.0
        self._resumed = False  # the broker kept a session for us
        self._answered, self._gone = asyncio.Event(), asyncio.Event()
        self._protocol = paho.MQTTv5
        self._has_spoken_5 = False  # the broker, with us: one that is silent then is no old one, but frozen
        self._rests = Rests()
        self.connection = 0  # counts
        self.is_connected = False
        self.why = NOT_YET  # it is not connected; empty when it is
        self._refused = self._let_in = False
        self.is_refused = False  # it is there, and will not have us until somebody changes something

    # --- for the gateway

    @property
    def hears(self) -> bool:
        """Would we hear a robot now?"""
        return self.is_connected and self.clock() - self._last_packet < DEAF_S

    @property
    def catches_up(self) -> bool:
        """What comes now may have waited at the broker for us, who knows how long."""
        return self._resumed and self.clock() - self._since < CATCH_UP_S

    @property
    def speaks_5(self) -> bool:
        return self._protocol == paho.MQTTv5

    @property
    def clash(self) -> bool:
        """Somebody else uses our id: we rest, lest we kick each other out for ever."""
        return self._rests.is_clash

    def want(self, filters: Mapping[str, int], commands: Iterable[str] = ()) -> None:
        """Hear these, with their quality of service, and what is retained on commands' topics; nothing else."""
        wanted = {name: (qos, False) for name, qos in filters.items()} | dict.fromkeys(commands, (0, True))
        old, self._wanted = self._wanted, wanted
        if self.is_connected:
            self._unsubscribe(sorted(old.keys() - wanted.keys()))
            self._subscribe({name: how for name, how in wanted.items() if old.get(name) != how})

    def drop(self, topic: str) -> None:
        """A subscription of an earlier life that nobody wants any more."""
        if self.is_connected and topic not in self._wanted:
            self._unsubscribe([topic])

    def publish(self, topic: str, payload: bytes, qos: int) -> None:
        """Hand over to be written. Never retained. Raises `Away`."""
        if not self.is_connected or self._client is None:
            raise Away(f"the MQTT broker is away: {self.why}")
        if len(self._unsent) >= UNSENT:
            raise Away("the MQTT broker takes nothing more")
        sent = self._client.publish(topic, payload, qos)
        if sent.rc != paho.MQTT_ERR_SUCCESS:
            raise Away(f"the MQTT broker is away: {paho.error_string(sent.rc)}")
        if not sent.is_published():
            self._unsent.add(sent.mid)

    def ack(self, message: Incoming) -> None:
        """It is stored, or never will be: the broker may forget it. One of an earlier connection comes again."""
        if message.qos and self.is_connected and message.connection == self.connection and self._client is not None:
            self._client.ack(message.mid, message.qos)

    def renew(self, why: str) -> None:
        """Make the connection anew: the broker sends again what was not acknowledged."""
        self._rests.renewed = True
        self._lost(why)

    async def run(self) -> None:
        """Keep the connection, until cancelled."""
        while True:
            try:
                began = self.clock()
                was_up = await self._connect()
                if was_up:
                    await self._keep()
            finally:
                self._close()
            rest_s = self._rest(was_up, self.clock() - began)
            self._changed()
            await asyncio.sleep(rest_s)
            self._rests.is_clash = False

    async def end(self) -> None:
        """In order: the broker tells who listens that we are gone. After `run` was cancelled, or before."""
        client = self._client
        if client is not None and self.is_connected:
            client.on_disconnect = None
            with suppress(ValueError):
                if self._presence:
                    client.publish(self._presence, b"offline", 1, retain=True)
                client.disconnect()
                client.loop_write()  # with what else waits, such as acknowledgements
        self._close()

    # --- one connection

    async def _connect(self) -> bool:
        """Says whether the broker let us in."""
        loop = asyncio.get_running_loop()
        self._answered.clear()
        self._gone.clear()
        self._refused = self._let_in = False
        self.connection += 1
        self._unsent.clear()
        client = dialling.new_client(
            self.address, self.client_id, self._on_message, five=self.speaks_5, presence=self._presence
        )
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_publish = self._on_publish
        client.on_subscribe = client.on_unsubscribe = self._on_answer
        dial = partial(dialling.dial, client, self.address, five=self.speaks_5)
        try:
            await beside(dial, partial(dialling.abandon, client))
        except (OSError, ValueError) as error:
            self._say(f"{self.address.host}:{self.address.port} cannot be reached ({error})")
            return False
        self._client = client
        self._last_packet = self.clock()
        sock = client.socket()
        assert sock is not None
        loop.add_reader(sock, self._readable)
        client.on_socket_close = self._socket_closes
        client.on_socket_register_write = lambda _c, _u, s: loop.add_writer(s, self._writable)
        client.on_socket_unregister_write = lambda _c, _u, s: loop.remove_writer(s)
        if client.want_write():
            loop.add_writer(sock, self._writable)
        with suppress(TimeoutError):
            async with asyncio.timeout(dialling.CONNECT_S):
                await self._answered.wait()
        is_silent = not self._answered.is_set()
        hangs_up = self._gone.is_set() and not (self._refused or self._let_in)
        if hangs_up or (is_silent and not (self._has_spoken_5 and self.speaks_5)):
            self._speak_the_other()  # an old broker hangs up, or is silent, when it is spoken to in a newer version
        return self.is_connected

    async def _keep(self) -> None:
        """While the connection lives: once a second, is it still there?"""
        while not self._gone.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._gone.wait()
            self._tick()

    def _tick(self) -> None:
        client, silent_s = self._client, self.clock() - self._last_packet
        if client is None or self._gone.is_set():
            return
        if silent_s >= DEAD_S:
            self._lost(f"the broker has said nothing for {silent_s:.0f} s")
        elif client.loop_misc() == paho.MQTT_ERR_SUCCESS and silent_s >= PROBE_S:
            client.unsubscribe(
                f"drover/gateways/{self.client_id}/nothing"
            )  # whoever lives answers this, and it does nothing
        self._changed()

    def _readable(self) -> None:
        client, sock = self._client, self._client and self._client.socket()
        for _ in range(READ_AT_ONCE):
            before = self._packets
            if client is None or client is not self._client:
                return
            client.loop_read()
            if self._packets == before:
                return
        if client.has_more or (sock is not None and getattr(sock, "pending", int)()):  # read already, here or by TLS
            asyncio.get_running_loop().call_soon(self._readable)

    def _writable(self) -> None:
        if self._client is not None:
            self._client.loop_write()

    def _socket_closes(self, client: QuickClient, userdata: Any, sock: Any) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ValueError, OSError):
            loop.remove_reader(sock)
            loop.remove_writer(sock)

    def _lost(self, why: str) -> None:
        if self.is_connected:
            self._say(why)
        self.is_connected = False
        self._gone.set()
        self._answered.set()
        self._changed()

    def _close(self) -> None:
        client, self._client = self._client, None
        self.is_connected = False
        if client is None:
            return
        client.on_socket_close = client.on_socket_register_write = client.on_socket_unregister_write = None
        client.on_disconnect = None
        if (sock := client.socket()) is not None:
            self._socket_closes(client, None, sock)
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    # --- what paho calls, in the event loop

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._saw_packet()
        if reason.is_failure:
            self._refused = "protocol" not in str(reason).lower()
            self.is_refused = reason.value in NOT_FOR_US
            self._say(f"the broker refuses us: {reason}" + (" (MQTT_URL names the user)" if self._refused else ""))
            self._gone.set()
            self._answered.set()
            return
        self.is_connected, self.why, self._since, self._resumed = True, "", self.clock(), flags.session_present
        self._let_in, self.is_refused = True, False
        self._has_spoken_5 |= self.speaks_5
        version = "5" if self.speaks_5 else "3.1.1"
        log.info("connected to the MQTT broker %s:%d (MQTT %s)", self.address.host, self.address.port, version)
        if self._presence:
            client.publish(self._presence, b"online", 1, retain=True)
        self._subscribe(self._wanted)
        self._answered.set()
        self._changed()

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        if client is not self._client:
            return
        if self.speaks_5 and reason.value == TAKEN_OVER:
            self._rests.is_clash = True
            self._lost(
                f"another client has connected to the broker as {self.client_id} and took our place: is there a second"
                " Drover with the same DROVER_GATEWAY? Each gateway needs a name of its own"
            )
        else:
            self._lost(f"the connection to {self.address.host}:{self.address.port} ended ({reason})")

    def _on_message(self, topic: str, payload: bytes, qos: int, retained: bool, mid: int) -> None:
        self._saw_packet()
        incoming = Incoming(topic, payload, qos, retained, mid, self.connection)
        try:
            self._heard(incoming)
        except Exception:  # paho would be left in the middle of a packet
            log.exception("a message on %.200r could not be taken", topic)
            self.ack(incoming)

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        self._saw_packet()
        self._unsent.discard(mid)

    def _on_answer(self, *_: Any) -> None:
        self._saw_packet()

    def _saw_packet(self) -> None:
        self._packets += 1
        self._last_packet = self.clock()

    # --- subscriptions, words, rests

    def _subscribe(self, filters: Mapping[str, tuple[int, bool]]) -> None:
        items = list(filters.items())
        for some in (items[i : i + 50] for i in range(0, len(items), 50)):
            if self.speaks_5:  # what we send ourselves is not wanted back; whether it is retained is wanted
                topics: list[Any] = [
                    (name, SubscribeOptions(qos=qos, noLocal=own, retainAsPublished=own)) for name, (qos, own) in some
                ]
            else:
                topics = [(name, qos) for name, (qos, _) in some]
            assert self._client is not None
            self._client.subscribe(topics)

    def _unsubscribe(self, filters: list[str]) -> None:
        assert self._client is not None
        for some in (filters[i : i + 50] for i in range(0, len(filters), 50)):
            self._client.unsubscribe(some)

    def _say(self, why: str) -> None:
        if why != self.why:
            log.warning("MQTT: %s; it goes on trying", why)
        self.why = why

    def _speak_the_other(self) -> None:
        self._protocol = paho.MQTTv311 if self.speaks_5 else paho.MQTTv5
        if self.why == NOT_YET:
            self._say("the broker does not let us in")

    def _rest(self, was_up: bool, lived_s: float) -> float:
        told = self._rests.is_clash
        rest_s = self._rests.after(was_up, lived_s)
        if self._rests.is_clash:
            if not told:
                self._say(
                    f"the broker ends our connections at once: does another client use the name {self.client_id}, too?"
                    " Each gateway needs a DROVER_GATEWAY of its own"
                )
            log.error("MQTT: %s. Resting for %.0f s", self.why, rest_s)
        return rest_s

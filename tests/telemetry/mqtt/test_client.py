"""The quick client reads what paho's own reads, however the bytes come; addresses of brokers."""

from types import SimpleNamespace

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import MalformedPacket, Properties
from paho.mqtt.reasoncodes import ReasonCode

from telemetry.gateways.mqtt import broker as module
from telemetry.gateways.mqtt.broker import Address, Away, Broker
from telemetry.gateways.mqtt.quick_client import QuickClient


def properties(version: int) -> bytes:
    if version != paho.MQTTv5:
        return b""
    told = Properties(PacketTypes.PUBLISH)
    told.UserProperty = [("a" * 100, "b" * 100)]
    return bytes(told.pack())


def publish(version: int, topic: str, payload: bytes, qos: int, retain: bool) -> bytes:
    name = topic.encode()
    body = len(name).to_bytes(2) + name + (b"\x01\x07" if qos else b"") + properties(version) + payload
    length, rest = b"", len(body)
    while True:
        digit, rest = rest % 128, rest // 128
        length += bytes([digit | (128 if rest else 0)])
        if not rest:
            return bytes([0x30 | qos << 1 | retain]) + length + body


class Pieces:
    """A socket that gives what it has in pieces of this size."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = data, size

    def recv(self, wanted: int) -> bytes:
        if not self.data:
            raise BlockingIOError
        n = min(self.size, wanted)
        piece, self.data = self.data[:n], self.data[n:]
        return piece


MESSAGES = [
    ("drover/v1/RB-001/events", b"{}", 1, False),
    ("uagv/v2/KIT/0001/state", b"x" * 70_000, 0, False),
    ("a/\N{SNOWMAN}", b"", 0, True),
    ("a", b"\x00\xff", 1, True),
]


def read_by(client, data: bytes, size: int, heard: list) -> list:
    client._sock = Pieces(data, size)
    for _ in range(len(data) + 100):
        client.loop_read()
    client._sock = None
    return heard


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("size", [1, 3, 1000, 10**6])
def test_it_reads_what_pahos_own_reads(version, size):
    data = b"".join(publish(version, *message) for message in MESSAGES)
    quick: list = []
    client = QuickClient("x", lambda *message: quick.append(message), protocol=version)
    read_by(client, data, size, quick)
    slow: list = []
    own = paho.Client(CallbackAPIVersion.VERSION2, "x", protocol=version, manual_ack=True)
    own.on_message = lambda _c, _u, m: slow.append((m.topic, bytes(m.payload), m.qos, bool(m.retain), m.mid))
    read_by(own, data, size, slow)
    assert quick == slow
    assert [m[:4] for m in quick] == MESSAGES
    assert not client.has_more


@pytest.mark.parametrize("packet", [b"", b"\x00", b"\x00\x05ab", b"\x00\x01a\x01", b"\x00\x01a\x00\x07", b"\x00\x01a\x00\x07\xff\xff\xff\xff\x01"])  # fmt: skip
def test_what_is_shorter_than_it_says_is_malformed(packet):
    client = QuickClient("x", lambda *_: None, protocol=paho.MQTTv5)
    client._in_packet |= {"command": 0x32, "packet": bytearray(packet)}
    with pytest.raises(MalformedPacket):
        client._handle_publish()


def test_addresses_of_brokers():
    assert Address.of("mqtt://a:p%40w@h") == Address(host="h", port=1883, user="a", password="p@w")
    assert Address.of("mqtts://h:99?ca=/x.pem") == Address(host="h", port=99, tls=True, ca="/x.pem")
    assert Address.of("mqtts://h").port == 8883


@pytest.mark.parametrize(
    "url", ["", "h:1883", "http://h", "mqtt://", "mqtt://h:port", "mqtt://h?ca=x", "mqtts://h?user=x"]
)
def test_what_is_wrong_with_an_address_is_said(url):
    with pytest.raises(ValueError, match="MQTT_URL"):
        Address.of(url)


# --- what the broker does not take


class Stuck:
    """A client whose broker takes nothing: what is published waits."""

    def __init__(self) -> None:
        self.published = 0

    def publish(self, topic, payload, qos):
        self.published += 1
        return paho.MQTTMessageInfo(self.published)


async def test_what_the_broker_does_not_take_is_refused_in_the_end(monkeypatch):
    monkeypatch.setattr(module, "UNSENT", 3)
    broker, stuck = Broker(Address.of("mqtt://127.0.0.1:1"), "drover-one", print), Stuck()
    broker._client, broker.is_connected = stuck, True
    for _ in range(3):
        broker.publish("a", b"", 0)
    with pytest.raises(Away, match="takes nothing more"):
        broker.publish("a", b"", 0)
    broker._on_publish(stuck, None, 2, None, None)
    broker.publish("a", b"", 0)
    assert stuck.published == 4


@pytest.mark.parametrize(
    ("code", "passes"), [(0x85, False), (0x86, False), (0x87, False), (0x8A, False), (0x88, True), (0x89, True)]
)
async def test_what_refuses_us_until_somebody_changes_something_is_told_from_what_passes(code, passes):
    broker = Broker(Address.of("mqtt://127.0.0.1:1"), "drover-one", print)
    broker._on_connect(None, None, None, ReasonCode(PacketTypes.CONNACK, identifier=code), None)
    assert broker.is_refused is not passes
    assert "refuses us" in broker.why
    welcome = ReasonCode(PacketTypes.CONNACK, identifier=0)
    broker._on_connect(None, None, SimpleNamespace(session_present=False), welcome, None)
    assert not broker.is_refused

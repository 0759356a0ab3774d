"""How the broker is dialled: what a client of ours says of itself, in MQTT 5 or 3.1.1."""

from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from telemetry.gateways.mqtt.broker_address import Address
from telemetry.gateways.mqtt.quick_client import OnMessage, QuickClient

CONNECT_S = 4.0  # for the TCP connection, and again for the broker's word
KEEPALIVE_S = 15
WINDOW = 1000  # messages of robots that are not acknowledged: the broker keeps the rest
MAX_PACKET = 2**20  # bytes; the broker keeps what is longer to itself (MQTT 5)
EXPIRES_S = 24 * 3600  # the broker keeps messages for a gateway that is away for so long


def new_client(address: Address, client_id: str, heard: OnMessage, *, five: bool, presence: str) -> QuickClient:
    """One that is not connected yet. `presence`: where the broker says that we are gone, if anywhere."""
    protocol, session = (paho.MQTTv5, {}) if five else (paho.MQTTv311, {"clean_session": False})
    client = QuickClient(client_id, heard, protocol=protocol, **session)
    client.connect_timeout = CONNECT_S
    client.max_inflight_messages_set(WINDOW)
    if address.user:
        client.username_pw_set(address.user, address.password or None)
    if address.tls:
        client.tls_set(address.ca or None, address.cert or None, address.key or None)
    if presence:
        client.will_set(presence, b"offline", 1, retain=True)
    return client


def dial(client: QuickClient, address: Address, *, five: bool) -> None:
    """Waits, so in a thread: TCP and TLS, and CONNECT is on its way."""
    if not five:
        client.connect(address.host, address.port, KEEPALIVE_S)
        return
    told = Properties(PacketTypes.CONNECT)
    told.SessionExpiryInterval, told.ReceiveMaximum, told.MaximumPacketSize = EXPIRES_S, WINDOW, MAX_PACKET
    client.connect(address.host, address.port, KEEPALIVE_S, clean_start=False, properties=told)


def abandon(client: QuickClient) -> None:
    """Nobody waits for it any more."""
    if (sock := client.socket()) is not None:
        sock.close()

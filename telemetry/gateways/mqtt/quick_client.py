"""paho's client, reading what has come in one go and a message in one step: a sixth of the time.

Two private methods of paho-mqtt 2.2.0 are replaced (requirements.txt pins it; tests/telemetry/test_mqtt_client.py holds
them to what paho's own do): paho reads a byte at a time and builds an object of properties that nobody looks at.
"""

from collections.abc import Callable
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import MalformedPacket

CHUNK = 65536  # bytes read at a time

OnMessage = Callable[[str, bytes, int, bool, int], None]  # topic, payload, quality of service, retained, number


class QuickClient(paho.Client):
    """`heard` gets each message. Acknowledging is up to the caller."""

    def __init__(self, client_id: str, heard: OnMessage, **options: Any) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, client_id, manual_ack=True, reconnect_on_failure=False, **options)
        self._quick_heard = heard
        self._chunk, self._at = b"", 0

    @property
    def has_more(self) -> bool:
        """What was read already is not used up: nobody will say that there is something to read."""
        return bool(self._chunk)

    def _sock_recv(self, bufsize: int) -> bytes:
        if not self._chunk:
            self._chunk, self._at = super()._sock_recv(max(bufsize, CHUNK)), 0
        at = self._at
        data = self._chunk[at : at + bufsize]
        self._at = at + len(data)
        if self._at >= len(self._chunk):
            self._chunk = b""
        return data

    def _handle_publish(self) -> paho.MQTTErrorCode:
        head, packet = self._in_packet["command"], self._in_packet["packet"]
        qos = (head & 0x06) >> 1
        if qos > 1:
            return paho.MQTTErrorCode.MQTT_ERR_PROTOCOL  # nothing is subscribed to with more
        try:
            at = 2 + (packet[0] << 8 | packet[1])
            topic = packet[2:at].decode("utf-8", "replace")
            mid = 0
            if qos:
                mid = packet[at] << 8 | packet[at + 1]
                at += 2
            if self._protocol == paho.MQTTv5:
                at = _after_properties(packet, at)
        except IndexError:
            raise MalformedPacket("shorter than it says") from None
        if at > len(packet):
            raise MalformedPacket("shorter than it says")
        self._quick_heard(topic, bytes(memoryview(packet)[at:]), qos, bool(head & 1), mid)
        return paho.MQTTErrorCode.MQTT_ERR_SUCCESS


def _after_properties(packet: bytearray, at: int) -> int:
    """Where the payload begins; `at`: the length of the properties, a variable byte integer."""
    length = shift = 0
    while True:
        byte = packet[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + length
        shift += 7
        if shift > 21:
            raise MalformedPacket("the length of its properties has no end")

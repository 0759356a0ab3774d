"""VDA 5050 (2.0 and 2.1 over MQTT): reads liberally what robots say, writes strictly what they are told."""

from telemetry.drivers.vda5050.topics import driver

__all__ = ["driver"]

"""App configuration of telemetry: the outermost app, where the wires to the world end."""

from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "telemetry"

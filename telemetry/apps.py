"""App configuration of telemetry: the outermost app, where the wires to the world end."""

from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "telemetry"

    def ready(self) -> None:
        from fleet import live
        from telemetry import evidence, metrics, snapshots
        from telemetry.live import dirty, revocation

        live.source = snapshots.facts
        dirty.connect()
        metrics.connect()
        revocation.connect()
        evidence.connect()

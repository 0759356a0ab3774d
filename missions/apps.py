"""App configuration of missions."""

from django.apps import AppConfig


class MissionsConfig(AppConfig):
    name = "missions"

    def ready(self) -> None:
        from missions import catalogue  # noqa: F401  (registers the kinds of mission events)

"""App configuration of missions."""

from django.apps import AppConfig


class MissionsConfig(AppConfig):
    name = "missions"

    def ready(self) -> None:
        from fleet.ports import work
        from missions import alert_rules, catalogue  # noqa: F401  (they register event kinds and alerts)
        from missions.work import current

        work.source = current

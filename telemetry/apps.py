"""App configuration of telemetry: the outermost app, where the wires to the world end."""

from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "telemetry"

    def ready(self) -> None:
        from django.db.models import Q

        from fleet.models import Robot
        from fleet.people.access import PATH_TO_SITE
        from fleet.ports import drivers, live
        from fleet.ports import irregular as port
        from missions.letters import actions as letter_actions
        from missions.models import Direction
        from telemetry import driver_choice, irregular, metrics, snapshots
        from telemetry.live import dirty, revocation
        from telemetry.out.webhooks import rules, undelivered  # noqa: F401  (the rules add to the catalogue)
        from telemetry.pages import evidence

        live.source = snapshots.facts
        drivers.source = driver_choice.known
        port.source = irregular.of_robot
        # as text: of a name that is no robot of theirs, those of some sites need not know
        PATH_TO_SITE["telemetry.knock"] = lambda sites: Q(robot__in=Robot.objects.filter(site__in=sites).values("pk"))
        PATH_TO_SITE.update(
            {"telemetry.tally": "site", "telemetry.webhook": "site", "telemetry.sending": "webhook__site"}
        )
        PATH_TO_SITE["telemetry.irregularity"] = "robot__site"
        letter_actions.REOPEN[Direction.HOOK] = undelivered.open_again
        dirty.connect()
        metrics.connect()
        revocation.connect()
        evidence.connect()

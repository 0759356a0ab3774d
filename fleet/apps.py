"""App configuration of fleet: the site and its robots."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin
from django.db.models.signals import post_migrate, pre_migrate


class FleetConfig(AppConfig):
    name = "fleet"
    default = True

    def ready(self) -> None:
        from fleet import catalogue, triggers  # noqa: F401  (it registers event kinds)
        from fleet.alerts import rules  # noqa: F401  (it registers what alerts)
        from fleet.people import roles, sign_in

        sign_in.connect()

        pre_migrate.connect(triggers.before_migrate, dispatch_uid="triggers.drop")
        post_migrate.connect(triggers.after_migrate, dispatch_uid="triggers.create")
        post_migrate.connect(roles.sync, dispatch_uid="roles.sync")


class AdminConfig(admin.SimpleAdminConfig):
    """Its pages are loaded with the URLs: a worker has none, and they are a fifth of what it would load."""

    default = False
    default_site = "fleet.people.door.Door"

"""App configuration of fleet: the site and its robots."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin
from django.db.models.signals import post_migrate, pre_migrate


class FleetConfig(AppConfig):
    name = "fleet"
    default = True

    def ready(self) -> None:
        from fleet import alert_rules, catalogue, roles, sign_in, triggers  # noqa: F401  (two register kinds and alerts)

        sign_in.connect()

        pre_migrate.connect(triggers.before_migrate, dispatch_uid="triggers.drop")
        post_migrate.connect(triggers.after_migrate, dispatch_uid="triggers.create")
        post_migrate.connect(roles.sync, dispatch_uid="roles.sync")


class AdminConfig(admin.AdminConfig):
    default = False
    default_site = "fleet.door.Door"

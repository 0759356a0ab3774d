"""Roles: which permission belongs to which group. One table; groups are synced from it after every migrate."""

from typing import Any

from django.contrib.auth.models import Group, Permission

from fleet.models import Role

_VIEW = {
    f"{app}.view_{model}"
    for app, models in {
        "fleet": "site place brand robot event command alert silence",
        "missions": "mission template deadletter",
        "telemetry": "tally",
    }.items()
    for model in models.split()
}
_STEER = {
    *(f"missions.{verb}_mission" for verb in ("add", "change", "dispatch", "cancel", "pause", "resume", "approve")),
    *(f"missions.{verb}_template" for verb in ("add", "change")),
    "missions.requeue_deadletter",
    "missions.discard_deadletter",
    "fleet.stop_robot",
    "fleet.release_robot",
    "fleet.maintain_robot",
    "fleet.acknowledge_alert",
    "fleet.view_apitoken",
    "fleet.add_apitoken",
}
_MANAGE = {
    *(f"fleet.{verb}_{model}" for verb in ("add", "change") for model in ("site", "place", "brand", "robot")),
    "fleet.retire_robot",
    "fleet.issue_credential",
    "fleet.silence_alert",
    "fleet.view_robotcredential",
    "telemetry.view_knock",
    *(f"telemetry.{verb}_webhook" for verb in ("add", "change", "view")),
    *(f"auth.{verb}_user" for verb in ("add", "change", "view")),
    "auth.view_group",
}

ROLES: dict[str, set[str]] = {
    Role.ADMIN: _VIEW | _STEER | _MANAGE,
    Role.SUPERVISOR: _VIEW | _STEER,
    Role.AUDITOR: _VIEW,
}


def sync(*, app_config: Any, **_: Any) -> None:
    """Give each role's group exactly the permissions of the table (post_migrate of the last app)."""
    if app_config.name != "telemetry":
        return
    known = {f"{p.content_type.app_label}.{p.codename}": p for p in Permission.objects.select_related("content_type")}
    for role, permissions in ROLES.items():
        group, _created = Group.objects.get_or_create(name=str(role))
        group.permissions.set([known[name] for name in sorted(permissions)])

"""Records to look at: the commands to robots. Never added, changed or deleted here. (Events: audit.py.)"""

import json
from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db.models import Model
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.admin.kept import ReadOnlyAdmin
from fleet.admin.timeline import stamp
from fleet.columns import storable
from fleet.history import AGGREGATES
from fleet.models import Command


def laid_out(body: str) -> str:
    """JSON for reading; as it came what is none, or what spells text that no page can show (half a surrogate pair)."""
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
        return text if storable(text) else body
    return body


def as_text(body: str) -> SafeString:
    return format_html('<pre class="data" dir="ltr">{}</pre>', laid_out(body))


@admin.register(Command)
class CommandAdmin(ReadOnlyAdmin):
    nothing = "No commands yet. What is sent to robots is listed here, with what became of it."
    list_display = ("made", "kind", "robot_id", "state", "delivered", "mission")
    list_filter = ("state",)
    search_fields = ("=id", "=robot__id", "=mission", "kind")
    search_help_text = "Message id, robot id or mission id in full, or kind"
    ordering = ("-order",)
    fields = ("id", "robot", "kind", "state", "of_mission", "dispatch_no", "created_at", "delivered_at", "pretty")
    readonly_fields = ("of_mission", "pretty")

    @admin.display(description="made", ordering="created_at")
    def made(self, command: Command) -> SafeString | str:
        return stamp(command.created_at)

    @admin.display(description="delivered", ordering="delivered_at")
    def delivered(self, command: Command) -> SafeString | str:
        return stamp(command.delivered_at)

    @admin.display(description="mission")
    def of_mission(self, command: Command) -> SafeString | str:
        if command.mission is None:
            return "–"
        return format_html('<a href="{}">{}</a>', page_of("mission", str(command.mission)), command.mission)

    @admin.display(description="message")
    def pretty(self, command: Command) -> SafeString:
        return as_text(command.body)


# aggregate → whose admin page shows it, if not its own model's; other apps add theirs
PAGES: dict[str, type[Model]] = {"person": User}


def page_of(prefix: str, key: str, user: Any = None) -> str:
    """Address of the admin page of what an event is about; empty when it has none or this user may not open it."""
    if prefix not in AGGREGATES:
        return ""
    opts = PAGES.get(prefix, AGGREGATES[prefix].model)._meta
    if user is not None and not user.has_perm(f"{opts.app_label}.view_{opts.model_name}"):
        return ""
    try:
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[quote(key)])
    except NoReverseMatch:
        return ""

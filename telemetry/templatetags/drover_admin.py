"""Template tag of the admin's start page, which looks across all apps."""

from typing import Any

from django import template

from telemetry.pages import overview

register = template.Library()


@register.simple_tag(takes_context=True)
def drover_overview(context: Any) -> dict[str, Any]:
    return overview.overview(context["request"].user)

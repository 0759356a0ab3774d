"""Template tags of the admin: what its start page says, looking across all apps, and cells that name their column."""

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.text import capfirst

from telemetry.pages import overview

register = template.Library()


@register.simple_tag(takes_context=True)
def drover_overview(context: Any) -> dict[str, Any]:
    return overview.overview(context["request"].user)


@register.filter
def labelled(cells: list[str], headers: list[dict[str, Any]]) -> list[str]:
    """Cells of one row of a list, each with the words of its column: on a phone there are no columns."""
    found = []
    for cell, header in zip(cells, headers, strict=False):
        label = format_html('<td data-label="{}"', capfirst(header["text"]))
        plain = header.get("class_attrib") and "action-checkbox" in header["class_attrib"]
        found.append(cell if plain else mark_safe(cell.replace("<td", label, 1)))  # noqa: S308 - finished HTML of cells
    return found

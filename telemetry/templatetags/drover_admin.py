"""Template tags of the admin: what its start page says, looking across all apps, and cells that name their column."""

import re
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.text import capfirst

from telemetry.pages import overview

register = template.Library()
TAG, LONG_WORD = re.compile("<[^>]*>"), re.compile(r"\S{25}")


@register.simple_tag(takes_context=True)
def drover_overview(context: Any) -> dict[str, Any]:
    return overview.overview(context["request"].user)


@register.filter
def labelled(cells: list[str], headers: list[dict[str, Any]]) -> list[str]:
    """Cells of one row of a list, each with the words of its column: on a phone there are no columns.

    One whose text has a word that is longer than a column says so, and is broken within it.
    """
    found = []
    for cell, header in zip(cells, headers, strict=False):
        plain = header.get("class_attrib") and "action-checkbox" in header["class_attrib"]
        if not plain:
            label = format_html('<td data-label="{}"', capfirst(header["text"]))
            cell = mark_safe(cell.replace("<td", label, 1))  # noqa: S308 - finished HTML of cells
            if LONG_WORD.search(TAG.sub(" ", cell)):
                cell = mark_safe(re.sub("<t([dh])", r"<t\1 data-long", cell, count=1))  # noqa: S308
        found.append(cell)
    return found

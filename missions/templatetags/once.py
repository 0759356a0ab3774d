"""Template tag: a new key for each page that makes something (fleet/admin/once.py)."""

import secrets

from django import template

register = template.Library()


@register.simple_tag
def once() -> str:
    return secrets.token_hex(16)

"""Who may see and do what, where: the one place where roles meet sites (I11).

A role says what (fleet/roles.py), membership says where. What a person may not see does not exist for them (404); what
they see and may not do is refused (403).
"""

from collections.abc import Callable
from typing import Any

from django.db.models import Q, QuerySet

from fleet.models import Membership, Person

# model → lookup of the site that a row of it belongs to, or the condition for these sites; missions adds its own
PATH_TO_SITE: dict[str, str | Callable[[frozenset[int]], Q]] = {
    "fleet.site": "pk",
    "fleet.place": "site",
    "fleet.robot": "site",
    "fleet.hold": "robot__site",
    "fleet.robotcredential": "robot__site",
    "fleet.command": "robot__site",
    "fleet.event": "site_id",
}
EVERY_SITE = None


def sites_of(user: Any) -> frozenset[int] | None:
    """Keys of the sites that this user belongs to; None for every site, those to come as well. Read once per request."""
    if not hasattr(user, "_drover_sites"):
        user._drover_sites = _sites_of(user)
    found: frozenset[int] | None = user._drover_sites
    return found


def _sites_of(user: Any) -> frozenset[int] | None:
    if not user.is_active:  # anonymous users are not
        return frozenset()
    if user.is_superuser or Person.objects.filter(pk=user.pk, all_sites=True).exists():
        return EVERY_SITE
    return frozenset(Membership.objects.filter(person=user.pk).values_list("site_id", flat=True))


def at_sites(user: Any, queryset: QuerySet[Any]) -> QuerySet[Any]:
    """The rows that belong to the user's sites. Raises KeyError for a model that is not in the table."""
    path = PATH_TO_SITE[queryset.model._meta.label_lower]
    sites = sites_of(user)
    if sites is EVERY_SITE:
        return queryset
    return queryset.filter(path(sites) if callable(path) else Q(**{f"{path}__in": sites}))


def may(user: Any, permission: str, site_id: int | None) -> bool:
    """Whether the user's role allows it, and allows it there. A row without a site is for those of every site."""
    sites = sites_of(user)
    return bool(user.has_perm(permission)) and (sites is EVERY_SITE or site_id in sites)

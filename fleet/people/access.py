"""Who may see and do what, where: the one place where roles meet sites (I11).

A role says what (fleet/people/roles.py), membership says where. What a person may not see does not exist for them (404); what
they see and may not do is refused (403).
"""

from collections.abc import Callable
from typing import Any

from django.db.models import Model, Q, QuerySet

from fleet.models import Membership, Person, Site


def _no_site(sites: frozenset[int]) -> Q:
    return Q()


def _people(sites: frozenset[int]) -> Q:
    """Those whose access is no wider than these sites."""
    elsewhere = Membership.objects.exclude(site__in=sites).values("person")
    return Q(is_superuser=False) & ~Q(person__all_sites=True) & ~Q(pk__in=elsewhere)


def _tokens(sites: frozenset[int]) -> Q:
    """API tokens of those people."""
    elsewhere = Membership.objects.exclude(site__in=sites).values("person")
    return Q(person__user__is_superuser=False, person__all_sites=False) & ~Q(person__in=elsewhere)


NO_SITE = _no_site  # belongs to no site: whose role allows it may read it, who has every site may change it

# model → lookup of the site that a row of it belongs to, or the condition for these sites; missions adds its own
PATH_TO_SITE: dict[str, str | Callable[[frozenset[int]], Q]] = {
    "fleet.site": "pk",
    "fleet.place": "site",
    "fleet.mapimage": "site",
    "fleet.robot": "site",
    "fleet.hold": "robot__site",
    "fleet.robotcredential": "robot__site",
    "fleet.command": "robot__site",
    "fleet.delivery": "command__robot__site",
    "fleet.event": "site_id",
    "fleet.brand": NO_SITE,
    "auth.user": _people,
    "fleet.apitoken": _tokens,
    "auth.group": NO_SITE,
    "auth.permission": NO_SITE,
    "fleet.alert": "site",
    "fleet.silence": "site",
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
    path = _path(queryset.model)
    sites = sites_of(user)
    if sites is EVERY_SITE:
        return queryset
    return queryset.filter(path(sites) if callable(path) else Q(**{f"{path}__in": sites}))


def may(user: Any, permission: str, site_id: int | None) -> bool:
    """Whether the user's role allows it, and allows it there. A row without a site is for those of every site."""
    sites = sites_of(user)
    return bool(user.has_perm(permission)) and (sites is EVERY_SITE or site_id in sites)


def may_shape(user: Any, model: type[Model], *, new: bool) -> bool:
    """Whether the user's sites allow to change rows of this model, or to add one.

    What belongs to no site is everybody's, and a new site is nobody's yet: both are for those of every site.
    """
    everybodys = _path(model) is NO_SITE or (new and model is Site)
    return not everybodys or sites_of(user) is EVERY_SITE


def narrow(user: Any, form: Any) -> Any:
    """The same form, or formset, offering and accepting only what the user may see."""
    for one in getattr(form, "forms", [form]):
        for field in one.fields.values():
            if hasattr(field, "queryset"):
                field.queryset = at_sites(user, field.queryset)
                one._errors = None  # checked again, against what is left
    return form


def _path(model: type[Model]) -> str | Callable[[frozenset[int]], Q]:
    label = model._meta.label_lower
    try:
        return PATH_TO_SITE[label]
    except KeyError:
        raise KeyError(
            f"{label} has no place in fleet.people.access.PATH_TO_SITE: say how its rows belong to a site"
        ) from None

"""What can be done with people's access. Each verb is one transaction with an event of its own."""

from collections.abc import Iterable

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.utils import timezone

from fleet.commit import commit, load, new
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Role, Site


def grant_access(
    user: User, *, role: str, by: Origin, sites: Iterable[Site | int] = (), all_sites: bool = False
) -> None:
    """Give exactly this role at exactly these sites; an empty role takes everything away."""
    now, wanted = timezone.now(), {int(getattr(site, "pk", site)) for site in sites}
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # a person's first event has no row to lock yet
        change = load(AGGREGATES["person"], [user.pk]).get(user.pk) or new(AGGREGATES["person"], user.pk)
        change.origin, change.now = by, now
        if data := _differences(change, role, wanted, all_sites):
            change.record("person.access_changed", **data, where=_where(wanted, all_sites))
            commit([change], now=now)
        user.groups.set(Group.objects.filter(name=role))
        user.is_staff = bool(role) or user.is_superuser  # a role opens the admin pages too
        user.save(update_fields=["is_staff"])
    user.__dict__.pop("_drover_sites", None)


def _differences(change: Change, role: str, wanted: set[int], all_sites: bool) -> dict[str, object]:
    person, has = change.row, set(change.children["memberships"])
    data: dict[str, object] = {
        column: value for column, value in (("role", Role(role) if role else ""), ("all_sites", all_sites))
        if getattr(person, column) != value
    }  # fmt: skip
    moved = [{"number": pk, "site_id": pk} for pk in sorted(wanted - has)]
    moved += [{"number": pk, "gone": True} for pk in sorted(has - wanted)]  # type: ignore[dict-item]
    return data | ({"memberships": moved} if moved else {})


def _where(sites: set[int], all_sites: bool) -> str:
    return "all sites" if all_sites else ", ".join(Site.objects.filter(pk__in=sites).values_list("name", flat=True))

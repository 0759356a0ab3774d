"""What can be done with people and their access. Each verb is one transaction with an event of its own."""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.commit import commit, load, new
from fleet.history import AGGREGATES, MAX_NAME, Change, Origin
from fleet.models import Role, SessionRecord, Site
from fleet.refusals import Refused

EDITABLE = {"username": "user name", "first_name": "first name", "last_name": "last name", "email": "e-mail"}


def add_person(
    *, username: str, password: str | None, by: Origin, role: str = "", sites: Iterable[Site | int] = (),
    all_sites: bool = False, **names: str,
) -> User:  # fmt: skip
    """A new account with its role and sites. `names`: first_name, last_name, email. Without password nobody signs in."""
    user = User(username=username, **names)
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
            tell(user, "person.added", by=by, username=username, name=user.get_full_name()[:MAX_NAME])
            grant_access(user, role=role, sites=sites, all_sites=all_sites, by=by)
    except IntegrityError as error:
        if not User.objects.filter(username=username).exists():
            raise
        raise Refused(f"There is somebody called {username} already. Choose another user name.") from error
    return user


def edit_person(user: User, *, by: Origin, **names: str) -> None:
    """Change user name, first and last name, e-mail; what is not given stays."""
    changed = [column for column in EDITABLE if names.get(column, getattr(user, column)) != getattr(user, column)]
    if not changed:
        return
    for column in changed:
        setattr(user, column, names[column])
    try:
        with transaction.atomic():
            user.save(update_fields=changed)
            tell(user, "person.edited", by=by, what=", ".join(EDITABLE[column] for column in changed))
    except IntegrityError as error:
        raise Refused(f"There is somebody called {names['username']} already. Choose another user name.") from error


def grant_access(
    user: User, *, role: str, by: Origin, sites: Iterable[Site | int] = (), all_sites: bool = False
) -> None:
    """Give exactly this role at exactly these sites; an empty role takes everything away."""
    wanted = {int(getattr(site, "pk", site)) for site in sites}
    with transaction.atomic():
        change = _locked(user, by)
        if data := _differences(change, role, wanted, all_sites):
            change.record("person.access_changed", **data, where=_where(wanted, all_sites))
            commit([change], now=_now(change))
        user.groups.set(Group.objects.filter(name=role))
        user.is_staff = bool(role) or user.is_superuser  # a role opens the admin pages too
        user.save(update_fields=["is_staff"])
    user.__dict__.pop("_drover_sites", None)


def deactivate(user: User, *, by: Origin) -> None:
    """Nobody signs in with this account, and who is signed in is signed out. Role and history stay."""
    _activate(user, False, "person.deactivated", by)


def reactivate(user: User, *, by: Origin) -> None:
    """The account works again, with the role it had."""
    _activate(user, True, "person.reactivated", by)


def set_password(user: User, password: str, *, by: Origin) -> None:
    """A new password. Every session that was opened with the old one is over; a page that asked for it gets a new one."""
    with transaction.atomic():
        user.set_password(password)
        user.save(update_fields=["password"])
        _sign_out(user)
        tell(user, "person.password_changed", by=by)


def tell(user: User, kind: str, *, by: Origin, **data: Any) -> None:
    """Write an event that changes no column into the person's history."""
    with transaction.atomic():
        change = _locked(user, by)
        change.record(kind, **data)
        commit([change], now=_now(change))


def _activate(user: User, active: bool, kind: str, by: Origin) -> None:
    if user.is_active is active:
        return
    with transaction.atomic():
        user.is_active = active
        user.save(update_fields=["is_active"])
        _sign_out(user)
        tell(user, kind, by=by)


def _sign_out(user: User) -> None:
    keys = SessionRecord.objects.filter(user=user).values("key")
    Session.objects.filter(session_key__in=keys).delete()


def _locked(user: User, by: Origin) -> Change:
    User.objects.select_for_update().get(pk=user.pk)  # a person's first event has no row to lock yet
    change = load(AGGREGATES["person"], [user.pk]).get(user.pk) or new(AGGREGATES["person"], user.pk)
    change.origin, change.now = by, timezone.now()
    return change


def _now(change: Change) -> Any:
    assert change.now is not None
    return change.now


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

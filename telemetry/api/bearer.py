"""Who calls the API: the token's person, within the token's scopes and the person's sites."""

from typing import Any

from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja.errors import AuthorizationError
from ninja.security import HttpBearer

from fleet.models import ApiToken
from fleet.people.access import at_sites
from fleet.people.tokens import SCOPES, allows, token_of
from telemetry.api import asked
from telemetry.api.problems import Wrong


class Bearer(HttpBearer):
    """`Authorization: Bearer drover_api_…`. Cookies count for nothing here, so there is nothing to forge."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        found = token_of(token, timezone.now())
        if found is not None:
            request.user = found.person.user
        return found


def need(request: Any, permission: str) -> None:
    """Refuse (403) what the token's scopes or its person's role do not allow, and say which of them.

    Also (422) a parameter in the address that nobody would read.
    """
    asked.check(request)
    if not allows(request.auth, permission):
        scopes = " or ".join(name for name, (_, lets) in SCOPES.items() if permission in lets)
        raise AuthorizationError(403, f"This token lacks the scope {scopes}. Issue one that has it.")
    if not request.user.has_perm(permission):
        raise AuthorizationError(403, f"{request.auth.person} may not do this. Ask an admin if the role should.")


def found(request: Any, queryset: QuerySet[Any], pk: Any, what: str) -> Any:
    """The row, if it is at one of the person's sites; else it does not exist (404)."""
    comparable = "\x00" not in str(pk)  # else PostgreSQL would refuse
    row: Model | None = at_sites(request.user, queryset).filter(pk=pk).first() if comparable else None
    if row is None:
        raise Http404(f"There is no {what} {pk} that this token may see.")
    return row


def known(request: Any, queryset: QuerySet[Any], pk: Any, field: str) -> None:
    """Refuse (422) a filter by what there is not: an empty list would say that all is quiet there."""
    try:
        found(request, queryset, pk, field)
    except Http404 as nobody:
        raise Wrong(field, str(nobody)) from None

"""API tokens: everybody issues and revokes their own; who manages people sees theirs too."""

import json
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.admin.buttons import Button
from fleet.admin.pages import PageAdmin
from fleet.history import by_user
from fleet.models import ApiToken, Event, no_nul
from fleet.people.tokens import SCOPES, issue_token, revoke_token
from fleet.refusals import Refused
from fleet.robots.credentials import digest_of
from fleet.wording import ago


class TokenForm(forms.Form):
    """What the program is, what it may do, until when."""

    label = forms.CharField(max_length=200, validators=[no_nul], help_text="What will use it, e.g. warehouse system.")
    scopes = forms.MultipleChoiceField(
        choices=[(name, f"{says} ({name})") for name, (says, _) in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
        help_text="It never may more than you may, and only at your sites.",
    )
    expires_at = forms.DateTimeField(
        label="Expires (UTC)", required=False, help_text="Empty: when it is revoked.",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )  # fmt: skip


def _revoke(request: HttpRequest, token: ApiToken) -> str:
    if revoke_token(token.person_id, token.number, by=by_user(request.user)):
        return f"“{token}” is revoked: it is worth nothing from now on."
    return f"“{token}” was revoked before."


@admin.register(ApiToken)
class TokenAdmin(PageAdmin):
    nothing = "No API tokens yet. Programs that use the operator API (docs/api.md) each need one of their own."
    first = "Issue the first"
    add = "Issue an API token"
    page_template = "admin/drover/api_token.html"
    form_template = "admin/drover/api_token_form.html"
    list_display = ("label", "whose", "may", "condition", "used")
    list_select_related = ("person__user",)
    search_fields = ("label", "person__user__username")
    ordering = ("-issued_at",)
    buttons = (
        Button(
            "revoke", "Revoke…", "fleet.add_apitoken", _revoke, shown=lambda t: t.revoked_at is None, look="danger",
            confirm="Whatever uses it is refused from the next request on. It cannot be brought back.", yes="Revoke it",
        ),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        tokens = super().get_queryset(request)
        return tokens if request.user.has_perm("auth.change_user") else tokens.filter(person=request.user.pk)

    def can_edit(self, request: HttpRequest, row: Any) -> bool:
        return False

    def why_not_editable(self, row: Any) -> str:
        return "A token is never changed. Revoke it and issue another."

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"form": TokenForm(request.POST if request.method == "POST" else None)}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said, owner = forms["form"].cleaned_data, request.user
        if not owner.is_active or not hasattr(owner, "person"):
            raise Refused("You have no role of your own yet, so a token could do nothing.")
        secret = issue_token(owner, **said, by=by_user(owner))
        token = ApiToken.objects.get(digest=digest_of(secret))
        request.session[SHOWN_ONCE] = {"token": token.pk, "secret": secret}
        return token.pk, f"“{token}” is issued."

    def made_by(self, event: Event) -> Any:
        [issued] = json.loads(event.data)["tokens"]
        return ApiToken.objects.values_list("pk", flat=True).get(
            person=event.aggregate.partition(":")[2], number=issued["number"]
        )

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        held = request.session.get(SHOWN_ONCE)
        if held and held["token"] == row.pk:
            del request.session[SHOWN_ONCE]  # a reload shows it no more
            secret = held["secret"]
        else:
            secret = ""
        return {
            "secret": secret,
            "command_line": f'curl -H "Authorization: Bearer {secret}" {request.build_absolute_uri("/api/v1/missions")}',
            "scopes": [(name, SCOPES[name][0]) for name in row.scopes if name in SCOPES],
            "condition": self.condition(row),
            "used": self.used(row),
        }

    @admin.display(description="of")
    def whose(self, token: ApiToken) -> str:
        return str(token.person)

    @admin.display(description="may")
    def may(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)

    @admin.display(description="state")
    def condition(self, token: ApiToken) -> SafeString:
        now = timezone.now()
        if token.revoked_at:
            shape, word, look = "╳", "Revoked", "off"
        elif token.expires_at and token.expires_at <= now:
            shape, word, look = "╳", "Expired", "off"
        else:
            shape, word, look = "○", "Valid", "ok"
        return format_html('<span class="said {}"><i>{}</i> {}</span>', look, shape, word)

    @admin.display(description="last used", ordering="last_used_at")
    def used(self, token: ApiToken) -> str:
        return ago(token.last_used_at, timezone.now()) if token.last_used_at else "never"


SHOWN_ONCE = "api_token_shown_once"

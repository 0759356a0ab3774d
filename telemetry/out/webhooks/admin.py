"""Admin pages of webhooks: who is told of what, how their receivers do, and what was sent. For admins."""

from collections.abc import Collection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin.buttons import Button
from fleet.admin.pages import PageAdmin
from fleet.admin.timeline import stamp, timeline
from fleet.audit.questions import SUBJECTS, kind_in_words
from fleet.history import KINDS, by_user
from fleet.models import Site, no_nul
from fleet.people.access import EVERY_SITE, sites_of
from fleet.refusals import Refused
from fleet.wording import Said, ago
from telemetry.out.models import SendState, Webhook
from telemetry.out.webhooks import actions as webhooks
from telemetry.out.webhooks.addresses import checked_url
from telemetry.out.webhooks.outcomes import FAILING_S
from telemetry.out.webhooks.wanted import ALL

SHOWN = 50  # of what was sent
SHOWN_ONCE = "webhook_secret_shown_once"
STATES: dict[str, Said] = {
    SendState.OPEN: Said("◌", "Waiting", "info"),
    SendState.DELIVERED: Said("●", "Taken", "ok"),
    SendState.DEAD: Said("◆", "Given up", "bad"),
    SendState.DROPPED: Said("╳", "Not sent", "off"),
}


FIRST = ("mission", "robot", "alert")  # what most are made for; the rest as the catalogue has it


class Choice(NamedTuple):
    value: str
    words: str
    chosen: bool


class Group(NamedTuple):
    """Kinds about the same thing: all of them, or single ones."""

    whole: Choice
    single: list[Choice]
    chosen: int


def groups(chosen: Collection[str]) -> list[Group]:
    """The catalogue as the form shows it."""
    found = [Group(Choice(ALL, "Everything", ALL in chosen), [], 0)]
    prefixes = dict.fromkeys([*FIRST, *(kind.partition(".")[0] for kind in KINDS)])
    for prefix in prefixes:
        kinds = sorted(kind for kind in KINDS if kind.startswith(f"{prefix}."))
        whole = f"{prefix}.*"
        single = [Choice(kind, kind_in_words(kind), kind in chosen) for kind in kinds]
        label = f"{SUBJECTS.get(prefix, prefix.capitalize())}: anything"
        found.append(Group(Choice(whole, label, whole in chosen), single, sum(c.chosen for c in single)))
    return found


def _choices() -> list[tuple[str, str]]:
    shown = groups(())
    return [(c.value, c.words) for group in shown for c in (group.whole, *group.single)]


class WebhookForm(forms.Form):
    name = forms.CharField(max_length=200, validators=[no_nul], help_text="Who is told, e.g. warehouse system.")
    url = forms.CharField(
        label="Address", max_length=500, widget=forms.URLInput(),
        help_text="https://… It is kept in the history: put no password in it, the signature tells that Drover sends.",
    )  # fmt: skip
    site = forms.ModelChoiceField(
        Site.objects.all(), required=False, empty_label="every site", help_text="Only what belongs to it is sent."
    )
    kinds = forms.MultipleChoiceField(
        label="Events", choices=_choices, error_messages={"required": "Choose at least one."}
    )

    def clean_url(self) -> str:
        try:
            return checked_url(self.cleaned_data["url"])
        except Refused as refused:
            raise forms.ValidationError(str(refused).removeprefix("url: ")) from None


def _enable(request: HttpRequest, webhook: Webhook) -> str:
    webhooks.enable_webhook(webhook.pk, by=by_user(request.user))
    return f"“{webhook}” is told of what happens from now on."


def _disable(request: HttpRequest, webhook: Webhook) -> str:
    webhooks.disable_webhook(webhook.pk, by=by_user(request.user))
    return f"“{webhook}” is told nothing any more."


def _renew(request: HttpRequest, webhook: Webhook) -> str:
    _show_once(request, webhook.pk, webhooks.renew_secret(webhook.pk, by=by_user(request.user)))
    return "There is a new secret. Whatever is sent from now on is signed with it."


def _test(request: HttpRequest, webhook: Webhook) -> str:
    webhooks.send_test(webhook.pk)
    return "A test event is on its way. Look at this page again in a few seconds to see what came back."


def _show_once(request: HttpRequest, pk: int, secret: str) -> None:
    request.session[SHOWN_ONCE] = {"webhook": pk, "secret": secret}


@admin.register(Webhook)
class WebhookAdmin(PageAdmin):
    nothing = "No webhooks yet. A webhook tells a system of yours what happens here, as it happens (docs/webhooks.md)."
    first = "Make the first"
    add = "Add a webhook"
    page_template = "admin/drover/webhook.html"
    form_template = "admin/drover/webhook_form.html"
    list_display = ("name", "stand", "place", "host", "what", "waiting", "last")
    list_select_related = ("site", "lane")
    list_filter = ("enabled", "site")
    search_fields = ("name", "url")
    buttons = (
        Button("test", "Send a test event", "telemetry.change_webhook", _test),
        Button("enable", "Switch on", "telemetry.change_webhook", _enable, shown=lambda w: not w.enabled, look="primary"),
        Button(
            "disable", "Switch off…", "telemetry.change_webhook", _disable, shown=lambda w: w.enabled,
            confirm="Nothing is sent any more, also not what waits. Switched on again, it is told of what happens from then on.",
            yes="Switch it off",
        ),
        Button(
            "renew", "New secret…", "telemetry.change_webhook", _renew, yes="Make a new secret",
            confirm="The old secret signs nothing any more: its receiver refuses what comes until it knows the new one.",
            once=True,
        ),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Webhook]:
        waiting = Count("sendings", filter=Q(sendings__state=SendState.OPEN))
        return super().get_queryset(request).annotate(waiting_n=waiting)

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        initial = {"name": row.name, "url": row.url, "site": row.site_id, "kinds": row.kinds} if row else {}
        form = WebhookForm(request.POST if request.method == "POST" else None, initial=initial)
        if sites_of(request.user) is not EVERY_SITE:
            form.fields["site"].required = True
            form.fields["site"].empty_label = None  # type: ignore[attr-defined]
        return {"form": form}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said, by = dict(forms["form"].cleaned_data), by_user(request.user)
        site = said.pop("site")
        if site is None and sites_of(request.user) is not EVERY_SITE:
            raise Refused("site: Choose one of your sites.")
        if row is None:
            made = webhooks.create_webhook(**said, site=site and site.pk, by=by)
            _show_once(request, made.pk, made.secret)
            return made.pk, f"{made} is made, and told of what happens from now on."
        webhooks.edit_webhook(row.pk, **said, site=site and site.pk, by=by)
        return row.pk, f"{said['name']} is saved."

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        form = forms["form"]
        return {
            "plain": [field for field in form if field.name != "kinds"], "groups": groups(form["kinds"].value() or ()),
            "heading": f"Edit {row}" if row else "Add a webhook", "verb": "Save" if row else "Add the webhook",
            "after": "" if row else "Its secret is shown once, on the next page.",
        }  # fmt: skip

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        held = request.session.get(SHOWN_ONCE)
        secret = ""
        if held and held["webhook"] == row.pk:
            del request.session[SHOWN_ONCE]  # a reload shows it no more
            secret = held["secret"]
        log = list(
            row.sendings.exclude(state=SendState.OPEN, tried_at=None, event_id__isnull=False).order_by("-id")[:SHOWN]
        )
        return {
            "s": _stand(row), "secret": secret, "waiting": row.waiting_n, "wants": _in_words(row.kinds), "failing": _failing(row),
            "sendings": [(one, STATES[one.state], stamp(one.tried_at)) for one in log], "shown": SHOWN,
            **timeline(f"webhook:{row.pk}", request.user),
        }  # fmt: skip

    @admin.display(description="state", ordering="enabled")
    def stand(self, webhook: Webhook) -> SafeString:
        said = _stand(webhook)
        return format_html('<span class="said {}"><i>{}</i> {}</span>', said.token, said.shape, said.word)

    @admin.display(description="site", ordering="site")
    def place(self, webhook: Webhook) -> str:
        return webhook.site.name if webhook.site else "every site"

    @admin.display(description="receiver")
    def host(self, webhook: Webhook) -> str:
        return urlsplit(webhook.url).hostname or ""

    @admin.display(description="events")
    def what(self, webhook: Webhook) -> str:
        return "everything" if ALL in webhook.kinds else str(Truncator(", ".join(webhook.kinds)).chars(120))

    @admin.display(description="waiting", ordering="waiting_n")
    def waiting(self, webhook: Any) -> SafeString:
        return format_html('<span class="num">{}</span>', webhook.waiting_n)

    @admin.display(description="last taken", ordering="lane__delivered_at")
    def last(self, webhook: Webhook) -> str:
        at = webhook.lane.delivered_at if hasattr(webhook, "lane") else None
        return ago(at, timezone.now()) if at else "never"


def _stand(webhook: Webhook) -> Said:
    if not webhook.enabled:
        return Said("╳", "Off", "off")
    since = webhook.lane.failing_since if hasattr(webhook, "lane") else None
    if since is None:
        return Said("○", "On", "ok")
    long = (timezone.now() - since).total_seconds() >= FAILING_S
    return Said("△", "Fails", "warn") if long else Said("◌", "Trying again", "info")


def _failing(webhook: Webhook) -> str:
    """Since when the receiver takes nothing, and when it is tried again."""
    lane = getattr(webhook, "lane", None)
    if not webhook.enabled or lane is None or not lane.failing_since:
        return ""
    again = f"; tried again at {lane.rests_until:%H:%M:%S}" if lane.rests_until else ""
    tries = f"{lane.failures} {'try' if lane.failures == 1 else 'tries'}"
    return f"Takes nothing since {lane.failing_since:%Y-%m-%d %H:%M:%S} UTC, {tries}{again}"


def _in_words(kinds: list[str]) -> list[tuple[str, str]]:
    """(words, pattern)"""
    words = dict(_choices())
    return [(words.get(kind, kind), kind) for kind in kinds]

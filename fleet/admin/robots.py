"""Robots: the list, the page of one with its buttons, the form, and the way to its first message."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin import enrolment, stops
from fleet.admin import robot_buttons as do
from fleet.admin.buttons import Button
from fleet.admin.csv_pages import SheetAdmin
from fleet.admin.robot_list import (
    HeldFilter,
    RobotChangeList,
    SaidFilter,
    ServiceFilter,
    battery_words,
    clock_words,
    heard_at,
)
from fleet.admin.timeline import timeline
from fleet.brands import setting_fields
from fleet.csv_files.imports import ROBOTS
from fleet.history import by_user
from fleet.models import MAX_ADDRESS, Brand, Command, Hold, Presence, Robot, Site
from fleet.ports import drivers, irregular, live, work
from fleet.robots import abilities, actions, faults, sending
from fleet.robots.wording import FAULTS, MODES, hold_said, presence_said, robot_said
from fleet.wording import ago, clock


class RobotForm(forms.Form):
    """What people may say of a robot; `id` only when it is enrolled."""

    id = forms.CharField(
        label="Id", max_length=64, validators=Robot._meta.get_field("id").validators,
        help_text="The public key that the robot signs on with, e.g. RB-001. It can never be changed.",
    )  # fmt: skip
    name = forms.CharField(max_length=200, help_text="Free text, for people.")
    site = forms.ModelChoiceField(
        Site.objects.all(), empty_label="Choose…", help_text="Where it works. Its missions and people are those of this site.",
    )  # fmt: skip
    brand = forms.ModelChoiceField(
        Brand.objects.all(), empty_label="Choose…", help_text="Says what it can do and when it counts as offline."
    )
    address = forms.CharField(
        max_length=MAX_ADDRESS, required=False, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )

    def __init__(self, *args: Any, robot: Robot | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.driver = drivers.named(robot.brand.driver) if robot is not None else None
        self.fields["address"].help_text = _address_words(self.driver)
        if robot is not None:
            del self.fields["id"]
            self.fields |= setting_fields.fields(self.driver, robot.profile, over=robot.brand.profile)  # type: ignore[arg-type]

    def own(self) -> list[Any]:
        """Its own settings of its driver."""
        return [self[name] for name in self.fields if name.startswith("setting-")]

    def usual(self) -> list[Any]:
        return [field for field in self if not field.name.startswith("setting-")]

    def told(self, row: Robot | None) -> dict[str, Any]:
        """What the actions are told. Its own settings only while it stays with its driver's brand."""
        said = {name: self.cleaned_data[name] for name in self.fields if not name.startswith("setting-")}
        return said | ({"profile": self.profile} if row is not None and said["brand"].pk == row.brand_id else {})

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        if self.driver is not None:
            brand = said.get("brand")
            self.profile = setting_fields.profile_of(self, self.driver, over=brand.profile if brand else {})
        return said


def _address_words(driver: drivers.Driver | None) -> str:
    """What an address of this driver's robots means, or driver by driver."""
    asked = [driver] if driver is not None and driver.address else drivers.known().values()
    each = [f"{d.label}: {d.address.rstrip('.')}." for d in asked if d.address]
    return " ".join(["Only for robots that are known by an address, not by a token.", *each])


def _issue(request: HttpRequest, robot: Robot) -> HttpResponse:
    return enrolment.issue(admin.site.get_model_admin(Robot), request, robot)


@admin.register(Robot)
class RobotAdmin(SheetAdmin):
    sheet = ROBOTS
    page_template = "admin/drover/robot.html"
    form_template = "admin/drover/robot_form.html"
    add = "Enrol a robot"
    change_list_template = "admin/drover/robot_list.html"
    list_display = ("id", "name", "condition", "battery", "mission", "held", "heard", "works_at")
    list_display_links = ("id", "name")
    list_filter = (HeldFilter, ServiceFilter, ("mode", SaidFilter), ("presence", SaidFilter), "site", "brand")
    list_select_related = ("site", "brand")
    search_fields = ("id", "name", "site__name", "brand__name")
    search_help_text = "Id, name, site or brand"
    ordering = ("id",)
    buttons = (
        Button("stop", "Stop", "fleet.stop_robot", do.stop, look="danger"),
        Button("maintain", "Maintenance…", "fleet.maintain_robot", do.maintain, per_item=True,
               shown=lambda r: not r.retired_at),
        Button(
            "retire", "Retire…", "fleet.retire_robot", do.retire, shown=lambda r: not r.retired_at,
            confirm="It leaves the fleet, gets no work, and its tokens stop working. Its history stays.",
        ),
        Button("reinstate", "Back in service", "fleet.retire_robot", do.reinstate, shown=lambda r: bool(r.retired_at)),
        Button("release", "Release…", "fleet.release_robot", do.release, per_item=True),
        Button("issue", "Issue a credential…", "fleet.issue_credential", _issue, per_item=True),
        Button("revoke", "Revoke…", "fleet.issue_credential", do.revoke, per_item=True),
    )  # fmt: skip

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return stops.offered(request.user)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Robot]:
        holds = Hold.objects.filter(released_at=None).order_by("number")
        return super().get_queryset(request).prefetch_related(Prefetch("holds", holds, to_attr="open_holds"))

    def get_urls(self) -> Any:
        view = self.admin_site.admin_view(self.connect_view)
        return [path("<path:object_id>/connect/", view, name="fleet_robot_connect"), *super().get_urls()]

    def connect_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return enrolment.connect_page(self, request, self.found(request, object_id))

    # list

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RobotChangeList]:
        return RobotChangeList

    @admin.display(description="condition")
    def condition(self, robot: Any) -> SafeString:
        words = format_html_join(" ", '<span class="said {}"><i>{}</i> {}</span>', _columns(robot))
        return format_html(
            "{}{}",
            words,
            format_html(' <span class="quiet">{}</span>', Truncator(robot.fault).chars(80)) if robot.fault else "",
        )

    @admin.display(description="battery")
    def battery(self, robot: Any) -> SafeString:
        return format_html('<span class="num nowrap">{}</span>', battery_words(robot.live))

    @admin.display(description="mission")
    def mission(self, robot: Any) -> SafeString | str:
        if robot.work is None:
            return ""
        return format_html(
            '<a href="{}" dir="auto">{}</a> <span class="quiet nowrap">{}</span>',
            robot.work.url, Truncator(robot.work.title).chars(80), robot.work.says,
        )  # fmt: skip

    @admin.display(description="hold")
    def held(self, robot: Any) -> SafeString | str:
        words = "; ".join(
            f"by {h.by}"
            + (f": {Truncator(h.why).chars(80)}" if h.why else "")
            + (f", until {clock(h.until)}" if h.until else "")
            for h in robot.open_holds
        )
        return format_html('<span dir="auto">{}</span>', words) if words else ""

    @admin.display(description="site, brand", ordering="site__name")
    def works_at(self, robot: Robot) -> SafeString:
        return format_html(
            '<span dir="auto">{}</span><br><span class="quiet" dir="auto">{}</span>', robot.site, robot.brand
        )

    @admin.display(description="last heard")
    def heard(self, robot: Any) -> SafeString | str:
        at = heard_at(robot, robot.live)
        if at is None:
            return ""
        return format_html('<time class="nowrap" datetime="{}">{}</time>', at.isoformat(), ago(at, robot.looked_at))

    # form and page

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        known = {"name": row.name, "site": row.site_id, "brand": row.brand_id, "address": row.address} if row else {}
        initial = known or request.GET.dict()
        return {"form": RobotForm(request.POST if request.method == "POST" else None, robot=row, initial=initial)}

    def page_after(self, request: HttpRequest, added: bool) -> str:
        return "connect" if added and request.user.has_perm("fleet.issue_credential") else "change"

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said, by = forms["form"].told(row), by_user(request.user)
        if row is None:
            actions.enrol_robot(**said, by=by)
            return said["id"], f"{said['id']} is enrolled. Next: connect it."
        actions.edit_robot(row.pk, **said, by=by)
        return row.pk, f"{row.pk} is changed."

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now = timezone.now()
        facts = live.facts([row.pk]).get(row.pk)
        offered = {b.verb for b in self.offer(request, row)}
        serviced = next((h for h in row.open_holds if h.kind == "maintenance"), None)
        return {
            "said": robot_said(row, row.open_holds),
            **_faults(row, now),
            "shows_token": not drivers.named(row.brand.driver).address,
            "can": abilities.words(abilities.of(row)),
            "mode_word": MODES[row.mode].word,
            "link_word": presence_said(row).word,
            "holds": [(hold, hold_said(hold), ago(hold.since, now)) for hold in row.open_holds],
            "credentials": row.credentials.all() if request.user.has_perm("fleet.view_robotcredential") else (),
            "may": {verb: verb in offered for verb in ("release", "issue", "revoke", "maintain")},
            "ends": do.ends(now),
            "serviced": serviced,
            "work": work.current([row.pk]).get(row.pk),
            "facts": facts,
            "clock": clock_words(facts),
            "facts_ago": ago(facts.received_at, now) if facts else "",
            "mode_since": ago(row.mode_since, now).removesuffix(" ago") if row.mode_since else "",
            "presence_since": ago(row.presence_since, now).removesuffix(" ago") if row.presence_since else "",
            "irregular": irregular.of_robot(row.pk),
            "sent": sending.newest(Command.objects.filter(robot=row.pk)),
            "offline": row.presence == Presence.OFFLINE,
            **timeline(f"robot:{row.pk}", request.user),
        }


def _faults(robot: Any, now: datetime) -> dict[str, Any]:
    """What is wrong with it, one by one, the worst first."""
    worst = faults.blocking(robot.faults)
    rest = [f for f in robot.faults if f not in worst]
    found = [(FAULTS[f["kind"]], f, ago(datetime.fromisoformat(f["since"]), now)) for f in (*worst, *rest)]
    heading = "It goes on, and warns" if not worst else f"{len(worst)} faults" if len(worst) > 1 else "A fault"
    return {"faults": found, "faults_heading": f"{heading}{': it gets no new work' if worst else ''}"}


def _columns(robot: Any) -> list[tuple[str, str, str]]:
    return [(s.token, s.shape, s.word) for s in robot_said(robot, robot.open_holds)]

"""What the statistics page asks: which counts, between when, of which site and brand; and answers as rows and bars."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.db.models import QuerySet, Sum
from django.db.models.functions import ExtractHour
from django.urls import reverse

from fleet.models import Brand, Site
from fleet.people.access import at_sites
from missions.command_types import TYPES
from missions.models import AbortReason
from telemetry.out.models import Tally
from telemetry.out.statistics.counting import ENDED, RETRY, RULES, STEP, TIMEOUT, UNCONFIRMED

PERIODS = (
    ("1", "today"),
    ("7", "the last 7 days"),
    ("30", "the last 30 days"),
    ("90", "the last 90 days"),
    ("", "from – to"),
)
TIMEOUTS = {  # detail → words
    "accept": "No answer to the assignment", "step": "A step took too long", "finish": "No word that it has finished",
    "mission": "The mission took too long", "undelivered": "Assignment not delivered", "robot_lost": "Robot offline too long",
    "expired": "Not started in time",
}  # fmt: skip
RETRIES = {"step": "A step was tried again", "stop": "Told to stop again", "hand_over": "Handed over to another robot"}
STEPS = {"completed": "Completed", "failed": "Failed", "skipped": "Skipped"}
WIDE = 240  # px of the longest bar


class Question(forms.Form):
    """The filters, as the page's address carries them. Days are UTC days."""

    days = forms.ChoiceField(label="When", required=False, choices=PERIODS)
    start = forms.DateField(label="From", required=False, widget=forms.DateInput(attrs={"type": "date"}))
    end = forms.DateField(label="To", required=False, widget=forms.DateInput(attrs={"type": "date"}))
    site = forms.ModelChoiceField(Site.objects.all(), required=False, empty_label="every site")
    brand = forms.ModelChoiceField(Brand.objects.all(), required=False, empty_label="every brand")

    def __init__(self, data: Any, user: Any, now: datetime) -> None:
        super().__init__(data if any(data.get(name) for name in self.base_fields) else {"days": "7"})
        self.user, self.now = user, now
        self.fields["site"].queryset = at_sites(user, Site.objects.all())  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        if said.get("start") and said.get("end") and said["start"] > said["end"]:
            self.add_error("end", "Before the beginning.")
        return said

    def bounds(self) -> tuple[datetime | None, datetime | None]:
        """First moment, and first moment after. `from – to` counts more than a number of days."""
        said = self.cleaned_data
        if said.get("start") or said.get("end"):
            end = said.get("end")
            bounded = end and end < date.max  # nothing comes after the last day that there is
            return _midnight(said.get("start")), _midnight(end) + timedelta(days=1) if bounded else None
        today = datetime.combine(self.now.astimezone(UTC).date(), time(), UTC)
        return (today - timedelta(days=int(said["days"]) - 1), None) if said.get("days") else (None, None)

    def rows(self) -> QuerySet[Tally]:
        """Counts of what the person may see. Nothing when the question makes no sense."""
        found = at_sites(self.user, Tally.objects.order_by())
        if not self.is_valid():
            return found.none()
        since, until = self.bounds()
        said = self.cleaned_data
        conditions = {
            "hour__gte": since,
            "hour__lt": until,
            "site": said.get("site"),
            "brand_id": said["brand"] and said["brand"].pk,
        }
        return found.filter(**{name: value for name, value in conditions.items() if value is not None})


def _midnight(day: Any) -> Any:
    return day and datetime.combine(day, time(), UTC)


class Bar(NamedTuple):
    """One line of a table, with its bar. `width` in px; `url` leads to what was counted."""

    label: str
    n: int
    width: float
    share: float
    url: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """`of` says what a line is, `empty` what will be there."""

    title: str
    of: str
    bars: list[Bar]
    empty: str
    total: int = 0


def tables(question: Question) -> list[Table]:
    """All tables of the page: six queries."""
    rows = question.rows()
    brands = dict(Brand.objects.values_list("pk", "name")) | {0: "no robot"}
    return [
        _table("How missions ended", "end", _by(rows.filter(what=ENDED), "detail"), _end,
               "Each mission that ends will be counted here by how it ended.", lambda d: _missions(question, d)),
        _table("Timeouts", "timeout", _by(rows.filter(what=TIMEOUT), "detail"), lambda d: TIMEOUTS.get(d, d),
               "No deadline passed. Each that does will be counted here by its kind.", lambda d: _audit(question, TIMEOUT, d)),
        _table("Retries", "retry", _by(rows.filter(what=RETRY), "detail"), lambda d: RETRIES.get(d, d),
               "Nothing was tried again.", lambda d: _audit(question, RETRY, d)),
        _table("Aborted, by brand", "brand", _by(rows.filter(what=ENDED).exclude(detail="success"), "brand_id"),
               lambda b: brands.get(b, f"brand {b}"), "No mission was aborted.", lambda b: ""),
        _steps(rows),
        _hours(rows),
    ]  # fmt: skip


_KINDS = {(rule.what, rule.detail({})): kind for kind, rule in RULES.items()}  # of events, by what they count as


def _by(rows: QuerySet[Tally], column: str) -> list[tuple[Any, int]]:
    found = rows.values_list(column).annotate(total=Sum("n")).order_by("-total", column)
    return [(value, int(n)) for value, n in found]


def _table(title: str, of: str, counted: list[tuple[Any, int]], words: Any, empty: str, url: Any) -> Table:
    return Table(
        title, of, bars([(words(value), n, url(value)) for value, n in counted]), empty, sum(n for _, n in counted)
    )


def bars(lines: Iterable[tuple[str, int, str]]) -> list[Bar]:
    lines = list(lines)
    most, total = max((n for _, n, _ in lines), default=0), sum(n for _, n, _ in lines)
    return [Bar(label, n, round(WIDE * n / most, 1), 100 * n / total, url) for label, n, url in lines if most]


def _end(detail: str) -> str:
    if detail == "success":
        return "Success"
    reason, unconfirmed, _ = detail.partition(UNCONFIRMED)
    labels = dict(AbortReason.choices)
    return f"Aborted{', stop not confirmed' if unconfirmed else ''}: {str(labels.get(reason, reason)).lower()}"


def _steps(rows: QuerySet[Tally]) -> Table:
    """What went wrong with steps, by command type."""
    found = rows.filter(what__in=[STEP, TIMEOUT, RETRY]).exclude(command="").exclude(what=STEP, detail="completed")
    counted = found.values_list("command", "what", "detail").annotate(total=Sum("n")).order_by("-total")
    words = {TIMEOUT: "took too long", RETRY: "tried again"}
    lines = [
        (f"{TYPES[c].label if c in TYPES else c}: {words.get(what, STEPS.get(detail, detail).lower())}", int(n), "")
        for c, what, detail, n in counted
    ]
    return Table(
        "Steps that did not go well",
        "command and what",
        bars(lines),
        "Every step went well.",
        sum(n for _, n, _ in lines),
    )


def _hours(rows: QuerySet[Tally]) -> Table:
    """By hour of the day (UTC), all 24: what went wrong."""
    wrong = rows.filter(what__in=[ENDED, TIMEOUT]).exclude(what=ENDED, detail="success")
    counted = dict(wrong.annotate(of_day=ExtractHour("hour")).values_list("of_day").annotate(total=Sum("n")))
    lines = [(f"{hour:02}:00", int(counted.get(hour, 0)), "") for hour in range(24)] if counted else []
    return Table(
        "Aborted missions and timeouts, by hour of the day (UTC)",
        "hour",
        bars(lines),
        "Nothing went wrong.",
        sum(counted.values()),
    )


def _missions(question: Question, detail: str) -> str:
    """The list of missions that ended like this."""
    reason, _, _ = detail.partition(UNCONFIRMED)
    wanted = (
        {"state__exact": "success"}
        if detail == "success"
        else {"state__exact": "aborted", "abort_reason__exact": reason}
    )
    since, until = question.bounds()
    if since:
        wanted["ended_at__gte"] = f"{since:%Y-%m-%d %H:%M:%S+00:00}"
    if until:
        wanted["ended_at__lt"] = f"{until:%Y-%m-%d %H:%M:%S+00:00}"
    if site := question.cleaned_data.get("site"):
        wanted["site__id__exact"] = str(site.pk)
    return f"{reverse('admin:missions_mission_changelist')}?{urlencode(wanted)}"


def _audit(question: Question, what: str, detail: str) -> str:
    """The audit's list of these events."""
    if (what, detail) not in _KINDS:
        return ""
    wanted = {"what": _KINDS[what, detail]}
    since, until = question.bounds()
    if since:
        wanted["start"] = f"{since:%Y-%m-%dT%H:%M:%S}"
    if until:
        wanted["end"] = f"{until - timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}"
    if site := question.cleaned_data.get("site"):
        wanted["site"] = str(site.pk)
    return f"{reverse('admin:fleet_event_changelist')}?{urlencode(wanted)}"

"""The audit's questions to the history: who, what, where, when and why, as conditions that stay fast on millions of events.

Newest first and by key, never by number of page: no count, no OFFSET. Times are UTC.
"""

import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cache
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.db.models import CharField, F, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.http import QueryDict
from django.utils import timezone

from fleet.audit import words
from fleet.columns import END_OF_TIME
from fleet.history import AGGREGATES, KINDS
from fleet.models import Event, Site
from fleet.people.access import at_sites

CHUNK = 1000  # events of one query of an export
MAX_NAMED = 500  # missions found by a part of their title
ANY = "any"
ENDINGS = ("mission.aborted", "mission.stop_requested")
ACTORS = {
    "user": "A person", "api": "An API client", "robot": "A robot", "deadline": "A deadline", "policy": "A policy",
    "system": "Drover",
}  # fmt: skip
SUBJECTS = {
    "mission": "Missions", "robot": "Robots", "person": "People", "site": "Sites", "brand": "Brands", "alert": "Alerts",
    "silence": "Silences of alerts", "template": "Templates", "letter": "Dead letters", "webhook": "Webhooks",
}  # fmt: skip
PERIODS = (
    ("", "any time"), ("today", "today"), ("yesterday", "yesterday"), ("7days", "the last 7 days"),
    ("between", "from – to"),
)  # fmt: skip

WHEN, WHAT = ("period", "start", "end"), ("by", "what", "reason")
PRESETS: tuple[tuple[str, dict[str, str]], ...] = (  # what is asked for daily
    *((label, {"period": value}) for value, label in PERIODS if value not in ("", "between")),
    ("aborted yesterday", {"period": "yesterday", "reason": ANY}),
    ("by people today", {"by": "user", "period": "today"}),
    ("people and access", {"what": "person."}),
    ("stops and holds", {"what": "robot.hold_opened"}),
)


def presets(asked: QueryDict) -> list[tuple[str, str]]:
    """Each with its address: it answers anew when or what, and keeps whatever else was asked, such as the robot."""
    found = []
    for label, answers in PRESETS:
        address = asked.copy()
        anew = [name for names in (WHEN, WHAT) if any(name in answers for name in names) for name in names]
        for name in ("older", *anew):
            address.pop(name, None)
        for name in [name for name, values in address.lists() if not any(values)]:
            del address[name]
        address.update(answers)
        found.append((label, address.urlencode()))
    return found


def kind_in_words(name: str) -> str:
    """The kind's sentence without what it is filled with: `Aborted: {abort_reason} ({abort_detail})` is "Aborted"."""
    text = re.sub(r"\s*[(:“]*\s*\{[^}]*\}[)”]*", " …", KINDS[name].text)
    text = re.sub(r"\s*\([^)]*$", "", text)  # a bracket that opened for what is gone
    return re.sub(r"(\s*…)+\s*$", "", text).strip(" :;,") or name


@cache
def kind_choices() -> list[Any]:
    """All kinds of the catalogue, by what they are about; `mission.` means anything of missions."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in KINDS:
        prefix = name.partition(".")[0]
        groups.setdefault(prefix, []).append((name, f"{kind_in_words(name)} · {name.partition('.')[2]}"))
    return [("", "anything")] + [
        (label := SUBJECTS.get(prefix, prefix.capitalize()), [(f"{prefix}.", f"{label}: anything"), *sorted(kinds, key=lambda k: k[1])])
        for prefix, kinds in groups.items()
    ]  # fmt: skip


def reasons() -> list[tuple[str, str]]:
    """Reasons that something ended, as their model words them."""
    mission = AGGREGATES.get("mission")
    return list(mission.model._meta.get_field("abort_reason").flatchoices) if mission else []


class Moment(forms.DateTimeField):
    widget = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")


class Question(forms.Form):
    """The filters of the audit page, as its address carries them."""

    q = forms.CharField(
        label="Find", required=False, max_length=200, widget=forms.TextInput({"placeholder": "id, person, trace"})
    )
    who = forms.CharField(required=False, max_length=200)
    by = forms.ChoiceField(label="Kind of actor", required=False, choices=[("", "anybody"), *ACTORS.items()])
    what = forms.ChoiceField(required=False, choices=kind_choices)
    robot = forms.CharField(required=False, max_length=200)
    mission = forms.CharField(required=False, max_length=200)
    site = forms.ModelChoiceField(Site.objects.all(), required=False, empty_label="every site")
    reason = forms.ChoiceField(
        label="Reason of an end",
        required=False,
        choices=lambda: [("", "–"), (ANY, "Aborted, whatever the reason"), *reasons()],
    )
    text = forms.CharField(label="Words in it", required=False, max_length=200)
    trace = forms.CharField(label="Trace or cause", required=False, max_length=200)
    period = forms.ChoiceField(label="When", required=False, choices=PERIODS)
    start = Moment(label="From (UTC)", required=False)
    end = Moment(label="To (UTC)", required=False)

    def __init__(self, data: Any, user: Any, now: datetime | None = None) -> None:
        super().__init__(data)
        self.user, self.now = user, now or timezone.now()
        self.fields["site"].queryset = at_sites(user, Site.objects.all())  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        if said.get("start") and said.get("end") and said["start"] > said["end"]:
            self.add_error("end", "Before the beginning.")
        if said.get("start") or said.get("end"):
            said["period"] = "between"
        return said

    def events(self) -> QuerySet[Event]:
        """What the person may see of what was asked for, the newest first. Nothing when the question makes no sense."""
        found = at_sites(self.user, Event.objects.all()).order_by("-recorded_at", "-id")
        if not self.is_valid():
            return found.none()
        for name, value in self.cleaned_data.items():
            if value and name in CONDITIONS:
                found = found.filter(CONDITIONS[name](self, value))
        since, until = bounds(self.cleaned_data, self.now)
        if since:
            found = found.filter(recorded_at__gte=since)
        return found.filter(recorded_at__lt=until) if until else found


def bounds(said: dict[str, Any], now: datetime) -> tuple[datetime | None, datetime | None]:
    """First moment, and first moment after. Days are UTC days."""
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    match said.get("period"):
        case "today":
            return today, None
        case "yesterday":
            return today - timedelta(days=1), today
        case "7days":
            return today - timedelta(days=6), None
        case "between":
            end = said.get("end")
            return said.get("start"), min(end, END_OF_TIME) + timedelta(seconds=1) if end else None
    return None, None


def _find(question: Question, value: str) -> Q:
    """What comes by an index first: one aggregate, one robot, one trace; else whose name has it."""
    names = [value, *(f"{prefix}:{value}" for prefix in AGGREGATES)]
    if Event.objects.filter(aggregate__in=names).exists():
        return Q(aggregate__in=names)
    if re.fullmatch(r"[0-9a-fA-F-]{32,36}", value):
        return _trace(question, value)
    return _who(question, value)


def _who(question: Question, value: str) -> Q:
    """People and robots by the names of today, which an index finds; by the name of then when there is none."""
    full = Concat(F("first_name"), Value(" "), F("last_name"))
    named = Q(full__icontains=value) | Q(username__icontains=value)
    people = User.objects.annotate(full=full).filter(named | Q(pk=int(value)) if _is_number(value) else named)
    ids = [str(pk) for pk in people.values_list("pk", flat=True)[:MAX_NAMED]]
    robots = AGGREGATES["robot"].model._default_manager.filter(Q(pk=value) | Q(name__icontains=value))
    machines = list(at_sites(question.user, robots).values_list("pk", flat=True)[:MAX_NAMED])
    found = Q(actor_kind="api", actor_name__icontains=value)
    if ids:
        found |= Q(actor_kind="user", actor_id__in=ids)
    if machines:
        found |= Q(actor_kind="robot", actor_id__in=machines)
    return found if ids or machines else Q(actor_name__icontains=value) | Q(actor_id=value)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _what(question: Question, value: str) -> Q:
    return Q(kind__in=[name for name in KINDS if name.startswith(value)]) if value.endswith(".") else Q(kind=value)


def _robot(question: Question, value: str) -> Q:
    """Its own events, and those of whatever belongs to it: missions, alerts."""
    robots = at_sites(question.user, AGGREGATES["robot"].model._default_manager.all())
    ids = list(robots.filter(Q(pk=value) | Q(name__icontains=value)).values_list("pk", flat=True)[:MAX_NAMED])
    found = Q(aggregate__in=[f"robot:{pk}" for pk in ids]) | Q(actor_kind="robot", actor_id__in=ids)
    for aggregate in AGGREGATES.values():
        if any(f.attname == "robot_id" for f in aggregate.model._meta.concrete_fields):
            found |= Q(aggregate__in=_names(aggregate, aggregate.model._default_manager.filter(robot_id__in=ids)))
    return found


def _mission(question: Question, value: str) -> Q:
    try:
        return Q(aggregate=f"mission:{uuid.UUID(value)}")
    except ValueError:
        missions = at_sites(question.user, AGGREGATES["mission"].model._default_manager.filter(title__icontains=value))
        return Q(aggregate__in=[f"mission:{pk}" for pk in missions.values_list("pk", flat=True)[:MAX_NAMED]])


def _reason(question: Question, value: str) -> Q:
    """How it ended, and who asked for that."""
    if value == ANY:
        return Q(kind__in=ENDINGS)
    aggregate = AGGREGATES["mission"]
    ended = aggregate.model._default_manager.filter(abort_reason=value)
    return Q(kind__in=ENDINGS, aggregate__in=_names(aggregate, ended))


def _trace(question: Question, value: str) -> Q:
    return Q(trace_id=value) | Q(cause__in=[value, f"message:{value}", f"request:{value}"])


def _names(aggregate: Any, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Names of their histories, as a subquery."""
    name = Concat(Value(f"{aggregate.prefix}:"), Cast(F("pk"), CharField()), output_field=CharField())
    return rows.order_by().annotate(history_name=name).values("history_name")


CONDITIONS = {
    "q": _find,
    "who": _who,
    "by": lambda question, value: Q(actor_kind=value),
    "what": _what,
    "robot": _robot,
    "mission": _mission,
    "site": lambda question, value: Q(site_id=value.pk),
    "reason": _reason,
    "text": lambda question, value: words.having(value),
    "trace": _trace,
}


# --- pages by key


def key_of(event: Event) -> str:
    """Where a page ends: `<µs since 1970>-<id>`."""
    return f"{round((event.recorded_at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))}-{event.pk}"


def older_than(events: QuerySet[Event], key: str) -> QuerySet[Event]:
    """Those after the key, that is, recorded before it. A key that is none is ignored."""
    if not re.fullmatch(r"\d{1,17}-\d{1,18}", key):
        return events
    at, pk = key.split("-")
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(at))
    return events.filter(recorded_at__lte=moment).exclude(recorded_at=moment, id__gte=int(pk))


def in_chunks(events: QuerySet[Event], size: int = CHUNK) -> Iterator[list[Event]]:
    """All of them, in short queries: no long transaction, flat memory, and the first rows come at once."""
    rest = events
    while chunk := list(rest[:size]):
        yield chunk
        if len(chunk) < size:
            return
        rest = older_than(events, key_of(chunk[-1]))


# --- names


@dataclass(frozen=True, slots=True)
class About:
    """What an event is about: its kind of thing, key, and the name that it has today."""

    prefix: str
    key: str
    name: str


def abouts(events: Iterable[Event]) -> dict[str, About]:
    """By aggregate, with one query per kind of thing."""
    keys: dict[str, set[str]] = {}
    for event in events:
        prefix, _, key = event.aggregate.partition(":")
        keys.setdefault(prefix, set()).add(key)
    found = {}
    for prefix, wanted in keys.items():
        names = _names_today(prefix, wanted) if prefix in AGGREGATES else {}
        found |= {f"{prefix}:{key}": About(prefix, key, names.get(key, "")) for key in wanted}
    return found


def _names_today(prefix: str, keys: set[str]) -> dict[str, str]:
    model = AGGREGATES[prefix].model
    related = ("user",) if prefix == "person" else ("site",) if prefix == "silence" else ()
    rows = model._default_manager.select_related(*related) if related else model._default_manager.all()
    return {str(pk): str(row) for pk, row in rows.in_bulk(list(keys)).items()}

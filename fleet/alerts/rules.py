"""Which events open an alert and which clear it: one table, read by commit, docs and tests. Pure, without I/O.

A cause is `<rule>:<aggregate>`. Missions add their lines in missions/alert_rules.py; causes that are no event call
`fleet.alerts.actions.raise_alert`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fleet.history import Change, labels
from fleet.models import HoldKind, Severity
from fleet.robots import faults

MAX_TEXT = 300  # characters; robots may say 64 kB, the event has it all
Test = Callable[[Change, dict[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table.

    `text` is a format string over the event's data and columns of its row; where it depends on the row, what makes it.
    `when` and `gone` narrow which events of a kind open and clear it; events of `said_anew_by` change what it says while
    it is open. A rule without `cleared_by` does not last: a
    person's acknowledgement ends its alert.
    """

    name: str
    severity: Severity | Callable[[Change], Severity]
    text: str | Callable[[Change], str]
    raised_by: str
    cleared_by: tuple[str, ...] = ()
    when: Test = lambda change, data: True
    gone: Test = lambda change, data: True
    said_anew_by: tuple[str, ...] = ()
    urgent: Callable[[Change], bool] = lambda change: False

    def cause(self, change: Change) -> str:
        return f"{self.name}:{change.name}"


RULES: dict[str, Rule] = {}
_RAISES: dict[str, list[Rule]] = {}
_CLEARS: dict[str, list[Rule]] = {}
_SAYS_ANEW: dict[str, list[Rule]] = {}


def rule(name: str, *args: Any, **kwargs: Any) -> None:
    """Add a line to the table."""
    if name in RULES:
        raise ValueError(f"there is an alert rule {name} already")
    new = RULES[name] = Rule(name, *args, **kwargs)
    _RAISES.setdefault(new.raised_by, []).append(new)
    for kind in new.cleared_by:
        _CLEARS.setdefault(kind, []).append(new)
    for kind in new.said_anew_by:
        _SAYS_ANEW.setdefault(kind, []).append(new)


class Raise(NamedTuple):
    """An alert to be opened, or counted when it is open."""

    cause: str
    severity: str
    subject: str
    robot_id: str
    site_id: int | None
    text: str
    lasts: bool
    urgent: bool = False
    times: int = 1
    change: Change | None = None  # what it follows from


@dataclass(slots=True)
class Effects:
    """What the events of one commit mean for alerts: first these are cleared, then those are raised."""

    clears: dict[str, Change | None] = field(default_factory=dict)
    raises: dict[str, Raise] = field(default_factory=dict)
    says_anew: dict[str, tuple[str, Change]] = field(default_factory=dict)


def effects(changes: Iterable[Change]) -> Effects:
    """By the table. Events of kinds that are not in it cost three look-ups."""
    found = Effects()
    for change in changes:
        for event in change.events:
            for cleared in _CLEARS.get(event.kind, ()):
                if cleared.gone(change, event.data):
                    cause = cleared.cause(change)
                    found.raises.pop(cause, None)  # it came and went in one transaction
                    found.clears[cause] = change
                    found.says_anew.pop(cause, None)
            for told in _SAYS_ANEW.get(event.kind, ()):
                if (cause := told.cause(change)) not in found.clears:
                    found.says_anew[cause] = (_text(told, change, event), change)
            for raised in _RAISES.get(event.kind, ()):
                if raised.when(change, event.data):
                    _raise(found, raised, change, event)
    return found


def _raise(found: Effects, rule: Rule, change: Change, event: Any) -> None:
    cause, before = rule.cause(change), found.raises.get(rule.cause(change))
    if before is not None:
        found.raises[cause] = before._replace(times=before.times + 1)
        return
    row = change.row
    severity = rule.severity if isinstance(rule.severity, Severity) else rule.severity(change)
    found.raises[cause] = Raise(
        cause, severity.value, change.name, str(row.pk if change.aggregate.prefix == "robot" else row.robot_id or ""),
        change.aggregate.site(row), _text(rule, change, event), bool(rule.cleared_by), rule.urgent(change), 1, change,
    )  # fmt: skip


def _text(rule: Rule, change: Change, event: Any) -> str:
    return words(rule.text if isinstance(rule.text, str) else rule.text(change), change, event)


class _Columns(dict[str, Any]):
    """Names in a text: data of the event first, then columns of the row, as the model words them."""

    row: Any = None

    def __missing__(self, key: str) -> Any:
        display = getattr(self.row, f"get_{key}_display", None)
        return str(display()).lower() if display else getattr(self.row, key, "")


def words(text: str, change: Change, event: Any) -> str:
    """The rule's text filled in, bounded."""
    known = _Columns(event.data | labels(event.kind, event.data))
    known.row = change.row
    return bounded(text.format_map(known).removesuffix(" ()").strip().removesuffix(":"))


def bounded(text: str) -> str:
    text = " ".join(text.replace("\x00", "\N{REPLACEMENT CHARACTER}").split())
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _unconfirmed(change: Change, data: dict[str, Any]) -> bool:
    return any(hold.get("kind") == HoldKind.UNCONFIRMED for hold in data.get("holds", ()))


def _none_unconfirmed(change: Change, data: dict[str, Any]) -> bool:
    holds = change.children["holds"].values()
    return not any(h.kind == HoldKind.UNCONFIRMED and h.released_at is None for h in holds)


rule(
    "stop_unconfirmed", Severity.CRITICAL, "{id} never confirmed that it stopped: it may still be moving",
    "robot.hold_opened", ("robot.hold_released",), when=_unconfirmed, gone=_none_unconfirmed,
)  # fmt: skip
rule(
    "stop_late", Severity.CRITICAL, "{id} was told to stop and has not said that it stands: it may still be moving",
    "robot.stop_unconfirmed", ("robot.stop_confirmed", "robot.stop_repeated", "robot.hold_released"),
    gone=lambda change, data: bool(data.get("holds")),
)  # fmt: skip


def _no_danger(change: Change, data: dict[str, Any]) -> bool:
    return not any(f["danger"] for f in data.get("faults", ()))


def _fault_words(change: Change) -> str:
    """A format string: what the robot says stays out of it."""
    if faults.is_safety(change.row.faults):
        return "{id} is held by its own safety system: {fault}"
    return "{id} has {fault}" if len(faults.blocking(change.row.faults)) > 1 else "{id} has a fault: {fault}"


rule(
    "danger", Severity.CRITICAL, "{id} reports danger: {fault}", "robot.faulted", ("robot.fault_cleared",),
    when=lambda change, data: bool(data.get("danger")), gone=_no_danger,
)  # fmt: skip
rule(
    "fault", Severity.WARNING, _fault_words, "robot.faulted", ("robot.fault_cleared",),
    when=lambda change, data: not data.get("danger"), gone=lambda change, data: not data["fault"],
    said_anew_by=("robot.faulted", "robot.fault_cleared"),
)  # fmt: skip

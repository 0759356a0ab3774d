"""A mission in memory: facts told to `decide` without a database, and what must hold after each of them.

`Machine` checks after every fact that the history folds to the same rows (I9), that something is always due (I5), and
that nothing went backwards (I1). Times are seconds after `START`.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from fleet.history import AGGREGATES, KINDS, Change, Origin, decode, differences, encode
from fleet.models import Command
from missions import deadlines as table
from missions import facts, invariants, timings
from missions.decide import PASSED, decide
from missions.models import FINAL, Mission, Then

START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
ID = UUID("0c9f6a1e-30a4-4b8e-8f4e-5e2a35c5f001")
BRAND = dict(timings.DEFAULTS)


def step(command: str = "navigate", **over: Any) -> dict[str, Any]:
    """A step as it is drawn up; `navigate` may be inferred and repeated, `pick` neither."""
    plain = command not in ("pick", "drop")
    return {
        "command": command, "params": {}, "timeout_s": 60, "repeatable": plain, "confirm": not plain,
        "timeout_retries": 0, "failure_retries": 0, "timeout_then": Then.ABORT, "failure_then": Then.ABORT, **over,
    }  # fmt: skip


class Machine:
    """`tell` a fact at a time, `pass_` the next deadline, and look at `row` and `steps`."""

    def __init__(self, *steps: dict[str, Any], brand: dict[str, Any] | None = None, **columns: Any) -> None:
        aggregate = AGGREGATES["mission"]
        self.change = Change(aggregate, aggregate.model(pk=ID), {name: {} for name in aggregate.children})
        self.now = START
        fields = {"title": "Fetch", "site_id": 1, "robot_id": "RB-001", "timeout_s": 600, **columns}
        self.brand = BRAND | (brand or {})
        self.tell(facts.DrawUp(fields, [dict(s) for s in steps or (step(), step("pick"), step("drop"))]))

    # what people and robots do

    def dispatch(self, *, sent: bool = True) -> "Machine":
        self.tell(facts.Dispatch("Ella", [], self.brand))
        self.row.assign_sent = sent
        return self

    def run(self) -> "Machine":
        """Dispatched, delivered, accepted."""
        self.dispatch()
        self.tell(facts.Delivered(), facts.Accepted(1))
        return self

    def tell(self, *told: Any, at: float | None = None) -> list[str]:
        """Facts, all at this second (default: a second after the last)."""
        self.now = self.now + timedelta(seconds=1) if at is None else START + timedelta(seconds=at)
        return [self._tell(fact) for fact in told]

    def _tell(self, fact: Any) -> str:
        before, events = self.row.state, len(self.change.events)
        self.change.origin = Origin("robot", "RB-001", "Ella")
        verdict = str(decide(self.change, fact, self.now))
        self._holds(before, events, verdict)
        return verdict

    def pass_(self, kind: str = "", **late: Any) -> str:
        """The earliest deadline (or this one) passes at its time; which one."""
        due = {d.kind: d.due_at for d in table.deadlines(self.row)}
        kind = kind or next(iter(due))
        self.now = max(self.now, due[kind])
        self._tell(facts.Due(kind, **{"online": True, **late}))
        return kind

    # what it is like

    @property
    def row(self) -> Mission:
        return self.change.row

    @property
    def steps(self) -> dict[int, Any]:
        return self.change.children["steps"]

    @property
    def due(self) -> dict[str, float]:
        """Kind → seconds from now."""
        return {d.kind: (d.due_at - self.now).total_seconds() for d in table.deadlines(self.row)}

    @property
    def kinds(self) -> list[str]:
        return [draft.kind.removeprefix("mission.") for draft in self.change.events]

    @property
    def outcomes(self) -> list[str]:
        return [str(self.steps[n].outcome) + ("?" if self.steps[n].inferred else "") for n in sorted(self.steps)]

    @property
    def commands(self) -> list[str]:
        return [command.kind for command in self.change.commands]

    @property
    def last_command(self) -> Command:
        return self.change.commands[-1]

    # what must hold, whatever was said

    def _holds(self, before: str, events: int, verdict: str) -> None:
        row = self.row
        if before in FINAL:
            assert row.state == before, "I1: it left a final state"
        if row.dispatched_at and row.state not in FINAL:
            assert row.next_due_at is not None, f"I5: nothing is due after {self.kinds[-3:]}"
            assert list(invariants._clocks(row)) == [], f"I5 after {self.kinds[-3:]}"
        if row.state in FINAL:
            assert row.next_due_at is None, "I5: something is due of a mission that has ended"
            assert row.state != "aborted" or row.abort_reason
        assert set(PASSED) == {kind for kind, _ in table.KINDS}
        if verdict in ("redundant", "stale"):
            assert len(self.change.events) == events, f"{verdict} facts leave no trace"
        else:
            assert len(self.change.events) > events, f"what is {verdict} is an event"
        for number, one in self.steps.items():
            assert not (one.inferred and one.confirm), f"step {number} is to be confirmed and was inferred"
            assert one.attempt <= 1 + one.timeout_retries + one.failure_retries, f"step {number} was tried too often"
        folded = Change(self.change.aggregate, Mission(pk=ID), {name: {} for name in self.change.children})
        for draft in self.change.events:
            folded.apply(KINDS[draft.kind], decode(self.change.aggregate, encode(draft.data)))
        assert differences(folded, row, self.change.children) == [], "I9"

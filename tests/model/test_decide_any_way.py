"""`decide` under receipts in any order (I1, I4), deadlines and requests, against a model that knows none of its code."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fleet.history import AGGREGATES, Change, Origin
from missions import facts, timings
from missions.deadlines import deadlines
from missions.decide import decide
from missions.models import FINAL
from tests.model.oracle import Asked, End, Life, Said, Step, StepEnd, complaints

START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
MINE = 1  # the dispatch_no
THEN = st.sampled_from(["abort", "abort", "skip"])
STEPS = st.builds(
    Step,
    timeout_s=st.sampled_from([5, 20, 60]), timeout_retries=st.integers(0, 2), failure_retries=st.integers(0, 2),
    timeout_then=THEN, failure_then=THEN, repeatable=st.booleans(), confirm=st.booleans(),
)  # fmt: skip
NUMBERS = st.integers(1, 4)
ATTEMPTS = st.sampled_from([1, 1, 1, 2, 3, 9])
DISPATCHES = st.sampled_from([MINE] * 6 + [2, None])
MODES = st.sampled_from(["running", "running", "paused", "idle"])
SETTLE = 300  # deadlines that pass before all must be final, or stand still


class Dispatch(RuleBasedStateMachine):
    """One dispatch of one mission; `said` and `asked` are what the model is told."""

    @initialize(
        steps=st.lists(STEPS, min_size=1, max_size=3), mission_s=st.sampled_from([30, 120]), strict=st.booleans(),
        waits=st.booleans(), idle_cancel=st.booleans(), calm=st.sampled_from([True, True, False]), runs=st.booleans(),
    )  # fmt: skip
    def begin(
        self, steps: list[Step], mission_s: int, strict: bool, waits: bool, idle_cancel: bool, calm: bool, runs: bool
    ) -> None:
        """`calm`: nobody ends it at once. `runs`: the robot has accepted it."""
        aggregate = AGGREGATES["mission"]
        self.now, self.seq, self.final = 0.0, 0, None
        self.change = Change(aggregate, aggregate.model(pk=UUID(int=1)), {name: {} for name in aggregate.children})
        self.life = Life(steps, mission_s, 0.0, 0.0, waits_for_robot=waits, strict_sequence=strict)
        rows = [
            {"command": "navigate", "params": {}, **{name: getattr(s, name) for name in Step.__dataclass_fields__}}
            for s in steps
        ]
        brand = {**timings.DEFAULTS, "strict_sequence": strict, "idle_cancel": idle_cancel,
                 "offline_policy": "wait" if waits else "abort"}  # fmt: skip
        self.tell(facts.DrawUp({"title": "Fetch", "site_id": 1, "robot_id": "R-1", "timeout_s": mission_s}, rows))
        self.tell(facts.Dispatch("Ella", [], brand))
        self.change.row.assign_sent = True
        self.calm = calm
        if runs:
            self.accepted(MINE)

    def tell(self, fact: Any) -> str:
        self.change.origin = Origin("robot", "R-1", "Ella")
        return str(decide(self.change, fact, START + timedelta(seconds=self.now)))

    def say(self, fact: Any, what: str, dispatch_no: int | None = MINE, **more: Any) -> str:
        self.seq += 1
        self.life.said.append(Said(self.now, what, dispatch_no, seq=more.pop("seq", self.seq), **more))
        return self.tell(fact)

    # --- time

    @rule(seconds=st.sampled_from([0.5, 3, 11, 40]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(late_s=st.sampled_from([0, 0, 5]), online=st.booleans())
    def pass_deadline(self, late_s: float, online: bool) -> None:
        if due := deadlines(self.change.row):
            self.now = max(self.now, (due[0].due_at - START).total_seconds()) + late_s
            self.tell(facts.Due(due[0].kind, online))

    # --- what the robot says

    @rule(no=DISPATCHES)
    def accepted(self, no: int | None) -> None:
        self.say(facts.Accepted(no), "accepted", no)

    @precondition(lambda self: not self.calm)
    @rule(no=st.sampled_from([MINE, 2, 2, 2]))
    def rejected(self, no: int) -> None:
        state = self.change.row.state
        self.say(facts.Rejected(no, "no"), "rejected" if state == "pending" else "rejected too late", no)

    @rule(no=DISPATCHES, step=NUMBERS, attempt=ATTEMPTS)
    def completed(self, no: int | None, step: int, attempt: int) -> None:
        self.say(facts.StepCompleted(no, step, attempt), "completed", no, step=step, attempt=attempt)

    @rule(no=DISPATCHES)
    def next_completed(self, no: int | None) -> None:
        self.completed(no, max(self.change.row.current_step, 1), 1)

    @rule(no=DISPATCHES, step=NUMBERS, attempt=ATTEMPTS)
    def failed(self, no: int | None, step: int, attempt: int) -> None:
        self.say(facts.StepFailed(no, step, attempt, "no grip"), "failed", no, step=step, attempt=attempt)

    @rule(attempt=ATTEMPTS)
    def current_failed(self, attempt: int) -> None:
        self.failed(MINE, max(self.change.row.current_step, 1), attempt)

    @rule(no=DISPATCHES, back=st.sampled_from([0, 0, 5]))
    def paused(self, no: int | None, back: int) -> None:
        seq = max(1, self.seq + 1 - back)
        self.say(facts.Paused(no, 1, seq), "paused", no, seq=seq)

    @rule(no=DISPATCHES, back=st.sampled_from([0, 0, 5]))
    def resumed(self, no: int | None, back: int) -> None:
        seq = max(1, self.seq + 1 - back)
        self.say(facts.Resumed(no, 1, seq), "resumed", no, seq=seq)

    @precondition(lambda self: not self.calm)
    @rule(no=st.sampled_from([MINE, 2, 2]))
    def cancelled(self, no: int) -> None:
        self.say(facts.Cancelled(no), "cancelled", no)

    @rule(no=DISPATCHES)
    def finished(self, no: int | None) -> None:
        self.say(facts.Finished(no), "finished", no)

    @rule(mode=MODES, named=st.booleans(), done=st.lists(NUMBERS, max_size=3).map(tuple))
    def answers(self, mode: str, named: bool, done: tuple[int, ...]) -> None:
        """Only to a question: what answers none is told to nobody."""
        if self.change.row.asked_for:
            done = done if named else ()
            self.say(facts.Answered(mode, named, "", done), "state", None, mode=mode, named=named, answers=True,
                     completed=done)  # fmt: skip

    @precondition(lambda self: not self.calm)
    @rule(ended=st.sampled_from(["finished", "finished", "cancelled", "failed"]))
    def answers_that_it_has_ended(self, ended: str) -> None:
        if self.change.row.asked_for:
            self.say(facts.Answered("idle", True, ended, ()), "state", None, mode="idle", named=True, ended=ended,
                     answers=True)  # fmt: skip

    @rule()
    def says_idle(self) -> None:
        self.say(facts.SaysIdle(), "state", None, mode="idle")

    # --- what people ask, and what becomes of the robot

    @precondition(lambda self: not self.calm)
    @rule()
    def cancel(self) -> None:
        self.life.asked.append(Asked(self.now, "cancel"))
        self.tell(facts.Cancel("Ana", "why not"))

    @precondition(lambda self: not self.calm)
    @rule()
    def danger(self) -> None:
        self.life.asked.append(Asked(self.now, "danger"))
        self.tell(facts.Danger("something burns"))

    @rule()
    def lost(self) -> None:
        if not self.away:
            self.life.silences.append((self.now, float("inf")))
            self.tell(facts.RobotLost(60))

    @rule()
    def back(self) -> None:
        if self.away:
            self.life.silences[-1] = (self.life.silences[-1][0], self.now)
            self.tell(facts.RobotBack())

    @rule()
    def stopped(self) -> None:
        self.life.asked.append(Asked(self.now, "stop"))
        self.tell(facts.RobotHeld(START + timedelta(seconds=self.now)))

    @rule()
    def released(self) -> None:
        self.life.asked.append(Asked(self.now, "release"))
        self.tell(facts.RobotReleased())

    @property
    def away(self) -> bool:
        return bool(self.life.silences) and self.life.silences[-1][1] == float("inf")

    # --- what must hold

    @invariant()
    def is_allowed(self) -> None:
        if hasattr(self, "change"):
            self.judge(settled=False)

    def teardown(self) -> None:
        """All that is due passes, one after the other, and nobody says anything any more."""
        if not hasattr(self, "change"):
            return
        for _ in range(SETTLE):
            due = deadlines(self.change.row)
            if self.change.row.state in FINAL or not due:
                break
            self.now = max(self.now, (due[0].due_at - START).total_seconds())
            self.tell(facts.Due(due[0].kind, not self.away))
        self.judge(settled=True)

    def judge(self, *, settled: bool) -> None:
        row, drafts = self.change.row, self.change.events
        self.life.until = self.now
        said, self.life.said = self.life.said, [s for s in self.life.said if s.step <= len(self.life.steps)]
        steps = [
            StepEnd(str(s.outcome), s.attempt, s.inferred) for _, s in sorted(self.change.children["steps"].items())
        ]
        edges = [(str(d.state_from), str(d.state_to)) for d in drafts if d.state_from and d.state_from != d.state_to]
        end = End(
            str(row.state), str(row.abort_reason), row.stop_confirmed, seconds(row.stop_requested_at),
            seconds(row.ended_at), steps, edges, row.next_due_at is not None,
        )  # fmt: skip
        wrong = complaints(self.life, end, settled=settled)
        self.life.said = said
        assert not wrong, "\n".join([*wrong, *(f"{s.at:g} {s.what} {s.step or ''}" for s in said)])
        assert row.version == len(drafts), "one event per change"
        if self.final is not None:
            assert (row.state, row.abort_reason) == self.final, "it left a final state"
        elif row.state in FINAL:
            self.final = (row.state, row.abort_reason)


def seconds(at: datetime | None) -> float | None:
    return None if at is None else (at - START).total_seconds()


Dispatch.TestCase.settings = settings(
    max_examples=200, stateful_step_count=20, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
TestDispatch = Dispatch.TestCase

"""Which outcomes of a dispatch are allowed, from what was said, asked and due. Knows nothing of the product's code.

Times are true seconds: they pass evenly, whatever happens to a wall clock. It is told what reached the site and when,
and says what may have become of the mission; it follows no transition and keeps no state, so it can be wrong only in
ways of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

FINISHED_S = 10.0  # from the last step to finished
ANSWER_S = 5.0  # for the answer to a question
STOP_S = 15.0  # from a stop to the robot's word
ACCEPT_S = 10.0  # for an answer to an assignment that the robot has
ACCEPT_TRIES = 5
TAKE_S = 180.0  # a robot that is online and takes nothing this long gets nothing
LATELY_S = 30.0  # what was said this long before may be heard only now
BLINK_S = 1.0  # what was received this near to a deadline may be on either side of it

OPEN, SUCCESS, ABORTED = "open", "success", "aborted"
EDGES = {
    ("pending", "executing"), ("executing", "step_completed"), ("step_completed", "executing"),
    ("step_completed", "success"), ("pending", "aborted"), ("executing", "aborted"), ("step_completed", "aborted"),
}  # fmt: skip
ENDS = ("cancelled", "finished", "rejected")  # words after which the robot has ended the dispatch


@dataclass(frozen=True)
class Step:
    """What was planned for one step."""

    timeout_s: float
    timeout_retries: int = 0
    failure_retries: int = 0
    timeout_then: str = ABORTED
    failure_then: str = ABORTED
    repeatable: bool = True
    confirm: bool = False


@dataclass(frozen=True)
class Said:
    """A word of the robot as it first reached the site. `named`: a state that names this very dispatch."""

    at: float
    what: str
    dispatch_no: int | None = None
    step: int = 0
    attempt: int = 0
    mode: str = ""
    named: bool = False
    ended: str = ""
    answers: bool = False
    session: int = 1
    seq: int = 0
    completed: tuple[int, ...] = ()  # steps that a state names as done


@dataclass(frozen=True)
class Asked:
    """What people, or the robot's own danger, asked for: cancel, stop, release, danger …"""

    at: float
    what: str


@dataclass
class Life:
    """One dispatch: its plan and all that happened around it, up to `until`."""

    steps: Sequence[Step]
    mission_s: float
    dispatched_at: float
    until: float
    dispatch_no: int = 1
    said: list[Said] = field(default_factory=list)
    late: list[Said] = field(default_factory=list)  # said after it had ended
    asked: list[Asked] = field(default_factory=list)
    silences: list[tuple[float, float]] = field(default_factory=list)  # the link was down, from … to
    abandon_s: float = 60.0
    waits_for_robot: bool = False  # while it is offline; else it is given up after `abandon_s`
    strict_sequence: bool = False

    def first(self, what: str, step: int = 0) -> float | None:
        """When this was said first, of this dispatch: by a receipt, or in answer to a question."""
        said = [s.at for s in self.words(what) if s.step == step]
        if what == "accepted":
            said += [s.at for s in self.answers() if s.named]
        if what == "completed":
            said += [s.at for s in self.answers() if s.named and step in s.completed]
        if what == "accepted" and self.strict_sequence:
            said += [s.at for s in self.words("completed", "finished")]
        return min(said, default=None)

    def answers(self, ended: str = "") -> list[Said]:
        return [s for s in self.said if s.what == "state" and s.answers and (not ended or s.ended == ended)]

    def words(self, *what: str) -> Iterable[Said]:
        return (s for s in self.said if s.what in what and s.dispatch_no == self.dispatch_no)

    def was_asked(self, what: str, before_s: float = 0.0) -> bool:
        return any(a.what == what and a.at >= self.dispatched_at - before_s for a in self.asked)


@dataclass(frozen=True)
class StepEnd:
    outcome: str = ""  # completed, failed, skipped; empty while it has not ended
    attempt: int = 0
    inferred: bool = False


@dataclass
class End:
    """What the site says became of it."""

    state: str
    reason: str = ""
    stop_confirmed: bool | None = None
    stop_asked_at: float | None = None
    ended_at: float | None = None
    steps: Sequence[StepEnd] = ()
    edges: Sequence[tuple[str, str]] = ()  # every change of state, in order
    has_deadline: bool = False


def allowed(life: Life) -> dict[tuple[str, str], str]:
    """(state, abort reason) → why it may have ended so."""
    found = {(ABORTED, reason): why for reason, why in _reasons(life).items()}
    if why := _success(life):
        found[SUCCESS, ""] = why
    if why := _may_be_open(life):
        found[OPEN, ""] = why
    return found


def complaints(life: Life, end: End, *, settled: bool = True) -> list[str]:
    """Everything about this end that may not be; empty when all is well. Not `settled`: deadlines may still pass."""
    found = []
    state = end.state if end.state in (SUCCESS, ABORTED) else OPEN
    may = allowed(life)
    if (settled or state != OPEN) and (state, end.reason if state == ABORTED else "") not in may:
        found.append(f"it is {state} {end.reason}; allowed: {may or 'nothing'}")
    elif state == OPEN and end.stop_asked_at is not None and (ABORTED, end.reason) not in may:
        found.append(f"it is stopping because of {end.reason}; allowed: {may or 'nothing'}")
    if state == OPEN and not end.has_deadline:
        found.append("it is open and nothing is due")
    return found + _of_steps(life, end) + _of_edges(life, end) + _of_stop(life, end)


# --- success


def _success(life: Life) -> str:
    said = life.first("finished") is not None or any(s.named for s in life.answers("finished"))
    if life.first("accepted") is None or not said:
        return ""
    return "everything was said" if all(_may_be_done(life, n) for n in _numbers(life)) else ""


def _may_be_done(life: Life, n: int) -> bool:
    """Said, skipped by its policy, or (if its brand allows it) implied."""
    step = life.steps[n - 1]
    return (
        life.first("completed", n) is not None
        or (step.failure_then == "skip" and _failed_for_good(life, n))
        or (step.timeout_then == "skip" and (_late(life, n) or life.first("finished") is not None))
        or _may_be_implied(life, n)
    )


def _may_be_implied(life: Life, n: int) -> bool:
    later = any(s.step > n for s in life.words("completed")) or life.first("finished") is not None
    return life.strict_sequence and not life.steps[n - 1].confirm and later


def _failed_for_good(life: Life, n: int) -> bool:
    """Failures of as many attempts as its policy allows were reported, and of none that was never given."""
    step = life.steps[n - 1]
    attempts = {s.attempt for s in life.words("failed") if s.step == n and 1 <= s.attempt <= _most(step)}
    return len(attempts) > step.failure_retries


def _most(step: Step) -> int:
    return 1 + step.failure_retries + (step.timeout_retries if step.repeatable else 0)


# --- reasons to abort


def _reasons(life: Life) -> dict[str, str]:
    found = {}
    if life.first("rejected") is not None or life.answers("rejected"):
        found["rejected"] = "the robot rejected it"
    if any(life.words("cancelled")) or life.answers("cancelled"):
        found["operator"] = "the robot says cancelled"
    if life.was_asked("cancel"):
        found["operator"] = "somebody cancelled it"
    if life.was_asked("danger", LATELY_S):
        found["safety"] = "the robot reported danger"
    for reason, why in (("robot_fault", _fault), ("timeout", _timeout), ("undeliverable", _undeliverable)):
        if words := why(life):
            found[reason] = words
    return found


def _fault(life: Life) -> str:
    for n in _numbers(life):
        if life.steps[n - 1].failure_then != "skip" and _failed_for_good(life, n):
            return f"step {n} failed"
    if life.answers("failed"):
        return "asked, the robot says that it has failed"
    if any(s.mode == "idle" and not s.named for s in life.answers()):
        return "asked, the robot did not know it"
    away = max((min(b, life.until) - max(a, life.dispatched_at) for a, b in life.silences), default=0.0)
    return "the robot was away too long" if away >= life.abandon_s and not life.waits_for_robot else ""


def _timeout(life: Life) -> str:
    accepted = life.first("accepted")
    if accepted is None:
        return ""
    for n in _numbers(life):
        if _late(life, n):
            return f"step {n} took too long"
    finished = life.first("finished")
    if (finished or life.until) - accepted > life.mission_s - BLINK_S:
        return "it took too long"
    if finished is not None and any(life.first("completed", n) is None for n in _numbers(life)):
        return "it says finished, and not that every step is done"
    done = _began(life, len(life.steps) + 1)
    if done is not None and (finished or life.until) - done > FINISHED_S - BLINK_S:
        return "no word that it finished"
    return ""


def _late(life: Life, n: int) -> bool:
    """Did the step take longer than all the attempts that it has for that?"""
    step, began, ended = life.steps[n - 1], _began(life, n), life.first("completed", n)
    if began is None:
        return False
    alone = not any(s.step > n for s in life.words("completed")) and life.first("finished") is None
    tries = 1 + (step.timeout_retries if step.repeatable and alone else 0)
    return (ended or life.until) - began > tries * step.timeout_s - BLINK_S


def _began(life: Life, n: int) -> float | None:
    """When step `n` (or, after the last, the wait for finished) began at the earliest: all before it done or given up."""
    began = life.first("accepted")
    for before in range(1, n):
        if began is None:
            return None
        step, said = life.steps[before - 1], life.first("completed", before)
        ends = [max(began, said)] if said is not None else []
        if step.timeout_then == "skip":
            ends.append(began + step.timeout_s)
        if step.failure_then == "skip" and _failed_for_good(life, before):
            ends.append(began)
        if _may_be_implied(life, before):
            ends.append(began)
        began = min(ends, default=None)
    return began


def _undeliverable(life: Life) -> str:
    answered = _first_of(life, life.until, "accepted", "rejected")
    waited = answered - life.dispatched_at
    if waited > min(ACCEPT_S * ACCEPT_TRIES, TAKE_S) - BLINK_S:
        return "the robot did not answer"
    return ""


def _may_be_open(life: Life) -> str:
    newest = max(life.words("paused", "resumed"), key=lambda s: (s.session, s.seq), default=None)
    if newest is not None and newest.what == "paused":
        return "it is paused"
    if [a.what for a in life.asked if a.what in ("stop", "release")][-1:] == ["stop"]:
        return "its robot is stopped"
    if any(b >= life.until for _, b in life.silences):
        return "its robot is away"
    if life.first("accepted") is None:
        return "the robot has not answered yet"
    now = max([life.dispatched_at, *(s.at for s in life.said), *(a.at for a in life.asked)])
    longest = max([life.mission_s, *(s.timeout_s * _most(s) for s in life.steps)]) + FINISHED_S + ANSWER_S + STOP_S
    return "something is still due" if life.until - now < longest else ""


# --- the rest


def _of_steps(life: Life, end: End) -> list[str]:
    found = []
    for n, (step, ended) in enumerate(zip(life.steps, end.steps, strict=True), 1):
        said = life.first("completed", n) is not None
        if ended.outcome == "completed" and not said and not _may_be_implied(life, n):
            found.append(f"step {n} counts as completed and nobody said so")
        if ended.inferred and (step.confirm or not life.strict_sequence):
            found.append(f"step {n} counts as inferred, and may not be")
        if ended.outcome == "failed" and life.first("failed", n) is None:
            found.append(f"step {n} counts as failed and nobody said so")
        if ended.outcome == "skipped" and "skip" not in (step.timeout_then, step.failure_then):
            found.append(f"step {n} was skipped against its policy")
        if ended.attempt > _most(step):
            found.append(f"step {n} was tried {ended.attempt} times, its policy allows {_most(step)}")
        failed = {s.attempt for s in life.words("failed") if s.step == n}
        if ended.attempt > 1 and not step.repeatable and not failed:
            found.append(f"step {n} may not be repeated on a mere timeout, and was")
    return found


def _of_edges(life: Life, end: End) -> list[str]:
    found = [f"edge {a} → {b} is not of the machine" for a, b in end.edges if (a, b) not in EDGES]
    state = "pending"
    for a, b in end.edges:
        if a != state:
            found.append(f"an edge begins at {a} while it was {state}")
        state = b
    if state != end.state:
        found.append(f"its edges end at {state}, it is {end.state}")
    over = sum(1 for s in end.steps if s.outcome in ("completed", "skipped"))
    edges = sum(1 for edge in end.edges if edge == ("executing", "step_completed"))
    if edges != over:
        found.append(f"{over} steps are over, by {edges} edges")
    return found


def _of_stop(life: Life, end: End) -> list[str]:
    """Stop before final: `True` needs the robot's word, `False` that it had its time and said nothing."""
    asked, ended = end.stop_asked_at, end.ended_at
    if end.state != ABORTED or asked is None or ended is None:
        return []
    all_of_it = replace(life, said=life.said + life.late)
    words = [s.at for s in all_of_it.words(*ENDS)] + [s.at for s in all_of_it.answers() if s.ended or s.mode == "idle"]
    found = []
    if end.stop_confirmed is None and life.first("rejected") is None:
        found.append("it was asked to stop, and ended without a word about whether it has")
    if end.stop_confirmed and not words:
        found.append("its stop counts as confirmed and the robot never said so")
    unconfirmed_first = end.stop_confirmed is False or not any(at <= ended for at in words)
    if unconfirmed_first and ended - asked < STOP_S - BLINK_S:
        found.append(f"it was ended {ended - asked:.1f} s after the stop was asked for, without the robot's word")
    in_time = [at for at in words if asked < at < asked + STOP_S - BLINK_S]
    if end.stop_confirmed is False and in_time:
        found.append(f"the robot said within {in_time[0] - asked:.1f} s that it had stopped, and that is not known")
    return found


def _numbers(life: Life) -> range:
    return range(1, len(life.steps) + 1)


def _first_of(life: Life, default: float, *what: str, step: int = 0) -> float:
    return min((at for w in what if (at := life.first(w, step)) is not None), default=default)

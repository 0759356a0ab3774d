"""From a state to receipts: what a robot has done of the dispatch that it was given. Pure; nothing is guessed.

A drive is done by the number of the last node, all else by its own action. An empty list of nodes proves nothing.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from telemetry.drivers.contract import Dispatch, Step
from telemetry.drivers.vda5050 import meaning, plan
from telemetry.drivers.vda5050.ids import OrderId, parse
from telemetry.drivers.vda5050.picture import ActionState, Picture
from telemetry.drivers.vda5050.plan import Plan, Task
from telemetry.drivers.vda5050.standing import automatic, idle, unreadable

OVER = ("completed", "skipped")


class Says(NamedTuple):
    """A word about a dispatch, or about a try of one of its steps."""

    type: str
    data: dict[str, Any] = {}
    step: int | None = None
    attempt: int | None = None


class Failure(NamedTuple):
    """`begun`: the robot may have begun it. An order that is ended fails also what it has not come to."""

    step: int
    attempt: int
    why: str
    begun: bool = True


class Progress(NamedTuple):
    """How far the order of a dispatch is that the robot shows. `reached`: sequence of its newest node, -1 before any.

    `superseded`: the site wants something else than the rest of it: another attempt, or what comes after a skipped step.
    """

    order: OrderId
    plan: Plan
    reached: int
    done: dict[int, str]  # step → in the robot's words
    superseded: bool = False
    failed: Failure | None = None


def progress(dispatch: Dispatch, segment: Plan, picture: Picture, now: datetime) -> Progress:
    """Of the order that the robot shows; `segment` is its plan."""
    shown = Progress(segment.order, segment, _reached(segment, picture), {})
    for task in segment.tasks:
        if (result := _done(task, shown, dispatch, picture, now)) is not None:
            shown.done[task.step] = result
    if _superseded(dispatch, shown):
        return shown._replace(superseded=True)
    failed = _failed(dispatch, shown, picture)
    return shown if failed is None else shown._replace(failed=failed)


def words(dispatch: Dispatch, picture: Picture, shown: Progress | None, *, withheld: bool = False) -> Iterator[Says]:
    """What the site does not know yet. `withheld`: what has failed may have failed because we ended the order."""
    if unreadable(picture):
        return
    if shown is None:
        if (failed := _lost_to_another(dispatch, picture)) is not None:
            yield _says_failed(failed)
        return
    if not dispatch.accepted:
        yield Says("mission.accepted")
    for task in shown.plan.tasks:
        step = dispatch.steps[task.step - 1]
        if task.step in shown.done and not step.outcome:
            yield Says("mission.step_completed", {"result": shown.done[task.step]}, task.step, task.attempt)
    current = due(dispatch, shown)
    if shown.failed is not None and not withheld:
        yield _says_failed(shown.failed)
    elif current is not None and current.step >= dispatch.current and not idle(picture):
        yield Says("mission.step_started", {}, current.step, current.attempt)
    if finished(dispatch, picture, shown):
        yield Says("mission.finished")


def due(dispatch: Dispatch, shown: Progress) -> Task | None:
    """The first step of the order that is not behind us."""
    return next((t for t in shown.plan.tasks if t.step not in shown.done and not _over(dispatch, t.step)), None)


def finished(dispatch: Dispatch, picture: Picture, shown: Progress) -> bool:
    """All steps are behind us, and the robot has nothing more to do for it; one that charges may go on with that."""
    if not all(step.outcome in OVER or step.number in shown.done for step in dispatch.steps):
        return False
    charges = shown.plan.tasks[-1].kind == "charge" and shown.plan.last in shown.done and not picture.driving
    return idle(picture) or charges


def _superseded(dispatch: Dispatch, shown: Progress) -> bool:
    for task in shown.plan.tasks:
        step = dispatch.steps[task.step - 1]
        if task.step in shown.done or step.outcome == "completed":
            continue
        if step.outcome in ("skipped", "failed") or step.attempt != task.attempt:
            return True
    return False


def _over(dispatch: Dispatch, number: int) -> bool:
    return dispatch.steps[number - 1].outcome in OVER


def _reached(segment: Plan, picture: Picture) -> int:
    """Sequence of the newest node. -1 while the robot still names a node of the order before this one."""
    last = picture.last_node_sequence
    if last is None:
        passed = [stop.sequence for stop in segment.stops if stop.id == picture.last_node_id]
        last = passed[0] if len(passed) == 1 else -1
    elif not any((stop.sequence, stop.id) == (last, picture.last_node_id) for stop in segment.stops):
        return -1
    if any(edge.sequence is not None and edge.sequence < last for edge in picture.edge_states):
        return -1
    return last


def _done(task: Task, shown: Progress, dispatch: Dispatch, picture: Picture, now: datetime) -> str | None:
    """In the robot's words, or empty; None: it is not done."""
    step, state = dispatch.steps[task.step - 1], picture.actions.get(task.action)
    match task.kind:
        case "drive":
            return "" if shown.reached >= task.sequence else None
        case "act":
            return state.result if state is not None and state.status == "FINISHED" else None
        case "charge":
            return _charged(step, state, picture, shown.reached >= task.sequence)
    before = all(t.step in shown.done or _over(dispatch, t.step) for t in shown.plan.tasks if t.step < task.step)
    return "" if before and plan.waited(step, now) else None


def _charged(step: Step, state: ActionState | None, picture: Picture, there: bool) -> str | None:
    """Its action ends when charging begins; the battery says when it is over."""
    charge = picture.battery.charge
    begun = there if state is None else state.status not in ("WAITING", "FAILED")
    charges = picture.battery.charging or (state is not None and state.status == "FINISHED")
    full = charge is not None and charge >= step.params.get("until_percent", 100)
    return f"{charge:g} %" if begun and charges and full else None


def _failed(dispatch: Dispatch, shown: Progress, picture: Picture) -> Failure | None:
    """Of what is due only: what comes later fails as well when an order is ended."""
    task = due(dispatch, shown)
    if task is None:
        return None
    state = picture.actions.get(task.action)
    if state is not None and state.status == "FAILED":
        why = state.result or meaning.refused_action(picture, task.action) or "its action failed"
    elif fatal := _fatal(picture, task.action, shown.order.text):
        why = fatal
    elif not automatic(picture):
        why = f"the robot is in mode {picture.operating_mode[:60].lower()}"
    else:
        return None
    return Failure(task.step, task.attempt, why, begun=bool(task.action) and shown.reached >= task.sequence)


def _fatal(picture: Picture, *ids: str) -> str:
    named = (e for e in picture.errors if e.level == "FATAL" and any(i and e.names(i) for i in ids))
    return next((meaning.words(error) for error in named), "")


def _lost_to_another(dispatch: Dispatch, picture: Picture) -> Failure | None:
    """Another master has given the robot an order, though it had ours."""
    if not dispatch.accepted or not picture.order_id or parse(picture.order_id) is not None:
        return None
    step = next((step for step in dispatch.steps if step.number == dispatch.current and not step.outcome), None)
    if step is None:
        return None
    return Failure(step.number, step.attempt, f"it was given another order, {picture.order_id[:100]}")


def _says_failed(failed: Failure) -> Says:
    return Says("mission.step_failed", {"why": failed.why}, failed.step, failed.attempt)

"""The mission machine in tables, made by asking it. `python -m tests.missions.tables` writes them into docs/missions.md.

A situation is a mission that was brought there by facts; a word is one more fact. `tests/missions/test_machine_docs.py`
holds the page to what `decide` does today.
"""

import re
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "missions.md"


def situations() -> dict[str, Callable]:
    from missions import facts
    from tests.missions.machine import Machine, step

    def machine(**brand):
        return Machine(step(failure_retries=1), step(), brand={"offline_policy": "wait", **brand})

    def ran(*told, **brand):
        m = machine(**brand).run()
        m.tell(*told)
        return m

    def asked():
        m = ran()
        m.pass_("step")
        return m

    def stopped_in_vain():
        m = ran(facts.Cancel("Ana"))
        while m.due:
            m.pass_("stop")
        return m

    done = (facts.StepCompleted(1, 1, 1), facts.StepCompleted(1, 2, 1))
    return {
        "drawn up": machine,
        "sent": lambda: machine().dispatch(),
        "at step 1": ran,
        "step 1 asked about": asked,
        "to be tried again": lambda: ran(facts.StepFailed(1, 1, 1)),
        "last step done": lambda: ran(*done),
        "paused": lambda: ran(facts.Paused(1, 1, 1)),
        "robot stopped": lambda: ran(facts.RobotHeld(machine().now)),
        "robot offline": lambda: ran(facts.RobotLost(60)),
        "stopping": lambda: ran(facts.Cancel("Ana")),
        "success": lambda: ran(*done, facts.Finished(1)),
        "aborted": lambda: ran(facts.Cancel("Ana"), facts.Cancelled(1)),
        "aborted, unconfirmed": stopped_in_vain,
    }


def words() -> dict[str, Callable]:
    """Label → the fact, made for a machine."""
    from missions import facts

    return {
        "accepted": lambda m: facts.Accepted(1),
        "rejected": lambda m: facts.Rejected(1, "busy"),
        "step 1 started": lambda m: facts.StepStarted(1, 1, 1),
        "step 1 completed": lambda m: facts.StepCompleted(1, 1, 1),
        "step 1 completed, another attempt": lambda m: facts.StepCompleted(1, 1, 9),
        "step 2 completed": lambda m: facts.StepCompleted(1, 2, 1),
        "step 1 failed": lambda m: facts.StepFailed(1, 1, 1, "blocked"),
        "step 1 failed, another attempt": lambda m: facts.StepFailed(1, 1, 9, "blocked"),
        "paused": lambda m: facts.Paused(1, 1, 9),
        "resumed": lambda m: facts.Resumed(1, 1, 9),
        "cancelled": lambda m: facts.Cancelled(1),
        "finished": lambda m: facts.Finished(1),
        "any of these, of another dispatch": lambda m: facts.Finished(2),
        "answers: idle, does not name it": lambda m: facts.Answered("idle", named=False),
        "answers: at it": lambda m: facts.Answered("running", named=True),
        "answers: at it, step 1 completed": lambda m: facts.Answered("running", named=True, completed=(1,)),
        "answers: it is finished": lambda m: facts.Answered("idle", named=True, ended="finished"),
        "says unasked that it is idle": lambda m: facts.SaysIdle(),
        "acknowledged the assignment": lambda m: facts.Delivered(),
        "went offline": lambda m: facts.RobotLost(60),
        "is back": lambda m: facts.RobotBack(),
        "was stopped by people": lambda m: facts.RobotHeld(m.now),
        "was released": lambda m: facts.RobotReleased(),
        "has a dangerous fault": lambda m: facts.Danger("smoke"),
        "a person cancels": lambda m: facts.Cancel("Ana"),
        "a person hands it over": lambda m: facts.HandOver("Ana"),
    }


NOT_DISPATCHED = ("a person hands it over",)  # actions refuse these of what was only drawn up


def what_happens(m, fact) -> str:
    """Events that the fact makes, or its verdict when it makes none."""
    seen = len(m.kinds)
    [verdict] = m.tell(fact)
    return ", ".join(kind.replace("_", " ") for kind in m.kinds[seen:]) or {"redundant": "–"}.get(verdict, verdict)


def by_word() -> str:
    places = situations()
    lines = []
    for group in (list(places)[:7], list(places)[7:]):
        lines += [f"| | {' | '.join(group)} |", "|---|" + "---|" * len(group)]
        for label, make in words().items():
            cells = []
            for place in group:
                m = places[place]()
                skip = place == "drawn up" and label in NOT_DISPATCHED
                cells.append("refused" if skip else what_happens(m, make(m)))
            lines.append(f"| {label} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def by_deadline() -> str:
    """Every kind of deadline: in which of the situations it is open, and what passes when it does."""
    from missions.deadlines import KINDS
    from missions.timings import DEFAULTS

    lines = ["| deadline | how long | what happens when it passes |", "|---|---|---|"]
    for kind, then in KINDS:
        lines.append(f"| {kind} | {HOW_LONG[kind].format(**DEFAULTS)} | {then} |")
    return "\n".join(lines)


HOW_LONG = {
    "queued": "10 min from being asked to run, then as long as it has waited, at most 1 h",
    "expires": "`expires_at` of the mission",
    "undelivered": "brand's `undelivered_s` ({undelivered_s} s) from dispatch, again and again",
    "accepted": "brand's `accept_s` ({accept_s} s) from the robot's acknowledgement, `accept_tries` ({accept_tries}) times; "
    "30 s while it is not online or stopped",
    "step": "the step's `timeout_s`, for each attempt (brand's `step_timeouts`, else the command type's)",
    "retry": "1, 2, 4, 8, 16, 16 … s after the attempt",
    "gap": "2 s from the later receipt",
    "finished": "brand's `finish_s` ({finish_s} s) from the last step",
    "mission": "the mission's `timeout_s` from accepted (brand's `mission_timeout_s`)",
    "answer": "brand's `answer_s` ({answer_s} s) from the question",
    "stop": "2, 4, 8 … s from the request, until the brand's `stop_s` ({stop_s} s)",
    "robot_lost": "brand's `abandon_after_s` from when it is offline, then `paused_long_s` ({paused_long_s} s) again and again",
    "paused": "brand's `paused_long_s` ({paused_long_s} s), again and again",
    "held": "brand's `paused_long_s` ({paused_long_s} s), again and again",
}


def by_transition() -> str:
    from missions.models import Mission

    lines = ["| transition | from | to | event |", "|---|---|---|---|"]
    events = {
        "start": "started", "complete_step": "step_completed, step_skipped", "next_step": "step_started",
        "succeed": "succeeded", "abort": "aborted",
    }  # fmt: skip
    moves: dict[str, list[str]] = {}
    targets = {}
    for move in Mission._meta.get_field("state").get_all_transitions(Mission):
        moves.setdefault(move.name, []).append(str(move.source))
        targets[move.name] = str(move.target)
    for name, event in events.items():
        lines.append(f"| {name} | {', '.join(sorted(moves[name]))} | {targets[name]} | {event} |")
    assert set(events) == set(moves)
    return "\n".join(lines)


BLOCKS = {"transitions": by_transition, "deadlines": by_deadline, "words": by_word}


def filled(page: str) -> str:
    for name, make in BLOCKS.items():
        block = f"<!-- {name} -->\n\n{make()}\n\n<!-- end -->"
        page, n = re.subn(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _, b=block: b, page, flags=re.DOTALL)
        assert n == 1, f"docs/missions.md has no place for {name}"
    return page


if __name__ == "__main__":
    import django

    django.setup()
    PAGE.write_text(filled(PAGE.read_text()))

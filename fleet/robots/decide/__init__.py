"""What a fact means for a robot: pure rules from a fact to recorded events and commands."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.robots import facts
from fleet.robots.decide import belonging, holding, words
from fleet.verdict import Verdict


def decide(change: Change, fact: Any, now: datetime) -> Verdict:
    """Record what the fact means for the robot. `now` is when it was received (UTC). No I/O, no clock."""
    change.now = now
    if (
        isinstance(fact, facts.Word)
        and not isinstance(fact, facts.StoodStill | facts.FaultCleared)
        and not words.is_newest(change, fact)
    ):
        return Verdict.STALE
    return _RULES[type(fact)](change, fact, now)


_RULES: dict[type, Callable[[Change, Any, datetime], Verdict]] = {
    facts.Reported: words.reported,
    facts.Faulted: words.faulted,
    facts.FaultCleared: words.fault_cleared,
    facts.StoodStill: words.stood_still,
    facts.Seen: words.seen,
    facts.Enrol: belonging.enrol,
    facts.Edit: belonging.edit,
    facts.Offers: words.offers,
    facts.Retire: belonging.retire,
    facts.Reinstate: belonging.reinstate,
    facts.HoldBack: holding.hold_back,
    facts.Explain: holding.explain,
    facts.Release: holding.release,
    facts.Due: holding.due,
    facts.StopConfirmed: holding.stop_confirmed,
    facts.IssueCredential: belonging.issue,
    facts.RevokeCredential: belonging.revoke,
}

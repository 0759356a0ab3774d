"""How a step's policy is said in one line: what happens after a timeout, what after a failure.

Pages say the same while somebody is choosing, from the same words (static/live/step_policy.js).
"""

from collections.abc import Mapping
from typing import Any

from missions.models import RetryFor, Then

WORDS = {
    "timeout": "after a timeout",
    "failure": "after a failure",
    "both": "after a timeout or a failure",
    "one": "1 more try, then",
    "more": "{n} more tries, then",
    str(Then.ABORT): "the mission is aborted",
    str(Then.SKIP): "the step is skipped",
}


def unusual_words(said: Mapping[str, Any]) -> str:
    """The line for what was said about a step; empty when that is what happens anyway."""
    usual = {"timeout_retries": 0, "failure_retries": 0, "timeout_then": Then.ABORT, "failure_then": Then.ABORT}
    policy = {name: said.get(name) or value for name, value in usual.items()}
    return policy_words(policy) if policy != usual else ""


def policy_words(policy: Mapping[str, Any]) -> str:
    """After a timeout 2 more tries, then the step is skipped; after a failure the mission is aborted."""
    said = course_words(policy)
    return f"{said[0].upper()}{said[1:]}"


def course_words(policy: Mapping[str, Any]) -> str:
    """The same within a sentence."""
    timeout, failure = (_course(policy[f"{why}_retries"], policy[f"{why}_then"]) for why in ("timeout", "failure"))
    if timeout == failure:
        return f"{WORDS['both']} {timeout}."
    return f"{WORDS['timeout']} {timeout}; {WORDS['failure']} {failure}."


def tries_words(step: Any, retry_for: str = "") -> str:
    """At which try a step is: “try 2”, and while the next one waits “try 2 of 3”. Empty at the first."""
    if not retry_for:
        return f"try {step.attempt}" if step.attempt > 1 else ""
    timeouts = step.attempt - 1 - step.failed_attempts  # tries that were given up for the time they took
    left = (
        step.failure_retries - step.failed_attempts
        if retry_for == RetryFor.FAILURE
        else step.timeout_retries - timeouts - 1
    )
    return f"try {step.attempt + 1} of {step.attempt + 1 + max(left, 0)}"


def _course(retries: int, then: str) -> str:
    tries = "" if not retries else WORDS["one"] if retries == 1 else WORDS["more"].format(n=retries)
    return f"{tries} {WORDS[then]}".strip()

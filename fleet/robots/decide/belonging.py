"""What people say of a robot: who and whose it is, whether it is in service, and which tokens it has."""

from dataclasses import asdict
from datetime import datetime

from fleet import edited
from fleet.history import Change
from fleet.robots import facts
from fleet.verdict import Verdict


def enrol(change: Change, fact: facts.Enrol, now: datetime) -> Verdict:
    change.record("robot.enrolled", **asdict(fact))
    return Verdict.APPLIED


def edit(change: Change, fact: facts.Edit, now: datetime) -> Verdict:
    """Under another address or brand it is another machine: what it said it can do holds no longer."""
    changed = edited.changed(change.row, fact.columns)
    if not changed:
        return Verdict.REDUNDANT
    what = "; ".join(fact.words.get(column, column) for column in changed)
    if changed.keys() & {"address", "brand_id"} and change.row.capabilities is not None:
        changed["capabilities"] = None
    change.record("robot.edited", **changed, what=what)
    return Verdict.APPLIED


def retire(change: Change, fact: facts.Retire, now: datetime) -> Verdict:
    if change.row.retired_at:
        return Verdict.REDUNDANT
    change.record("robot.retired", retired_at=now)
    return Verdict.APPLIED


def reinstate(change: Change, fact: facts.Reinstate, now: datetime) -> Verdict:
    if not change.row.retired_at:
        return Verdict.REDUNDANT
    change.record("robot.reinstated", retired_at=None)
    return Verdict.APPLIED


def issue(change: Change, fact: facts.IssueCredential, now: datetime) -> Verdict:
    number = change.row.version + 1
    change.record(
        "robot.credential_issued",
        credentials=[{"number": number, "label": fact.label, "issued_at": now}], label=fact.label,
    )  # fmt: skip
    change.children["credentials"][number].digest = fact.digest  # a secret stays out of the history
    return Verdict.APPLIED


def revoke(change: Change, fact: facts.RevokeCredential, now: datetime) -> Verdict:
    credential = change.children["credentials"].get(fact.number)
    if credential is None or credential.revoked_at:
        return Verdict.REDUNDANT
    change.record(
        "robot.credential_revoked", credentials=[{"number": fact.number, "revoked_at": now}], label=credential.label
    )
    return Verdict.APPLIED

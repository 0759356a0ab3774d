"""Robots' bearer tokens: issued, revoked, and whose one is. Only digests are kept."""

import hashlib
import secrets

from fleet.columns import plain_text
from fleet.history import Change, Origin
from fleet.models import Event, RobotCredential
from fleet.refusals import Refused
from fleet.robots import facts
from fleet.robots.telling import tell


def issue_credential(robot_id: str, *, label: str = "", by: Origin, once: bool = False) -> str:
    """A new bearer token, shown this once: only its digest is kept. `once`: refused when `by.cause` has issued one."""
    token = f"drover_{secrets.token_urlsafe(32)}"
    fact = facts.IssueCredential(plain_text(label), digest_of(token))

    def checked(change: Change) -> facts.IssueCredential:
        """The robot's row is locked: a form that is sent twice, even at once, issues one."""
        same = Event.objects.filter(aggregate=change.name, kind="robot.credential_issued", cause=by.cause)
        if once and same.exists():
            raise Refused("This token was issued and shown already. Issue another, and revoke the one that is lost.")
        return fact

    tell(robot_id, checked, by)
    return token


def revoke_credential(robot_id: str, number: int, *, by: Origin) -> None:
    """The token is worth nothing from now on; open links of the robot that used it are closed."""
    tell(robot_id, facts.RevokeCredential(number), by)


def digest_of(token: str) -> str:
    """SHA-256 of a token, in hex. A token has 256 random bits, so a plain hash suffices."""
    return hashlib.sha256(token.encode()).hexdigest()


def credential_of_token(token: str) -> RobotCredential | None:
    """The valid credential that this token belongs to, if its robot is in service."""
    return (
        RobotCredential.objects.filter(digest=digest_of(token), revoked_at=None, robot__retired_at=None)
        .select_related("robot")
        .first()
    )


def robot_of_token(token: str) -> str | None:
    """The id of the robot that may use this token."""
    credential = credential_of_token(token)
    return credential.robot_id if credential else None

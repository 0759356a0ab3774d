"""Rows of the site and its robots, the history they are folded from, and what waits to be sent.

Only `fleet.commit` writes Site, Place, Brand, Robot, Hold, RobotCredential, Person, Membership, Alert, Silence, Event,
Command and Outbox.
"""

from fleet.models.alerts import Alert, AlertMail, AlertTally, News, Severity, Silence
from fleet.models.brands import Brand, OfflinePolicy
from fleet.models.columns import no_nul, one_of
from fleet.models.commands import Command, CommandState, Delivery
from fleet.models.events import Event, Outbox
from fleet.models.people import ApiRequest, ApiToken, Membership, Person, Role, SessionRecord
from fleet.models.robots import MAX_ADDRESS, ROBOT_ID, Hold, HoldKind, Mode, Presence, Robot, RobotCredential
from fleet.models.sites import MapImage, Place, Site

__all__ = [
    "MAX_ADDRESS",
    "ROBOT_ID",
    "Alert",
    "AlertMail",
    "AlertTally",
    "ApiRequest",
    "ApiToken",
    "Brand",
    "Command",
    "CommandState",
    "Delivery",
    "Event",
    "Hold",
    "HoldKind",
    "MapImage",
    "Membership",
    "Mode",
    "News",
    "OfflinePolicy",
    "Outbox",
    "Person",
    "Place",
    "Presence",
    "Robot",
    "RobotCredential",
    "Role",
    "SessionRecord",
    "Severity",
    "Silence",
    "Site",
    "no_nul",
    "one_of",
]

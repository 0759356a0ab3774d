"""Event catalogue of sites, brands, robots and people: every column that can change has its event here."""

from django.db.models import Q

from fleet import deadlines, signals
from fleet.history import AGGREGATES, Aggregate, kind
from fleet.models import (
    Alert,
    ApiToken,
    Brand,
    Hold,
    Membership,
    Person,
    Place,
    Robot,
    RobotCredential,
    Silence,
    Site,
)

AGGREGATES["site"] = Aggregate(
    prefix="site", model=Site, children={"places": Place}, changed=signals.site_changed, site=lambda row: row.pk
)
AGGREGATES["brand"] = Aggregate(prefix="brand", model=Brand, children={}, changed=signals.brand_changed)
AGGREGATES["robot"] = Aggregate(
    prefix="robot",
    model=Robot,
    children={"holds": Hold, "credentials": RobotCredential},
    changed=signals.robot_changed,
    derive=lambda robot: setattr(robot, "next_due_at", deadlines.next_due_at(robot)),
    outside=frozenset({"digest"}),
    wanted={"holds": Q(released_at=None), "credentials": Q(revoked_at=None)},
)

_WORD = "word_session word_seq"

_ROBOT = "name site_id brand_id address profile"
kind("robot.enrolled", "Enrolled as {name}", _ROBOT)
kind("robot.edited", "Edited: {what}", f"{_ROBOT} capabilities", notes="what")
kind("robot.capabilities_told", "Says that it can {can}", "capabilities", notes="can")
kind("robot.retired", "Retired", "retired_at")
kind("robot.reinstated", "Back in service", "retired_at")
kind("robot.mode_changed", "Now {mode}", f"mode mode_since {_WORD}")
kind("robot.mode_confirmed", "Says the same mode again", _WORD)
kind("robot.presence_changed", "Link: {presence}", "presence presence_since", notes="last_received_at")
_FAULT = f"fault faults mode mode_since {_WORD}"
kind("robot.faulted", "Fault: {fault}", _FAULT, notes="danger code several", but=(("several", True, "{fault}"),))
kind("robot.warned", "Warns: {text}", f"fault faults {_WORD}", notes="code text several")
kind("robot.fault_cleared", "Over: {text}", _FAULT, notes="text several", but=(
    ("text", None, "Fault cleared"), ("several", True, "Over: {text}. Still: {fault}"),
))  # fmt: skip
kind("robot.hold_opened", "On hold, {kind_word}{until_word}: {why}", "holds.kind holds.why holds.by holds.since holds.until "
     "holds.mission holds.dispatch_no holds.asked_at holds.question stop_due_at hold_due_at", notes="kind_word why until_word")  # fmt: skip
kind("robot.hold_changed", "Hold {kind_word} until {until_word}: {why}", "holds.why holds.until hold_due_at",
     notes="kind_word until_word why")  # fmt: skip
kind("robot.hold_explained", "Reason of the hold, by {by}: {why}", "holds.why", notes="by why")
kind("robot.stop_repeated", "Stop asked for again by {by}", "holds.asked_at holds.confirmed_at holds.unconfirmed_at "
     "stop_due_at", notes="by")  # fmt: skip
kind("robot.stop_resent", "No word that it stands: told to stop again", "stop_due_at")
kind("robot.stop_unconfirmed", "Stop not confirmed; it may still be moving", "holds.unconfirmed_at stop_due_at")
kind("robot.stop_confirmed", "Stands still", f"holds.confirmed_at stop_due_at {_WORD}")
kind("robot.hold_released", "Hold released by {released_by}", "holds.released_at holds.released_by stop_due_at "
     "hold_due_at", notes="released_by")  # fmt: skip
kind("robot.credential_issued", "Credential issued: {label}", "credentials.label credentials.issued_at",
     notes="label")  # fmt: skip
kind("robot.credential_revoked", "Credential revoked: {label}", "credentials.revoked_at", notes="label")

AGGREGATES["person"] = Aggregate(
    prefix="person",
    model=Person,
    children={"memberships": Membership, "tokens": ApiToken},
    changed=signals.person_changed,
    outside=frozenset({"digest", "last_used_at"}),
)

kind("person.access_changed", "Access: {role}, {where}", "role all_sites memberships.site_id memberships.gone",
     notes="where")  # fmt: skip
kind("person.token_issued", "API token issued: {label} ({may})", "tokens.label tokens.scopes tokens.issued_at "
     "tokens.expires_at", notes="label may")  # fmt: skip
kind("person.token_revoked", "API token revoked: {label}", "tokens.revoked_at", notes="label")

AGGREGATES["alert"] = Aggregate(prefix="alert", model=Alert, children={}, changed=signals.alert_changed)

kind("alert.opened", "Alert: {text}", "cause severity subject robot_id site_id text lasts urgent opened_at")
kind("alert.said_anew", "Alert now: {text}", "text")
kind("alert.acknowledged", "Alert acknowledged by {acknowledged_by}", "acknowledged_at acknowledged_by")
kind("alert.cleared", "Alert cleared by {who}: {cleared_why}", "cleared_at cleared_by cleared_why", notes="who")

AGGREGATES["silence"] = Aggregate(prefix="silence", model=Silence, children={}, changed=signals.silence_changed)

kind(
    "silence.begun",
    "Alerts of {what} silenced until {ends}: {why}",
    "site_id robot_id why by since until",
    notes="what ends",
)
kind("silence.ended", "Alerts are heard again, says {ended_by}", "ended_at ended_by")

_PLACE = "places.name places.x places.y places.theta places.is_charger places.nodes"
_MAP = "map_x map_y map_m_per_px map_rotation"

kind("site.created", "Made: {name}", "name")
kind("site.renamed", "Named {name}, before {before}", "name", notes="before")
kind("site.place_added", "Place {place} added at {what}", _PLACE, notes="place what")
kind("site.place_edited", "Place {place} changed: {what}", _PLACE, notes="place what")
kind("site.place_removed", "Place {place} removed", "places.gone", notes="place")
kind("site.map_set", "Map of {map_width} by {map_height} pixels set",
     f"map_sha256 map_width map_height {_MAP}")  # fmt: skip
kind("site.map_placed", "Map moved: {what}", _MAP, notes="what")
kind("site.map_removed", "Map removed", "map_sha256 map_width map_height")

_BRAND = (
    "name driver profile capabilities suspect_after_s offline_after_s abandon_after_s charge_below_pct charge_until_pct accept_s "
    "accept_tries undelivered_s finish_s answer_s stop_s paused_long_s step_timeouts mission_timeout_s offline_policy "
    "strict_sequence stops_after_silence_s idle_cancel"
)
kind("brand.created", "Made: {name}", _BRAND)
kind("brand.edited", "Changed: {what}", _BRAND, notes="what")
kind("person.added", "Added as {username}", notes="username name")
kind("person.edited", "Edited: {what}", notes="what")
kind("person.deactivated", "Deactivated: signed out everywhere, cannot sign in")
kind("person.reactivated", "Active again")
kind("person.password_changed", "Password changed; other sessions ended")
kind("person.signed_in", "Signed in from {address}", notes="address device")
kind("person.sign_in_failed", "Wrong password from {address}", notes="address")
kind("person.locked_out", "Locked out from {address} after too many wrong passwords", notes="address")
kind("person.unlocked", "May try to sign in again at once")
kind("person.signed_out", "Signed out")
kind("person.session_revoked", "Session ended: {device}, {address}", notes="address device")

"""Event catalogue of missions: every column of Mission and Step that can change has its event here."""

from typing import Any

from django.db.models import Q

from fleet import signals
from fleet.history import AGGREGATES, Aggregate, kind
from fleet.models import Robot
from fleet.people.access import PATH_TO_SITE
from missions.deadlines import next_due_at
from missions.models import Dependency, LetterDecision, Mission, Step, Template
from missions.wording import ABORTED_UNCONFIRMED


def _derive(mission: Any) -> None:
    mission.next_due_at = next_due_at(mission)


AGGREGATES["mission"] = Aggregate(
    prefix="mission",
    model=Mission,
    children={"steps": Step, "dependencies": Dependency},
    changed=signals.mission_transitioned,
    state="state",
    derive=_derive,
)
AGGREGATES["letter"] = Aggregate(prefix="letter", model=LetterDecision, children={}, changed=signals.letter_changed)
AGGREGATES["template"] = Aggregate(prefix="template", model=Template, children={}, changed=signals.template_changed)

PATH_TO_SITE |= {
    "missions.mission": "site",
    "missions.step": "mission__site",
    "missions.dependency": "mission__site",
    "missions.template": "site",
    "missions.letterdecision": "site",
    # as text, because the robot may be unknown: such a letter is for those of every site
    "missions.deadletter": lambda sites: Q(robot_id__in=Robot.objects.filter(site__in=sites).values("pk")),
}

_STEPS = (
    "steps.command steps.params steps.timeout_s steps.repeatable steps.confirm steps.timeout_retries "
    "steps.failure_retries steps.timeout_then steps.failure_then"
)
_PLAN = (
    "title site_id robot_id priority timeout_s importance not_before expires_at expires_due_at needs_approval charger "
    f"offline_policy dependencies.on_id {_STEPS}"
)
_STEP_BEGINS = "current_step steps.attempt steps.started_at step_due_at"
_ASKED = "asked_at asked_for answer_due_at"
_RETRY = "retry_for retry_due_at"
_STEP_ENDS = (
    "steps.outcome steps.ended_at steps.result steps.claimed step_due_at finished_due_at step_left_s gap_due_at "
    f"{_ASKED} {_RETRY}"
)
_STOPS = f"step_left_s mission_left_s step_due_at mission_due_at finished_due_at retry_due_at gap_due_at {_ASKED}"
_GOES_ON = "step_left_s mission_left_s step_due_at mission_due_at finished_due_at retry_due_at gap_due_at"
_ENDS = (
    "ended_at stop_confirmed queued_due_at expires_due_at undelivered_due_at accepted_due_at step_due_at finished_due_at mission_due_at answer_due_at "
    "stop_due_at robot_lost_due_at paused_due_at held_due_at gap_due_at paused_at held_at robot_lost_at step_left_s mission_left_s"
)
_STOP = "abort_reason abort_detail stop_requested_at stop_requested_by stop_due_at"

# transitions
kind("mission.drafted", "Drawn up: {title}", f"{_PLAN} created_at created_by origin origin_kind template_id")
kind("mission.started", "Accepted by the robot; step 1 begins", transition="start",
     sets=f"started_at mission_due_at expires_due_at undelivered_due_at accepted_due_at delivered_at {_STEP_BEGINS} "
          f"mission_left_s step_left_s {_ASKED}", notes="inferred",
     but=(("inferred", True, "Taken as accepted: the robot is at it; step 1 begins"),))  # fmt: skip
kind("mission.step_completed", "Step {step} completed {result}", transition="complete_step",
     sets=f"{_STEP_ENDS} steps.inferred", notes="step inferred",
     but=(("inferred", True, "Step {step} taken as done: the robot went on"),))  # fmt: skip
kind("mission.step_skipped", "Step {step} skipped: {because}", transition="complete_step", sets=_STEP_ENDS,
     notes="step because")  # fmt: skip
kind("mission.step_started", "Step {step} begins", transition="next_step", sets=f"{_STEP_BEGINS} step_left_s")
kind("mission.succeeded", "Finished by the robot", transition="succeed", sets=f"{_ENDS} {_ASKED} {_RETRY}",
     notes="inferred", but=(("inferred", True, "Taken as finished: so the robot says, asked"),))  # fmt: skip
kind("mission.aborted", "Aborted: {abort_reason} ({abort_detail})", transition="abort",
     but=(("stop_confirmed", False, f"{ABORTED_UNCONFIRMED}: {{abort_reason}} ({{abort_detail}})"),),
     sets=f"{_ENDS} {_ASKED} {_RETRY} abort_reason abort_detail")  # fmt: skip

# facts beside the state
kind(
    "mission.edited", "Edited", f"{_PLAN} approved_by approved_at queued_at queued_due_at steps.gone dependencies.gone"
)
kind("mission.approved", "Approved by {approved_by}", "approved_by approved_at")
kind("mission.queued", "Asked to run", "queued_at queued_due_at")
kind("mission.withdrawn", "Taken out of the queue", "queued_at queued_due_at")
kind("mission.priority_set", "Priority is now {priority}", "priority")
kind("mission.robot_chosen", "Chosen: {because}", "robot_id", notes="because refused")
kind("mission.waits_long", "Still waiting: {because}", "queued_due_at", notes="because")
kind("mission.expired", "Not started in time", "expires_due_at")
kind("mission.dependency_failed", "“{title}”, which it depends on, did not succeed", notes="title on")
kind(
    "mission.dispatched",
    "Dispatched to {robot}",
    "dispatch_no dispatched_at queued_due_at undelivered_due_at accept_tries timings",
    notes="robot",
)
kind("mission.delivered", "The robot has the assignment", "delivered_at undelivered_due_at accepted_due_at")
kind("mission.undelivered", "Assignment not delivered yet; the link is down or the robot does not answer",
     f"undelivered_due_at untaken_looks {_ASKED}")  # fmt: skip
kind("mission.accept_waits", "No answer to the assignment; the robot is not online, or stopped", "accepted_due_at")
kind("mission.accept_timeout", "No answer to the assignment; sent again (try {accept_tries})",
     f"accepted_due_at accept_tries {_ASKED}")  # fmt: skip
kind("mission.step_timeout", "Step {step} took too long", f"step_due_at {_ASKED}", notes="step")
kind("mission.finish_timeout", "All steps done, but no word that it has finished", f"finished_due_at {_ASKED}")
kind("mission.timeout", "The mission took too long", f"mission_due_at {_ASKED}")
kind("mission.idle_reported", "The robot says that it is idle; asked about this mission", _ASKED)
kind("mission.receipt_missing", "No word of step {step}, although later ones came", "gap_due_at", notes="step")
kind(
    "mission.receipt_asked", "Asked about step {step}, of which only the robot's own word counts", _ASKED, notes="step"
)
kind("mission.answered", "The robot says: {says}", f"{_ASKED} finished_due_at accepted_due_at", notes="says")
kind("mission.retry_planned", "Step {step} will be tried again: {because}",
     f"steps.failed_attempts steps.result steps.claimed step_due_at step_left_s gap_due_at {_ASKED} {_RETRY}",
     notes="step because")  # fmt: skip
kind("mission.step_retried", "Step {step} is tried again, attempt {attempt}",
     f"steps.attempt steps.started_at step_due_at step_left_s {_RETRY}", notes="step because")  # fmt: skip
kind("mission.step_failed", "Step {step} failed: {result}",
     _STEP_ENDS, notes="step")  # fmt: skip
kind("mission.receipt_early", "Came before its turn: {says}",
     "steps.claimed steps.result finish_claimed_at gap_due_at", notes="says")  # fmt: skip
kind("mission.pause_requested", "Pause asked for by {by}", notes="by")
kind("mission.resume_requested", "Resume asked for by {by}", notes="by")
kind("mission.paused", "Paused by the robot", f"paused_at paused_due_at word_session word_seq {_STOPS}")
kind("mission.resumed", "Resumed by the robot", f"paused_at paused_due_at word_session word_seq {_GOES_ON}")
kind("mission.paused_long", "Still paused", "paused_due_at")
kind("mission.held", "Its robot is stopped: its clocks stand still", f"held_at held_due_at {_STOPS}")
kind("mission.released", "Its robot is released", f"held_at held_due_at {_GOES_ON}")
kind("mission.held_long", "Its robot is still stopped", "held_due_at")
kind("mission.stop_requested", "Stopping: {abort_reason} ({abort_detail})",
     f"{_STOP} expires_due_at undelivered_due_at accepted_due_at step_due_at mission_due_at finished_due_at robot_lost_due_at "
     f"gap_due_at {_ASKED} {_RETRY}")  # fmt: skip
kind("mission.stop_resent", "Stop sent again", "stop_due_at")
kind("mission.robot_lost", "The robot went offline", f"robot_lost_at robot_lost_due_at {_STOPS}")
kind("mission.robot_lost_timeout", "The robot stayed offline too long: {then}", "robot_lost_due_at", notes="then")
kind("mission.robot_back", "The robot is back", f"robot_lost_at robot_lost_due_at {_GOES_ON}")
kind("mission.hand_over_proposed", "Another robot could go on with it, if a person says so: {why}", notes="why")
kind("mission.hand_over_decided", "To be handed over, says {by}", "hand_over_at", notes="by")
kind("mission.handed_over", "Another mission goes on with it", "handed_over_to", notes="steps_left")
kind("mission.hand_over_dropped", "Not handed over: {why}", "hand_over_at abort_reason abort_detail", notes="why")
kind("mission.dependency_moved", "Comes after “{title}” instead, which goes on with what it came after",
     "dependencies.on_id", notes="title")  # fmt: skip
kind("mission.stop_confirmed_late", "The robot says, after all, that it has stopped", "stop_confirmed", notes="says")
kind("mission.late_receipt", "Too late to count: {says}", notes="says")

# templates
_TEMPLATE = "name site_id title steps parameters priority importance timeout_s needs_approval"
kind("template.drafted", "Drawn up: {name}", f"{_TEMPLATE} created_at created_by")
kind("template.edited", "Edited", _TEMPLATE)
kind("template.retired", "Taken out of use", "retired_at")

# dead letters
_LETTER = "site_id direction robot_id msg_id what"
kind("letter.requeued", "Requeued: {what} of {robot_id}", f"{_LETTER} requeues requeued_at requeued_by")
kind("letter.discarded", "Discarded, {what} of {robot_id}: {discarded_why}",
     f"{_LETTER} discarded_at discarded_by discarded_why")  # fmt: skip

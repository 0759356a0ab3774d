"""How a mission's state is said: shape, word and token; "Aborted, stop not confirmed" is never plain "Aborted"."""

from typing import Any

from fleet.wording import Said
from missions.models import FINAL, AbortReason, State


def mission_said(mission: Any) -> Said:
    """The one thing to say about it now. Reads columns only."""
    if mission.state == State.SUCCESS:
        return Said("✓", "Success", "ok")
    if mission.state == State.ABORTED:
        if mission.stop_confirmed is False:
            return Said("◆", "Aborted, stop not confirmed", "bad")
        return Said("╳", f"Aborted: {AbortReason(mission.abort_reason).label.lower()}", "off")
    if mission.stop_requested_at:
        return Said("◌", "Stopping…", "info")
    if mission.paused_at:
        return Said("❚❚", "Paused", "ok")
    if mission.state == State.PENDING:
        return Said("◌", "Dispatching…", "info") if mission.dispatched_at else Said("○", "Pending", "ok")
    return Said("▶", State(mission.state).label, "ok")


def is_open(mission: Any) -> bool:
    return mission.state not in FINAL

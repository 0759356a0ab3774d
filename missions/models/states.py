"""States of a mission, and the conditions on its row that are made of them."""

from django.db import models
from django.db.models import Q


class State(models.TextChoices):
    PENDING = "pending", "Pending"
    EXECUTING = "executing", "Executing"
    STEP_COMPLETED = "step_completed", "Step completed"
    SUCCESS = "success", "Success"
    ABORTED = "aborted", "Aborted"


FINAL = (State.SUCCESS, State.ABORTED)
OPEN = (State.PENDING, State.EXECUTING, State.STEP_COMPLETED)
RUNNING = Q(dispatched_at__isnull=False, state__in=OPEN)  # a robot has it, or is about to
QUEUED = Q(state=State.PENDING, queued_at__isnull=False, dispatched_at=None)
# the same as SQL over a row of that name, for statements that are written by hand
OPEN_SQL = "{0}.state IN (" + ", ".join(f"'{state}'" for state in OPEN) + ")"
RUNNING_SQL = "{0}.dispatched_at IS NOT NULL AND " + OPEN_SQL
WAITING_SQL = (
    "{0}.state = '" + str(State.PENDING) + "' AND {0}.dispatched_at IS NULL"
)  # queued, or not asked to run yet
QUEUED_SQL = WAITING_SQL + " AND {0}.queued_at IS NOT NULL"

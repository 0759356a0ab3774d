"""Open alerts as the page's bell shows them: one query for all viewers, narrowed per view in memory."""

from datetime import datetime
from typing import Any

import msgspec
from django.utils import timezone

from fleet.alerts.heard import RANK, heard
from fleet.models import Severity
from telemetry.live.words import moment

SHOWN = 50  # in the panel; Admin has all
SHAPES = {Severity.CRITICAL: ("bad", "bad"), Severity.WARNING: ("warn", "warn"), Severity.INFO: ("idle", "ok")}


class AlertRow(msgspec.Struct):
    """An open alert that nothing silences. `site` is null for Drover itself: those of every site hear of it."""

    id: int
    site: int | None
    severity: str
    text: str
    opened_at: datetime
    acknowledged_by: str
    count: int

    def seen_in(self, view: frozenset[int] | None) -> bool:
        return view is None or self.site in view

    @property
    def rank(self) -> tuple[Any, ...]:
        return (bool(self.acknowledged_by), RANK[Severity(self.severity)], -self.id)


def load() -> list[AlertRow]:
    """The worst first; what somebody has acknowledged comes last."""
    rows = heard(timezone.now()).order_by("pk").values_list(
        "pk", "site_id", "severity", "text", "opened_at", "acknowledged_by", "count"
    )  # fmt: skip
    return sorted((AlertRow(*row) for row in rows), key=lambda row: row.rank)


def bell(rows: list[AlertRow]) -> dict[str, Any]:
    """How many nobody has acknowledged, and how bad the worst of them is."""
    new = [row for row in rows if not row.acknowledged_by]
    tone = SHAPES[Severity(new[0].severity)][1] if new else "ok"
    word = f"{len(new)} alert{'' if len(new) == 1 else 's'} that nobody has acknowledged" if new else "No new alert"
    return {"count": len(new), "tone": tone, "word": word}


def lines(rows: list[AlertRow]) -> list[dict[str, Any]]:
    return [
        {
            "id": row.id, "shape": SHAPES[Severity(row.severity)][0], "tone": SHAPES[Severity(row.severity)][1],
            "word": Severity(row.severity).label, "text": row.text, "since": moment(row.opened_at), "by": row.acknowledged_by,
            "count": row.count if row.count > 1 else 0,
        }
        for row in rows[:SHOWN]
    ]  # fmt: skip

"""From the alerts that a transaction raises and clears to changes of their rows, for commit to write.

The tally is where two that raise the same cause at once meet: one opens the alert, the other counts.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db import connection, transaction

from fleet import rows, signals
from fleet.alerts.rules import Effects, Raise, effects
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Alert, AlertTally

_TALLY = AlertTally._meta.db_table
_OPEN = f"SELECT cause FROM {Alert._meta.db_table} WHERE cleared_at IS NULL AND cause = ANY(%s::text[])"
_IDS = f"SELECT nextval(pg_get_serial_sequence('{Alert._meta.db_table}', 'id')) FROM generate_series(1, %s)"
_COUNT = (
    f"INSERT INTO {_TALLY} AS t (alert_id, cause, open, count, last_at, mail_opened, mail_cleared)"
    " SELECT k.id, k.cause, TRUE, k.times, %s, FALSE, FALSE"
    " FROM unnest(%s::bigint[], %s::text[], %s::int[]) AS k(id, cause, times)"
    " ON CONFLICT (cause) WHERE open"
    " DO UPDATE SET count = t.count + EXCLUDED.count, last_at = greatest(t.last_at, EXCLUDED.last_at)"
    " RETURNING alert_id, cause"
)


def changes_of(changes: Iterable[Change], now: datetime) -> list[Change]:
    """Alerts that open or clear by these changes' events. Inside the caller's transaction; no query when there are none."""
    found = effects(changes)
    return settle(found, now) if found.clears or found.raises or found.says_anew else []


def settle(found: Effects, now: datetime, *, origin: Origin | None = None) -> list[Change]:
    """Count what is open already; the rest as changes to be committed."""
    anew = _said_anew(found.says_anew, now, origin)
    return [*_cleared(found.clears, now, origin), *anew, *_opened(found.raises, now, origin)]


def _origin(cause: Change | None, given: Origin | None) -> Origin:
    """An alert follows from its event: the same cause and trace."""
    if given is not None or cause is None:
        return given or Origin("policy", actor_name="policy")
    who = cause.origin
    return Origin("policy", actor_name="policy", cause=who.cause, trace_id=who.trace_id, span_id=who.span_id)


def _cleared(clears: dict[str, Change | None], now: datetime, given: Origin | None) -> list[Change]:
    if not clears:
        return []
    with connection.wrap_database_errors:
        causes = [cause for (cause,) in rows.ask(_OPEN, [rows.array(clears)]).fetchall()]
    if not causes:
        return []
    found = Alert.objects.filter(cause__in=causes, cleared_at=None).order_by("pk").select_for_update(no_key=True)
    return [cleared(row, now, _origin(clears[row.cause], given)) for row in found]


def _said_anew(told: dict[str, tuple[str, Change]], now: datetime, given: Origin | None) -> list[Change]:
    """Open alerts of these causes whose text is another now."""
    open_ = Alert.objects.filter(cause__in=told, cleared_at=None).order_by("pk").select_for_update(no_key=True)
    found = []
    for row in open_ if told else ():
        text, cause = told[row.cause]
        if row.text != text:
            change = Change(AGGREGATES["alert"], row, {}, _origin(cause, given), now)
            change.record("alert.said_anew", text=text)
            found.append(change)
    return found


def cleared(row: Alert, now: datetime, origin: Origin, *, by: str = "", why: str = "its condition is gone") -> Change:
    """The end of an alert, as a change; from here on the same cause opens another."""
    change = Change(AGGREGATES["alert"], row, {}, origin, now)
    change.record("alert.cleared", cleared_at=now, cleared_by=by, cleared_why=why, who=by or "Drover")
    AlertTally.objects.filter(pk=row.pk).update(open=False)
    return change


def _opened(raises: dict[str, Raise], now: datetime, given: Origin | None) -> list[Change]:
    if not raises:
        return []
    wanted = [raises[cause] for cause in sorted(raises)]  # two transactions meet in the same order
    with connection.wrap_database_errors, rows.Cursor() as cursor:
        cursor.execute(_IDS, [len(wanted)])
        ids = {raised.cause: pk for raised, (pk,) in zip(wanted, cursor.fetchall(), strict=True)}
        cursor.execute(_COUNT, [now, list(ids.values()), list(ids), [raised.times for raised in wanted]])
        tallied = {cause: pk for pk, cause in cursor.fetchall()}
    if counted := [pk for cause, pk in tallied.items() if pk != ids[cause]]:
        transaction.on_commit(lambda: _announce(counted))
    return [
        _open(raised, ids[raised.cause], now, given) for raised in wanted if tallied[raised.cause] == ids[raised.cause]
    ]


def _open(raised: Raise, pk: int, now: datetime, given: Origin | None) -> Change:
    change = Change(AGGREGATES["alert"], Alert(pk=pk), {}, _origin(raised.change, given), now)
    change.record(
        "alert.opened", cause=raised.cause, severity=raised.severity, subject=raised.subject, robot_id=raised.robot_id,
        site_id=raised.site_id, text=raised.text, lasts=raised.lasts, urgent=raised.urgent, opened_at=now,
    )  # fmt: skip
    return change


def _announce(counted: list[int]) -> None:
    signals.alert_changed.send(sender=Alert, changes=[], counted=counted)

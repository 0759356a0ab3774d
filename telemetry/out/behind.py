"""How far groups are behind the events, for the alert and the figures."""

from django.db import connection

BEHIND_S = 300.0  # then somebody is told
WHAT = {  # group → what is late, in words
    "statistics": "Statistics are not counted",
    "e-mail": "E-mail about alerts is not sent",
    "webhooks": "Webhooks are not told of events",
}

# age of the oldest event that a group has not had, by group, whether or not it ever began
AGES = (
    "SELECT g.name, coalesce((SELECT extract(epoch FROM clock_timestamp() - e.recorded_at)::float FROM fleet_event e"
    " WHERE e.id > coalesce(f.position, 0) ORDER BY e.id LIMIT 1), 0)"
    f" FROM unnest(ARRAY[{', '.join(repr(name) for name in WHAT)}]) AS g(name) LEFT JOIN telemetry_follower f USING (name)"
)


def ages() -> dict[str, float]:
    """Group → age of the oldest event that it has not had, s; 0 when there is none."""
    with connection.cursor() as cursor:
        cursor.execute(AGES)
        return dict(cursor.fetchall())


def groups_behind() -> dict[str, str]:
    """Group → a sentence that says what is late, since when, and what to do."""
    return {
        name: f"{WHAT[name]}: {age / 60:.0f} min behind. See that `manage.py followers` runs; nothing is lost"
        for name, age in ages().items()
        if age > BEHIND_S
    }

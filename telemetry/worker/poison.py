"""How often a message was tried in vain: counted here by ourselves, for delivery counts rise with every re-read."""

from django.db import connection, transaction

from telemetry.models import FailedTry
from telemetry.partitions import hold
from telemetry.stream import Entry

TRIES = 5  # failed tries that a message may have; with one more it is a dead letter


def reason(error: Exception) -> str:
    """The error in words that PostgreSQL can hold."""
    return f"{type(error).__name__}: {error}".replace("\0", "\N{REPLACEMENT CHARACTER}")


def count(partition: int, fence: int, entry: Entry, error: Exception) -> int:
    """Remember one more failed try, in a transaction of its own; how many there were."""
    with transaction.atomic():
        hold(partition, fence)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO telemetry_failedtry AS f (partition, entry, tries, error) VALUES (%s, %s, 1, %s)"
                " ON CONFLICT (partition, entry) DO UPDATE SET tries = f.tries + 1, error = EXCLUDED.error"
                " RETURNING tries",
                [partition, entry.id, reason(error)],
            )
            return int(cursor.fetchone()[0])


def forget(partition: int) -> None:
    """Nothing is pending any more: all that was tried is applied or a dead letter."""
    FailedTry.objects.filter(partition=partition).delete()

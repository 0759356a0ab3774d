"""After a restore: what robots keep is heard again, and no number of a session comes twice.

A restore begins a new generation. Robots may still hold messages of sessions that were opened after the backup, so the
next sessions lie a whole span above; and what the site told them as applied after the backup they have dropped, so in
sessions of earlier generations a gap is no reason to wait (`telemetry.watermarks`).
"""

from typing import Any

import redis
from django.conf import settings

SPAN = 1_000_000  # sessions of one generation; nobody says hello that often between a backup and its restore

# every robot: also one that says hello for the first time may have done so after the backup
_BEGIN = f"""
INSERT INTO telemetry_link (robot_id, session, gateway, opened_at)
SELECT r.id, {SPAN} + (SELECT coalesce(max(session), 0) FROM telemetry_link), '', NULL FROM fleet_robot r
ON CONFLICT (robot_id) DO UPDATE SET session = telemetry_link.session + {SPAN}, gateway = '', opened_at = NULL
"""

STREAMS = ("in:{*}", "seen:{*}:*", "out")  # of the durable Redis: what robots said, its marks, what was passed on


def begin(cursor: Any) -> None:
    """Sessions go on a span above the restored ones; every robot has to say hello anew."""
    cursor.execute(_BEGIN)


def streams_left() -> int:
    """How many of our keys the durable Redis holds. Raises `redis.RedisError`."""
    with _client() as client:
        return sum(1 for pattern in STREAMS for _ in client.scan_iter(pattern, count=1000))


def forget_streams() -> int:
    """Empty the durable Redis of what is ours: marks of messages that the restored database never saw would keep
    robots' repetitions out. How many keys went. Raises `redis.RedisError`."""
    gone = 0
    with _client() as client:
        for pattern in STREAMS:
            for name in client.scan_iter(pattern, count=1000):
                gone += client.unlink(name)
    return gone


def _client() -> redis.Redis:
    return redis.from_url(settings.REDIS_URL, socket_timeout=10, socket_connect_timeout=2)

"""What a measurement stands on: a site with robots that are online, tables that are already large, fresh statistics."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import redis.asyncio
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from fleet import triggers
from fleet.brands.actions import create_brand
from fleet.history import Origin
from fleet.models import Site
from fleet.robots import actions as fleet_actions
from fleet.sites.actions import add_place, create_site
from missions.ledger import Ledger
from telemetry import snapshots, stream, translate

PLACE = "Dock A"
BY = Origin("system", actor_name="bench")


def fleet_of(count: int, *, maker: str = "", **columns: Any) -> tuple[Site, list[str]]:
    """`columns` of the brand; with a `maker` each robot has an address."""
    site = create_site("Bench hall", by=BY)
    add_place(site, name=PLACE, x=1, y=2, by=BY)
    silent = {"suspect_after_s": 86_400, "offline_after_s": 86_400}  # they say nothing but receipts
    brand = create_brand("Bench", capabilities=["navigate"], **silent, **columns, by=BY)
    robots = [f"B-{n:03}" for n in range(count)]
    for robot in robots:
        address = f"{maker}/{robot}" if maker else ""
        fleet_actions.enrol_robot(id=robot, name=robot, site=site, brand=brand, address=address, by=BY)
    now = timezone.now()
    with transaction.atomic():
        ledger = Ledger.open(robots, now=now)
        for robot in robots:
            translate.presence(ledger, robot, "online", now, now)
        ledger.commit()
    asyncio.run(alive(robots))
    return site, robots


async def alive(robots: list[str]) -> None:
    """They gave a sign of life just now."""
    client = redis.asyncio.from_url(settings.LIVE_REDIS_URL)
    for robot in robots:
        await snapshots.touch(client, robot, datetime.now(UTC))
    await client.aclose()


def preload(count: int) -> None:
    """History of missions long past, and their messages, so that indexes are as deep as in earnest."""
    triggers.drop()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fleet_event (aggregate, seq, kind, schema, data, state_from, state_to, actor_kind, actor_id,"
            " actor_name, cause, trace_id, span_id, occurred_at, recorded_at, prev_hash, hash)"
            " SELECT 'mission:' || md5((n / 20)::text)::uuid, n %% 20 + 1, 'mission.late_receipt', 1,"
            " '{\"says\": \"' || repeat('x', 100) || '\"}', 'success', 'success', 'robot', 'B-' || n %% 200, 'Robot',"
            " 'message:' || md5(n::text), '', '', now(), now(), sha256(n::text::bytea), sha256(n::text::bytea)"
            " FROM generate_series(0, %s) AS n",
            [count - 1],
        )
        cursor.execute(
            "INSERT INTO telemetry_processedmessage (robot_id, msg_id, session, seq, verdict, received_at, applied_at)"
            " SELECT 'B-' || n %% 200, md5('m' || n)::uuid, 0, n, 'applied', now(), now() FROM generate_series(1, %s) AS n",
            [count],
        )
        cursor.execute(
            "INSERT INTO bench_plainevent (mission, seq, kind, data, state_from, state_to, actor, cause, occurred_at, recorded_at)"
            " SELECT md5((n / 20)::text)::uuid, n %% 20 + 1, 'x', '{}', 'success', 'success', 'robot', md5(n::text), now(), now()"
            " FROM generate_series(0, %s) AS n",
            [count - 1],
        )
        cursor.execute(
            "INSERT INTO bench_plainmessage (robot_id, msg_id) SELECT 'B-' || n %% 200, md5('m' || n)::uuid"
            " FROM generate_series(1, %s) AS n",
            [count],
        )
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
    triggers.create()


def analyse() -> None:
    """As autovacuum does in time; the tables of a bench grow from nothing within seconds."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def stores_in_words() -> dict[str, Any]:
    """Versions, and whether what they say is stored is on disk."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
        )
        version, fsync, commit = cursor.fetchone()
    streams = stream.Streams(settings.REDIS_URL)
    info = streams.redis.info("server")
    append = streams.redis.config_get("appendfsync")["appendfsync"]
    streams.close()
    redis_version = info.get("valkey_version") or info["redis_version"]
    return {
        "postgresql": f"{version} fsync {fsync} synchronous_commit {commit}",
        "valkey": f"{redis_version} appendfsync {append}",
    }

"""The hub's ear: a subscription to dirty signals that knows when it is deaf."""

import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec
import redis.asyncio

from telemetry import snapshots
from telemetry.uncut import uncut

log = logging.getLogger(__name__)
SILENT_S = 6.0  # a link without a word for so long, not even a pong, is given up


async def listen(url: str, linked: Callable[[], None], hear: Callable[[list[Any]], None]) -> None:
    """Listen until the link is lost, then return. `linked` is called when the subscription is confirmed, `hear` per message."""
    client = redis.asyncio.Redis.from_url(url, socket_timeout=SILENT_S, socket_connect_timeout=1, retry=None)
    try:
        async with client.pubsub() as channel:
            await uncut(channel.subscribe(snapshots.DIRTY))
            heard = time.monotonic()
            while time.monotonic() - heard < SILENT_S:
                message = await channel.get_message(timeout=SILENT_S / 3)
                if message is None:
                    await channel.ping()
                    continue
                heard = time.monotonic()
                if message["type"] == "subscribe":
                    linked()
                elif message["type"] == "message":
                    _decode(message["data"], hear)
    except (redis.RedisError, OSError) as error:
        log.debug("lost the live Redis: %s", error)
    finally:
        await client.aclose()


def _decode(data: bytes, hear: Callable[[list[Any]], None]) -> None:
    try:
        hear(msgspec.json.decode(data))
    except (msgspec.MsgspecError, TypeError, ValueError):
        log.warning("not a dirty signal: %.80r", data)

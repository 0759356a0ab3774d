"""Work that must not be cut short: redis-py leaks a connection that is cancelled while it connects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def uncut(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Await it to its end, also when cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise

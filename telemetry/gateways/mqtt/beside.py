"""Work that waits, in a thread that nobody waits for, also not when the process ends."""

import asyncio
import threading
from collections.abc import Callable


async def beside(work: Callable[[], None], abandon: Callable[[], None]) -> None:
    """Its end is awaited; `abandon` is called instead when that was cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.cancelled():
            abandon()
        elif error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:  # raised again where it is waited for
            error = raised
        try:
            loop.call_soon_threadsafe(settle, error)
        except RuntimeError:  # the loop is no more
            abandon()

    threading.Thread(target=run, name="beside", daemon=True).start()
    await done

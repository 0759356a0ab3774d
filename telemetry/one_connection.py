"""PostgreSQL for code that runs in an event loop: one thread, with one database connection of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, connections

from fleet.web import pool

Answer = TypeVar("Answer")


class OneConnection:
    """Asked one question after the other, each in the thread; renewed after an error."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def ask(self, question: Callable[..., Answer], *args: Any) -> Answer:
        """Raises `django.db.Error` when the database does not answer; the next question tries anew."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _with_connection, question, args)

    def close(self) -> None:
        """Let the connection go, once the question under way is answered. Does not wait, so nothing can cut it short."""
        self._thread.submit(connections.close_all)
        self._thread.shutdown(wait=False)


def _with_connection(question: Callable[..., Answer], args: tuple[Any, ...]) -> Answer:
    pool.own()  # what serves robots and live pages waits for no request
    close_old_connections()
    try:
        return question(*args)
    except DatabaseError:  # also where it is no outage: a plan that a migration made void goes with its connection
        connection.close()
        raise

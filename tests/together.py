"""Calls of one moment: each in a thread with a database connection of its own, none before all are there."""

import threading
from collections.abc import Callable
from typing import Any

from django.db import connections


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What came of each, in their order: what it returned, or the exception that it raised."""
    start = threading.Barrier(len(calls), timeout=10)
    results: list[Any] = [None] * len(calls)

    def run(index: int, call: Callable[[], Any]) -> None:
        try:
            start.wait()
            results[index] = call()
        except Exception as error:
            results[index] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads), "one of them does not end"
    return results

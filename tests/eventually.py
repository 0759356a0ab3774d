"""The one way for a test to wait for something real. Only tests/run, tests/chaos and tests/browser may."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

What = str | Callable[[], str]  # what is waited for in words; what stands there in the end only a function can tell

EVERY_S = 0.05
PATIENCE_S = 60.0  # not how long it may take, but when to give up: other tests want the machine as well


def eventually(predicate: Callable[[], Any], timeout_s: float = PATIENCE_S, what: What = "") -> Any:
    """Ask until the answer is true, and return it. An exception is a "not yet"; the last one explains a failure."""
    ends = time.monotonic() + timeout_s
    while True:
        reason: Exception | None = None
        try:
            if answer := predicate():
                return answer
        except Exception as exc:
            reason = exc
        if time.monotonic() > ends:
            raise AssertionError(_failure(predicate, timeout_s, what, reason)) from reason
        time.sleep(EVERY_S)


async def eventually_async(predicate: Callable[[], Any], timeout_s: float = PATIENCE_S, what: What = "") -> Any:
    """The same inside an event loop; the predicate may be a coroutine function."""
    ends = time.monotonic() + timeout_s
    while True:
        reason: Exception | None = None
        try:
            answer = predicate()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return answer
        except Exception as exc:
            reason = exc
        if time.monotonic() > ends:
            raise AssertionError(_failure(predicate, timeout_s, what, reason)) from reason
        await asyncio.sleep(EVERY_S)


def _failure(predicate: Callable[[], Any], timeout_s: float, what: What, reason: Exception | None) -> str:
    words = (what() if callable(what) else what) or getattr(predicate, "__name__", "it")
    return f"{words} did not become true within {timeout_s:g} s" + (f": {reason!r}" if reason else "")

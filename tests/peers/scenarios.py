"""Stories of foreign robots, told side by side: each has a robot of its own, all share one site.

A story is a generator: it acts, then yields what it waits for, as ("in words", predicate) or ("in words", predicate,
seconds). `play` goes round all of them until each has ended, so that a robot which is frozen for half a minute keeps no
other waiting.
"""

import time
from collections.abc import Callable, Generator
from typing import Any

from django.db import connection

Wait = tuple[str, Callable[[], Any]] | tuple[str, Callable[[], Any], float]
Story = Generator[Wait, None, None]

PATIENCE_S = 60.0  # other tests want the machine as well
ROUND_S = 0.1


def play(stories: dict[str, Story]) -> dict[str, str]:
    """Tell them all. What went wrong, by the name of the story: empty when all ended well."""
    wrong: dict[str, str] = {}
    waits: dict[str, tuple[str, Callable[[], Any], float]] = {}
    for name in list(stories):
        _go_on(name, stories, waits, wrong)
    while waits:
        time.sleep(ROUND_S)
        connection.close()  # each look sees what is there now
        for name, (what, predicate, until) in list(waits.items()):
            try:
                done, reason = bool(predicate()), ""
            except Exception as error:
                done, reason = False, f" ({error!r})"
            if done:
                del waits[name]
                _go_on(name, stories, waits, wrong)
            elif time.monotonic() > until:
                del waits[name]
                wrong[name] = f"in vain it waited for: {what}{reason}"
    return wrong


def _go_on(name: str, stories: dict[str, Story], waits: dict[str, Any], wrong: dict[str, str]) -> None:
    try:
        what, predicate, *patience = next(stories[name])
    except StopIteration:
        return
    except Exception as error:
        wrong[name] = repr(error)
        return
    waits[name] = (what, predicate, time.monotonic() + (patience[0] if patience else PATIENCE_S))

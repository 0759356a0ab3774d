"""One readable log: a line per line that a process prints, behind its name; colour only on a terminal.

With LOG_FORMAT=json each line is an object instead, whoever printed it. A thread writes, so that a reader that stops
reading holds up nothing; lines beyond the buffer are dropped.
"""

import itertools
import os
import queue
import re
import sys
import threading
import time

from fleet import logs

_COLOURS = (36, 32, 35, 33, 34, 96, 92, 95)  # red is for what the supervisor itself has to say
_CONTROL = re.compile(r"\x1b\[[0-9;]*m|[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # nothing a robot sends drives the terminal
WIDTH = 10


class Console:
    """Writes to a file descriptor."""

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self.is_json = logs.is_json()
        self._colour = os.isatty(fd) and "NO_COLOR" not in os.environ
        self._next = itertools.cycle(_COLOURS)
        self._colours: dict[str, int] = {}
        self._queue: queue.Queue[bytes | None] = queue.Queue(maxsize=20_000)
        self._thread = threading.Thread(target=self._write, name="console", daemon=True)
        self._thread.start()

    def line(self, name: str, text: str) -> None:
        """What a process printed."""
        if self.is_json:
            self._queue_bytes(f"{logs.of_program(name, text)}\n".encode(errors="replace"))
            return
        if name not in self._colours:
            self._colours[name] = next(self._next)
        self._put(name, text, self._colours[name])

    def say(self, text: str) -> None:
        """What the supervisor has to say."""
        if self.is_json:
            self.line("drover", text)
        else:
            self._put("drover", text, 1)

    def plain(self, text: str) -> None:
        """Lines as they are, without a prefix."""
        self._queue_bytes((text + "\n").encode())

    def close(self, timeout_s: float = 0.5) -> None:
        """Write what is waiting, as far as the reader takes it."""
        self._queue_bytes(None)
        self._thread.join(timeout_s)

    def _put(self, name: str, text: str, colour: int) -> None:
        label = f"{time.strftime('%H:%M:%S')} {name:<{WIDTH}}"
        if self._colour:
            label = f"\x1b[{colour}m{label}\x1b[0m"
        self._queue_bytes(f"{label} {_CONTROL.sub('', text)}\n".encode(errors="replace"))

    def _queue_bytes(self, item: bytes | None) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            return

    def _write(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                while item:
                    item = item[os.write(self._fd, item) :]
            except OSError:  # the reader went away: go on without a log
                self._fd = os.open(os.devnull, os.O_WRONLY)


def complain(text: str) -> None:
    """One line on stderr for what went wrong and what to do."""
    sys.stderr.write(f"{logs.last_words(text)}\n")
    sys.stderr.flush()

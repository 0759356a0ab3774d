"""A worker process for tests: as `manage.py worker`, but it kills or freezes itself at a hook.

Argument: JSON with `die_at` (a hook of the worker's, `before_apply` which comes before a batch's transaction, or ""),
`after` (which call of it), `how` (the signal, SIGKILL if it is not said), `grace_s`, `note` (file that gets the time,
partitions and fences of that moment), `figures` (file that gets the longest transaction so far in s, the CPU time in it, and
the memory in kB before the first), `set` (module constants to change, {"module.NAME": value}).
"""

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import django

django.setup()

from django.db.backends.signals import connection_created  # noqa: E402
from django.db.transaction import Atomic  # noqa: E402

from telemetry.worker import batch  # noqa: E402
from telemetry.worker.loop import Worker  # noqa: E402
from telemetry.worker.process import prepare  # noqa: E402

options = json.loads(sys.argv[1])
for name, value in options.get("set", {}).items():
    module, _, constant = name.rpartition(".")
    setattr(importlib.import_module(module), constant, value)

calls = 0


def die(where: str) -> None:
    global calls
    if where != options["die_at"]:
        return
    calls += 1
    if calls != options["after"]:
        return
    with open(options["note"], "a") as note:  # noqa: PTH123
        note.write(json.dumps({"at": time.time(), "where": where, "partitions": worker.fences}) + "\n")
    os.kill(os.getpid(), signal.Signals[options.get("how", "SIGKILL")])


def apply(*args, **kwargs):
    die("before_apply")
    return really_apply(*args, **kwargs)


really_apply, batch.apply = batch.apply, apply


def measure(path: str) -> None:
    """Time every outermost transaction from here on."""
    figures = {
        "rss_kb": int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]),
        "longest_s": 0.0,
        "cpu_s": 0.0,
    }
    began = []
    enter, leave = Atomic.__enter__, Atomic.__exit__

    def timed_enter(self):
        began.append((time.perf_counter(), time.thread_time()))
        return enter(self)

    def timed_leave(self, *error):
        try:
            return leave(self, *error)
        finally:
            at, cpu = began.pop()
            took = time.perf_counter() - at
            if not began and took > figures["longest_s"]:
                figures.update(longest_s=took, cpu_s=time.thread_time() - cpu)
                Path(path).write_text(json.dumps(figures))

    Atomic.__enter__, Atomic.__exit__ = timed_enter, timed_leave
    Path(path).write_text(json.dumps(figures))


connection_created.connect(prepare)
worker = Worker(hook=die, grace_s=options["grace_s"])
if options.get("figures"):
    measure(options["figures"])
signal.signal(signal.SIGTERM, lambda *_: worker.stopping.set())
worker.run()

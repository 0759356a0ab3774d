"""A worker process for tests: as `manage.py worker`, but it kills itself with SIGKILL at a hook.

Argument: JSON with `die_at` (hook, or ""), `after` (which call of it), `grace_s`, `note` (file that gets the time and
the partitions at death), `set` (module constants to change, {"module.NAME": value}).
"""

import importlib
import json
import os
import signal
import sys
import time

import django

django.setup()

from django.db.backends.signals import connection_created  # noqa: E402

from telemetry.worker import Worker, prepare  # noqa: E402

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
    if calls < options["after"]:
        return
    with open(options["note"], "a") as note:  # noqa: PTH123
        note.write(json.dumps({"at": time.time(), "where": where, "partitions": [*worker.fences]}) + "\n")
    os.kill(os.getpid(), signal.SIGKILL)


connection_created.connect(prepare)
worker = Worker(hook=die, grace_s=options["grace_s"])
signal.signal(signal.SIGTERM, lambda *_: worker.stopping.set())
worker.run()

"""One worker against two, as processes: `python -m bench.workers <name> <how many there are>` is one of them.

A worker takes its share of the partitions and waits, so that the streams are filled before anybody begins; on a word it
works until nothing is left. Commits wait 2 ms more where PostgreSQL is told so (`commit_delay`, by PGOPTIONS), as with a
slower disk or a standby that has to answer.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from django.conf import settings

from fleet.running.tether import tied

SLOW_COMMIT = "-c commit_delay=2000 -c commit_siblings=0"  # µs; 0: also when nobody else commits
LOOK_S = 0.2
READY_S = 60.0


def rate(feed: Callable[[], int], workers: int, rounds: int, *, options: str = "") -> float:
    """Receipts a second of so many workers together, the median. The first round warms up."""
    with _processes(workers, options) as processes:
        rates = []
        for _ in range(rounds + 1):
            count = feed()
            began = time.perf_counter()
            applied = sum(json.loads(answer) for answer in _ask(processes, "go"))
            if applied != count:
                raise RuntimeError(f"{count} receipts were to be applied and {applied} entries were read")
            rates.append(count / (time.perf_counter() - began))
    return median(rates[1:])


@contextmanager
def _processes(count: int, options: str) -> Iterator[list["subprocess.Popen[str]"]]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "fleet.settings", "PGOPTIONS": options}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.workers", f"bench-{options and 'slow-'}{count}-{n}", str(count)],
            cwd=settings.BASE_DIR, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=tied(),
        )
        for n in range(count)
    ]  # fmt: skip
    try:
        for process in started:
            _line(process)
        yield started
    finally:
        for process in started:
            process.communicate("", timeout=READY_S)


def _ask(processes: list["subprocess.Popen[str]"], word: str) -> list[str]:
    for process in processes:
        assert process.stdin
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    return [_line(process) for process in processes]


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a worker of the bench ended")
    return line


def main(name: str, share: int) -> None:
    import django

    django.setup()
    from django.db import connection
    from django.db.backends.signals import connection_created

    from telemetry import clocks
    from telemetry.worker import batch
    from telemetry.worker.loop import Worker
    from telemetry.worker.process import prepare, settle

    connection_created.connect(prepare, dispatch_uid="worker.prepare")
    worker = Worker(name=name)
    while len(worker.fences) != settings.PARTITIONS // share:
        worker.step(*clocks.read())
        time.sleep(LOOK_S)
    settle()
    print("ready", flush=True)
    applied, apply = [0], batch.apply

    def counting(p: int, fence: int, entries: list[object], **more: object) -> object:
        applied[0] += len(entries)
        return apply(p, fence, entries, **more)  # type: ignore[arg-type]

    batch.apply = counting  # type: ignore[assignment]
    while True:
        if not select.select([sys.stdin], [], [], LOOK_S)[0]:
            worker.partitions.tend()
        elif sys.stdin.readline():
            applied[0] = 0
            while worker.step(*clocks.read()):
                pass
            print(json.dumps(applied[0]), flush=True)
        else:
            break
    worker.close()
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

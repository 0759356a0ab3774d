#!/usr/bin/env python
"""Drover's command line: `manage.py help` lists everything it can do."""

import os
import select
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as exc:
        raise SystemExit("Django is not installed in this Python. Run `make setup` first.") from exc
    from django.core.exceptions import ImproperlyConfigured
    from django.db import Error as DatabaseError

    from fleet.logs import last_words

    try:
        try:
            execute_from_command_line(sys.argv)
        finally:
            sys.stdout.flush()  # here, and not when the interpreter ends, who reads may prove to be gone
    except ImproperlyConfigured as exc:
        raise SystemExit(last_words(str(exc))) from None
    except DatabaseError as exc:
        from telemetry.watching.causes import of_database

        if (found := of_database(exc)) is None:
            raise
        raise SystemExit(last_words(found[1])) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what waits to be written goes nowhere
        raise SystemExit(141) from None  # as a shell says of what SIGPIPE ended


def _nobody_reads() -> bool:
    """Has whoever read our output hung up, as in `manage.py status | head`?"""
    told = select.poll()
    told.register(sys.stdout, 0)
    return bool(told.poll(0))


if __name__ == "__main__":
    main()

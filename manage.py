#!/usr/bin/env python
"""Drover's command line: `manage.py help` lists everything it can do."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as exc:
        raise SystemExit("Django is not installed in this Python. Run `make setup` first.") from exc
    from django.core.exceptions import ImproperlyConfigured

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as exc:
        raise SystemExit(f"drover: {exc}") from None


if __name__ == "__main__":
    main()

"""Reproducible measurements, each with its baseline on the same machine and work: `manage.py bench <name>`."""

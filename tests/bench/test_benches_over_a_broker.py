"""The benches of ingestion and of VDA 5050 run, count everything, and have their shape; whether a figure is met is theirs."""

import importlib
import json
import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.management.base import CommandError

from fleet.running import foreign
from tests.tools import missing


def bench(name: str, folder) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DROVER_VAR": str(folder)}
    for variable in ("DATABASE_URL", "REDIS_URL", "LIVE_REDIS_URL", "DJANGO_SETTINGS_MODULE"):
        environment.pop(variable, None)
    return subprocess.run(
        [sys.executable, settings.BASE_DIR / "manage.py", "bench", name, "--quick", "--json"],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def figures(done) -> dict[str, dict]:
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert all(row["value"] >= 0 for row in rows)
    return {row["figure"]: row for row in rows}


@pytest.mark.processes
@pytest.mark.parametrize("name", ["ingest", "vda"])
def test_it_runs_and_has_its_shape(name, tmp_path):
    if foreign.program("mosquitto") is None:
        missing("mosquitto is not installed")
    rows = figures(bench(name, tmp_path))
    for figure in FIGURES[name]:
        assert rows[figure]["value"] > 0
    for figure in FIGURES[name][:-1]:
        assert rows[figure]["baseline"] > 0
    assert not list(tmp_path.glob("bench-*"))  # nothing is left behind


FIGURES = {
    "ingest": [
        "MQTT, on a schedule: seen", "WebSocket, on a schedule: seen", "HTTP in batches, on a schedule: seen",
        "… as many as it takes",
    ],
    "vda": ["states on a schedule: seen", "… as many as it takes", "state to mission status, p50"],
}  # fmt: skip


@pytest.mark.parametrize("name", ["ingest", "vda"])
def test_without_a_broker_it_says_what_is_missing(name, monkeypatch):
    monkeypatch.setattr(foreign, "program", lambda name: None)
    with pytest.raises(CommandError, match="needs mosquitto, which is not installed here"):
        importlib.import_module(f"bench.{name}").run(quick=True)

"""A bench measures us and its baseline and says plainly what it found."""

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings

from bench.report import row, show


@pytest.mark.parametrize(
    ("made", "ratio", "target", "ok"),
    [
        (row("rate", 6000, "1/s", baseline=2000, at_least=5000), 3.0, "≥ 5000", True),
        (row("rate", 4000, "1/s", baseline=2000, at_least=5000), 2.0, "≥ 5000", False),
        (row("time", 4.0, "ms", baseline=12.0, below=5), 3.0, "< 5", True),
        (row("time", 5.0, "ms", below=5), None, "< 5", False),
        (row("fact", 1.0, "ms"), None, "", None),
    ],
    ids=["rate met", "rate missed", "time met", "time missed", "no target"],
)
def test_a_row_knows_its_ratio_and_whether_it_is_met(made, ratio, target, ok):
    assert (made.ratio, made.target, made.ok) == (ratio, target, ok)


def test_the_table_shows_a_miss():
    text = show("x", {"cores": 2}, [row("rate", 4000, "1/s", baseline=2000, at_least=5000)], as_json=False)
    assert "cores 2" in text
    assert text.splitlines()[-1].split() == ["rate", "4,000", "1/s", "2,000", "2", "≥", "5000", "MISSED"]


@pytest.mark.processes
def test_the_stop_bench_runs_and_has_its_shape(tmp_path):
    environment = {**os.environ, "DROVER_VAR": str(tmp_path)}
    for name in ("DATABASE_URL", "REDIS_URL", "LIVE_REDIS_URL", "DJANGO_SETTINGS_MODULE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, settings.BASE_DIR / "manage.py", "bench", "stop", "--quick", "--json"],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr  # whether a figure is met is not this test's matter
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["bench"] == "stop"
    targets = {row["figure"]: row["target"] for row in report["rows"] if row["target"]}
    assert targets == {"click to command, p99": "< 100", "both Redis frozen, worst": "< 2000"}
    assert all(row["value"] > 0 and row["baseline"] > 0 for row in report["rows"])


@pytest.mark.processes
def test_the_pipeline_bench_runs_and_has_its_shape(tmp_path):
    environment = {**os.environ, "DROVER_VAR": str(tmp_path)}
    for name in ("DATABASE_URL", "REDIS_URL", "LIVE_REDIS_URL", "DJANGO_SETTINGS_MODULE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, settings.BASE_DIR / "manage.py", "bench", "pipeline", "--quick", "--json"],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr  # whether a figure is met is not this test's matter
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["bench"] == "pipeline"
    assert {"cpu", "cores", "postgresql", "valkey", "disk"} <= report["machine"].keys()
    assert "fsync on synchronous_commit on" in report["machine"]["postgresql"]
    for found in report["rows"]:
        assert found.keys() == {"figure", "value", "unit", "baseline", "ratio", "target", "ok"}
        assert found["value"] > 0 and found["baseline"] > 0
    assert (done.returncode == 1) == any(found["ok"] is False for found in report["rows"])
    assert not list(tmp_path.iterdir())  # nothing is left behind


@pytest.mark.processes
def test_the_storage_bench_runs_and_has_its_shape(tmp_path):
    environment = {**os.environ, "DROVER_VAR": str(tmp_path)}
    for name in ("DATABASE_URL", "REDIS_URL", "LIVE_REDIS_URL", "DJANGO_SETTINGS_MODULE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, settings.BASE_DIR / "manage.py", "bench", "storage", "--quick", "--json"],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    values = {row["figure"]: row["value"] for row in json.loads(done.stdout)["rows"]}
    assert (
        values["PostgreSQL, a robot-day"] > values["… kept for ever, after tidying"]
    )  # of a few missions, less than pages
    assert values["… fleet_event"] > 0
    assert values["rows tidied"] > 0
    assert values["durable Redis, a message not applied"] > 100

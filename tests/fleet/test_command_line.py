"""manage.py as a program among others: in a pipe whose reader has enough, and without a database."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings

from fleet.management.commands.run import Site
from fleet.running import keys
from fleet.running.supervisor import Failed
from fleet.running.trouble import Trouble

MANAGE = [sys.executable, str(settings.BASE_DIR / "manage.py")]
ENVIRONMENT = {**os.environ, "DEBUG": "1"}


@pytest.mark.parametrize(
    "command", [["help"], ["shell", "-c", "print('x' * 100_000)"]], ids=["at the end", "in the middle"]
)
def test_a_reader_that_has_enough_ends_a_command_in_silence(command):
    """`manage.py status | head`: no traceback behind the lines that were asked for."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        ended = subprocess.run([*MANAGE, *command], stdout=writes, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60)
    finally:
        os.close(writes)
    assert (ended.stderr.decode(), ended.returncode) == ("", 141)


@pytest.mark.parametrize("command", [["check_invariants"], ["tidy", "--dry-run"], ["statistics", "--rebuild"]])
def test_without_a_database_a_command_says_so_in_one_line(command):
    environment = {**ENVIRONMENT, "DATABASE_URL": "postgresql://drover@/drover?host=/nowhere"}
    ended = subprocess.run([*MANAGE, *command], capture_output=True, text=True, env=environment, timeout=60)
    assert ended.stderr.startswith("drover: PostgreSQL does not answer (")
    assert "docs/trouble/database-takes-no-writes.md" in ended.stderr
    assert (ended.stderr.count("\n"), ended.returncode) == (1, 1)


IN_A_THREAD = "import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["check_invariants"], "PostgreSQL does not answer"),
        (["gateway"], "MQTT_URL is not set"),
        (["shell", "-c", "import warnings; warnings.warn('old\nway'); raise ValueError('in the\nmiddle')"], "error"),
        (["shell", "-c", f"{IN_A_THREAD}; raise ValueError('at the end')"], "error"),
    ],
)
def test_for_machines_it_says_one_object_a_line_however_it_ends(command, says):
    environment = {**ENVIRONMENT, "LOG_FORMAT": "json", "DATABASE_URL": "postgresql://drover@/drover?host=/nowhere"}
    ended = subprocess.run([*MANAGE, *command], capture_output=True, text=True, env=environment, timeout=60)
    told = [json.loads(line) for line in ended.stderr.splitlines()]
    assert told[-1]["level"] == "critical"
    assert says in told[-1]["message"]
    assert {"time", "level", "logger", "message", "process"} <= told[0].keys()
    assert ended.returncode == 1


def test_for_machines_a_web_process_without_settings_says_why_in_one_object():
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in ("SECRET_KEY", "DEBUG")}
    environment |= {"LOG_FORMAT": "json", "DROVER_VAR": "/nowhere"}
    command = [sys.executable, "-c", "import fleet.asgi"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=settings.BASE_DIR, timeout=60)
    (told,) = (json.loads(line) for line in ended.stderr.splitlines())
    assert "SECRET_KEY is not set" in told["exception"]


def test_a_broken_pipe_to_somebody_else_is_no_silent_end():
    ended = subprocess.run(
        [*MANAGE, "shell", "-c", "raise BrokenPipeError"], capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )
    assert "BrokenPipeError" in ended.stderr
    assert ended.returncode == 1


@pytest.mark.parametrize("restored", [False, True])
def test_a_copy_names_the_passwords_that_open_it(restored):
    """Those of a backup are the backup's: the ones that were made for the new copy open nothing."""
    said: list[str] = []
    site = Site(Path("/v"), SimpleNamespace(plain=said.append, is_json=False))
    site.url = "http://127.0.0.1:8000/"
    made = {f"{user.upper()}_PASSWORD": f"{user}-password" for user in keys.USERS}
    site._announce(made | ({keys.RESTORED: "drover-1.zip"} if restored else {}))
    [text] = said
    assert [word in text for word in ("admin-password", "/v/secrets")] == [not restored] * 2
    assert ("of the backup (drover-1.zip)" in text) is restored


async def test_who_repeats_the_line_that_restored_is_told_how_to_go_on():
    async def refused(*command: str) -> None:
        raise Failed("restore", "ended", ["restoring", "CommandError: The database is not empty."])

    site = Site(Path("/v"), SimpleNamespace(say=lambda line: None))
    with pytest.raises(Trouble, match="^The database is not empty. .* a DROVER_VAR that is new; .* in /v.$"):
        await site._restore(SimpleNamespace(once=refused), Path("/b/drover-1.zip"), {})

"""manage.py as a program among others, in a pipe whose reader has enough."""

import os
import subprocess
import sys

import pytest
from django.conf import settings

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


def test_a_broken_pipe_to_somebody_else_is_no_silent_end():
    ended = subprocess.run(
        [*MANAGE, "shell", "-c", "raise BrokenPipeError"], capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )
    assert "BrokenPipeError" in ended.stderr
    assert ended.returncode == 1

"""Why Drover cannot run here, as one line that says what to do."""

import errno
from pathlib import Path

from fleet.running.supervisor import Failed

FULL = "The disk under {var} is full. Free some space, or set DROVER_VAR to a folder on another disk."

# what a process says when it ends → what to do about it
ADVICE = (
    ("No space left on device", FULL),
    ("Short write while writing to the AOF file", FULL),  # Valkey says so
    (
        "Permission denied",
        "Some of {var} belongs to another user. Give it to this one, or set DROVER_VAR to another folder.",
    ),
    (
        "incompatible with server",
        "The data under {var} is of another PostgreSQL version. Set DROVER_VAR to another folder, or move it away.",
    ),
)


class Trouble(Exception):
    """The text says why and what to do."""


def explained(var: Path, failed: BaseException) -> Trouble:
    """What ended the run, for people. Raises what is no trouble of the machine but a mistake of ours."""
    if isinstance(failed, Trouble):
        return failed
    if isinstance(failed, OSError):
        if failed.errno in (errno.ENOSPC, errno.EDQUOT):
            return Trouble(FULL.format(var=var))
        return Trouble(f"Cannot write to {var} ({failed.strerror}). Set DROVER_VAR to a folder that you may write to.")
    if not isinstance(failed, Failed):
        raise failed
    said = "\n".join(failed.tail)
    for text, advice in ADVICE:
        if text in said:
            return Trouble(advice.format(var=var))
    return Trouble(f"{failed}. What it said last is above.")

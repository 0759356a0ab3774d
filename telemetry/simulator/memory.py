"""What a simulated robot does not forget when its process ends, and the file that is its disk.

The file outlives the process, also a `kill -9`; nothing is synced for a power cut of the machine.
"""

import logging
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

MEMORIES = "robots"  # the folder, beside the list of robots

log = logging.getLogger("robot")
Mode = Literal["idle", "running", "charging", "paused", "fault"]


class ActivityMemory(msgspec.Struct):
    """How far the body is with a step. `left_s`: simulated time that is left at the place."""

    params: dict[str, Any]
    arrived: bool
    left_s: float


class WorkMemory(msgspec.Struct):
    """The dispatch in hand. Without an activity its step has failed and the site has to decide."""

    mission: str
    dispatch_no: int
    steps: list[dict[str, Any]]
    traceparent: str
    number: Annotated[int, msgspec.Meta(ge=1)]
    attempt: int
    paused: bool
    failed: bool
    activity: ActivityMemory | None
    completed: list[int] = []


class MachineMemory(msgspec.Struct):
    """Metres, radians, per cent. `ended`: mission, dispatch_no and how, the oldest first; `last` is one of them.

    `done`: for each of `ended` the steps that were completed; empty in memories of before they were kept.
    """

    x: float
    y: float
    theta: float
    place: str
    battery: float
    charging: bool
    work: WorkMemory | None
    latched: bool
    fault: str
    fault_left_s: float
    topping_up: bool
    told: Mode
    ended: list[tuple[str, int, str]]
    last: tuple[str, int] | None
    done: list[tuple[int, ...]] = []


class OutboxMemory(msgspec.Struct):
    """`seq`: the last critical number of `session`. `kept`: session, seq, msg_id and text of what is not applied."""

    session: int
    seq: int
    kept: list[tuple[int, int, str, str]]


class Memory(msgspec.Struct):
    """`obeyed`: msg_id of commands, the oldest first."""

    robot: str
    machine: MachineMemory
    outbox: OutboxMemory
    obeyed: list[str]
    format: Literal[1] = 1


_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Memory).decode


def file_of(folder: Path, robot: str) -> Path:
    """Where a robot's memory is. The suffix makes `..` a name like any other; ValueError for what is no robot's id."""
    if not _ID.fullmatch(robot):
        raise ValueError(f"{robot!r} is no robot's id")
    return folder / f"{robot}.json"


class Disk:
    """One robot's file. Without one nothing is kept."""

    def __init__(self, robot: str, file: Path | None) -> None:
        self._robot, self._file, self._works = robot, file, True

    def read(self) -> Memory | None:
        """None when there is nothing that could be used; the log says why, unless there is no file."""
        if self._file is None:
            return None
        try:
            memory = _decode(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.ignore(str(error))
            return None
        if memory.robot != self._robot:
            self.ignore(f"it is of {memory.robot}")
            return None
        return memory

    def ignore(self, why: str) -> None:
        """Say that the robot begins without its memory."""
        log.warning("%s: %s is not used (%s); it starts without a memory", self._robot, self._file, why)

    def wipe(self) -> None:
        """Forget everything."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def write(self, memory: Memory) -> None:
        """Whole or not at all. A disk that fails is said once, and the robot goes on without it."""
        if self._file is None:
            return
        draft = self._file.with_name(f"{self._file.name}.new")
        try:
            self._file.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(_encode(memory))
            draft.replace(self._file)
            self._works = True
        except OSError as error:
            if self._works:
                log.error("%s: cannot keep its memory (%s)", self._robot, error)
            self._works = False

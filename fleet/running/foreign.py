"""`make run ROBOTS=vda`: a broker for robots over MQTT, and robots that others wrote, where the machine has the programs."""

import os
import shutil
import socket
from pathlib import Path

from fleet.running.claim import HOST
from fleet.running.embedded import STORE_TIER
from fleet.running.supervisor import Program

KINDS = ("vda",)
_WHERE = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))  # brokers are often for root


def program(name: str) -> str | None:
    """Path of a program of this machine."""
    return shutil.which(name, path=_WHERE)


def missing() -> str:
    """What there is not, and what to do about it, for people; empty when all is there."""
    absent = [name for name in ("node", "npm", "mosquitto") if program(name) is None]
    if not absent:
        return ""
    return (
        f"{' and '.join(absent)} not found, so there are no foreign robots and Drover's own drive instead"
        " (Debian: apt install nodejs npm mosquitto)"
    )


def mosquitto(settings: Path, *lines: str) -> tuple[int, list[str]]:
    """A broker on a free port of this machine, and the command that starts it. `lines`: what else its settings say."""
    with socket.create_server((HOST, 0)) as free:
        port = int(free.getsockname()[1])
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("\n".join((f"listener {port} {HOST}", *lines, "")))
    found = program("mosquitto")
    assert found is not None
    return port, [found, "-c", str(settings)]


def broker(var: Path) -> tuple[str, Program]:
    """Its address, and how the supervisor starts it."""
    port, command = mosquitto(var / "mosquitto.conf", "allow_anonymous true", "log_type error", "log_type warning")

    async def answers() -> bool:
        socket.create_connection((HOST, port), 1).close()
        return True

    return f"mqtt://{HOST}:{port}", Program("broker", command, tier=STORE_TIER, ready=answers, vital=False)

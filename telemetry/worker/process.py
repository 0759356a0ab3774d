"""What a worker's process and its database connections are like: prepared once, when it starts."""

import gc
import os
import secrets
import socket
from typing import Any

from django.db import connection

GARBAGE = 20_000  # new objects until garbage is looked for: a batch makes thousands, and nearly none in cycles
FROZEN_MS = 3000  # a frozen worker's open transaction ends after this, so that another can take over


def unique_name() -> str:
    return f"{socket.gethostname()[:50]}:{os.getpid()}:{secrets.token_hex(3)}"


def settle() -> None:
    """Once, when everything is imported: what is there stays, so that looking for garbage does not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def prepare(connection: Any, **_: Any) -> None:
    """Receiver of `connection_created` in a worker process: plans are kept, a frozen worker lets go."""
    connection.connection.prepare_threshold = 3
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, FALSE)", [str(FROZEN_MS)])


def reconnect() -> None:
    """Begin afresh: no broken connection, no plan that an ALTER TYPE made void."""
    if not connection.in_atomic_block:
        connection.close()

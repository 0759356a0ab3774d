"""What a process checks before it takes up work: the database is there, migrated, and guarded by its triggers."""

import sys
from typing import Any
from weakref import WeakSet

from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from fleet import logs, triggers

STATEMENT_MS = 30_000  # of pages; workers and commands have no limit
_bound: WeakSet[Any] = WeakSet()


def problems() -> list[str]:
    """Why this process must not work on this database; empty when all is well."""
    try:
        return unsound()
    except DatabaseError as exc:
        return [
            f"the database does not answer ({' '.join(str(exc).split())}); check DATABASE_URL; see docs/trouble/database-takes-no-writes.md"
        ]


def unsound() -> list[str]:
    """The same of one that answers. Raises `django.db.Error` else."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan)
        return [f"migrations are not applied ({names}); run `manage.py migrate`"]
    return triggers.problems()


def check() -> None:
    """End this process with one clear line when it must not work."""
    if in_tests():
        return
    found = problems()
    connection.close()
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SystemExit(logs.last_words(f"cannot start: {found[0]}{more}"))


def bound_statements(connection: Any, **_: Any) -> None:
    """Receiver of `connection_created` in a web process: no page waits for a statement for ever."""
    if connection.connection in _bound:  # it comes from the pool, where it was before
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, FALSE)", [str(STATEMENT_MS)])
    _bound.add(connection.connection)


def in_tests() -> bool:
    """Tests prepare their own database, after the modules that check here are imported."""
    return "pytest" in sys.modules

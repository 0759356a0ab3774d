"""Database triggers that hold I1 and I10 against everything: ORM, admin, raw SQL.

- Events are append-only, gapless per aggregate, chained by hash and state; each is of a kind that the catalogue has
  for its aggregate, and moves along an edge that it allows for that kind.
- A row is what its last event says: it changes only together with a newer event, and a final mission stays final.
- An event without its row is refused when the transaction ends.

They are made after every migrate from the catalogue and dropped before one (a trigger would block ALTER TABLE).
Every process checks at its start that they are there (`problems`).
"""

import hashlib
from functools import cache
from typing import Any

from django.db import connection

from fleet.history import AGGREGATES, KINDS, Aggregate

EVENT = "fleet_event"


def edges() -> list[tuple[str, str, str]]:
    """Every (kind, state_from, state_to) that an event may have, from the catalogue and the FSM."""
    allowed = set()
    for aggregate in AGGREGATES.values():
        kinds = [kind for kind in KINDS.values() if kind.name.startswith(f"{aggregate.prefix}.")]
        if not aggregate.state:
            allowed |= {(kind.name, "", "") for kind in kinds}
            continue
        field: Any = aggregate.model._meta.get_field(aggregate.state)
        moves = list(field.get_all_transitions(aggregate.model))
        states = [str(value) for value, _ in field.choices]
        for kind in kinds:
            if kind.transition:
                allowed |= {(kind.name, str(m.source), str(m.target)) for m in moves if m.name == kind.transition}
            elif kind.name == f"{aggregate.prefix}.drafted":
                allowed.add((kind.name, "", str(field.default)))
            else:
                allowed |= {(kind.name, state, state) for state in states}
    return sorted(allowed)


def _refuse(message: str, constraint: str) -> str:
    return f"RAISE EXCEPTION {message} USING ERRCODE = 'check_violation', CONSTRAINT = '{constraint}'"


@cache
def _functions() -> dict[str, str]:
    """Function name → body."""
    functions = {
        "drover_event_insert": _event_insert(),
        "drover_append_only": f"""
BEGIN
  {_refuse("'history is append-only: % on % refused', TG_OP, TG_TABLE_NAME", "append_only")};
END""",
        "drover_kept": f"""
BEGIN
  {_refuse("'% has history and is never deleted', TG_TABLE_NAME", "kept")};
END""",
        "drover_event_has_row": _event_has_row(),
    }
    for a in AGGREGATES.values():
        key = _pk(a).column
        same_state = f" AND state_to = NEW.{a.state}" if a.state else ""
        final = (
            f"""
    IF OLD.{a.state} NOT IN ({_open_states(a)}) AND NEW.{a.state} <> OLD.{a.state} THEN
      {_refuse("'a final " + a.prefix + " stays final: %', OLD." + key, a.prefix + "_final")};
    END IF;"""
            if a.state
            else ""
        )
        functions[f"drover_{a.prefix}_row"] = f"""
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.{key} <> OLD.{key} OR NEW.version <= OLD.version THEN
      {_refuse("'" + a.prefix + " % changes only with an event of its own', OLD." + key, a.prefix + "_needs_event")};
    END IF;{final}
  END IF;
  IF NOT EXISTS (SELECT 1 FROM {EVENT} WHERE aggregate = '{a.prefix}:' || NEW.{key} AND seq = NEW.version{same_state}) THEN
    {_refuse("'" + a.prefix + " % is not what its last event says', NEW." + key, a.prefix + "_matches_event")};
  END IF;
  RETURN NEW;
END"""
    return functions


def _event_insert() -> str:
    """Once for all events of a statement: each is looked at by itself (the sub-select stays one look into an index)."""
    # one text array instead of rows: PostgreSQL looks a text up in a hash table, and compares rows one after the other
    legal = ",".join(f'"{kind} {source} {target}"' for kind, source, target in edges())
    return f"""
DECLARE bad record;
BEGIN
  SELECT * INTO bad FROM (
    SELECT a.*, CASE
      WHEN a.seq > 1 AND last.hash IS NULL THEN 'gap'
      WHEN a.prev_hash <> coalesce(last.hash, decode(repeat('00', 32), 'hex'))
        OR a.state_from <> coalesce(last.state_to, '') OR length(a.hash) <> 32 THEN 'chain'
      WHEN split_part(a.kind, '.', 1) <> split_part(a.aggregate, ':', 1)
        OR a.kind || ' ' || a.state_from || ' ' || a.state_to <> ALL ('{{{legal}}}'::text[]) THEN 'edge'
    END AS wrong
    FROM added a LEFT JOIN LATERAL (
      SELECT hash, state_to FROM {EVENT} WHERE aggregate = a.aggregate AND seq = a.seq - 1 AND a.seq > 1 OFFSET 0
    ) last ON TRUE
  ) looked WHERE wrong IS NOT NULL LIMIT 1;
  IF bad.wrong = 'gap' THEN
    {_refuse("'% has no event %', bad.aggregate, bad.seq - 1", "event_seq_gapless")};
  ELSIF bad.wrong = 'chain' THEN
    {_refuse("'% event % does not follow from the one before', bad.aggregate, bad.seq", "event_chain")};
  ELSIF bad.wrong = 'edge' THEN
    {_refuse("'% may not move % from % to %', bad.kind, bad.aggregate, bad.state_from, bad.state_to", "event_edge")};
  END IF;
  INSERT INTO fleet_outbox (event_id) SELECT id FROM added;
  RETURN NULL;
END"""


def _event_has_row() -> str:
    """One query for each event: the kinds of rows are told apart before, by what costs nothing."""
    branches = [
        f"""IF prefix = '{a.prefix}' THEN
    PERFORM FROM {a.model._meta.db_table}
      WHERE {_pk(a).column} = substr(NEW.aggregate, {len(a.prefix) + 2})::{_pk(a).db_type(connection)} AND version >= NEW.seq;
    found_row := FOUND;
"""
        for a in AGGREGATES.values()
    ]
    return f"""
DECLARE prefix text := split_part(NEW.aggregate, ':', 1); found_row boolean := TRUE;
BEGIN
  {"  ELS".join(branches)}  END IF;
  IF NOT found_row THEN
    {_refuse("'event % of % changed no row', NEW.seq, NEW.aggregate", "event_has_row")};
  END IF;
  RETURN NULL;
END"""


def _pk(aggregate: Aggregate) -> Any:
    return aggregate.model._meta.pk


def _open_states(aggregate: Aggregate) -> str:
    field: Any = aggregate.model._meta.get_field(aggregate.state)
    return ", ".join(sorted({f"'{m.source}'" for m in field.get_all_transitions(aggregate.model)}))


def _triggers() -> list[tuple[str, str, str]]:
    """(trigger name, table, definition after its name)."""
    refused = "FOR EACH STATEMENT EXECUTE FUNCTION"
    rows = [
        (
            "drover_event_insert", EVENT,
            f"AFTER INSERT ON {EVENT} REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION drover_event_insert()",
        ),
        ("drover_event_update", EVENT, f"BEFORE UPDATE OR DELETE ON {EVENT} FOR EACH ROW EXECUTE FUNCTION drover_append_only()"),
        ("drover_event_truncate", EVENT, f"BEFORE TRUNCATE ON {EVENT} {refused} drover_append_only()"),
        (
            "drover_event_has_row", EVENT,
            f"AFTER INSERT ON {EVENT} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION drover_event_has_row()",
        ),
    ]  # fmt: skip
    for a in AGGREGATES.values():
        table, run = a.model._meta.db_table, f"FOR EACH ROW EXECUTE FUNCTION drover_{a.prefix}_row()"
        rows += [
            (f"drover_{a.prefix}_insert", table, f"AFTER INSERT ON {table} {run}"),
            (f"drover_{a.prefix}_update", table, f"BEFORE UPDATE ON {table} {run}"),
            (
                f"drover_{a.prefix}_delete",
                table,
                f"BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION drover_kept()",
            ),
            (f"drover_{a.prefix}_truncate", table, f"BEFORE TRUNCATE ON {table} {refused} drover_kept()"),
        ]
    return rows


def _md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()


def create() -> None:
    """Make all functions and triggers anew."""
    drop()
    statements = [
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $drover${body}$drover$"
        for name, body in _functions().items()
    ]
    for name, table, definition in _triggers():
        constraint = "CONSTRAINT " if "DEFERRABLE" in definition else ""
        statements.append(f"CREATE {constraint}TRIGGER {name} {definition}")
        # also when session_replication_role says replica
        statements.append(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")
    _run(statements)


def drop() -> None:
    """Take all triggers away (only around a migration or a test's flush)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE 'drover\\_%%' AND NOT tgisinternal"
        )
        found = cursor.fetchall()
    _run([f"DROP TRIGGER {name} ON {table}" for name, table in found])


def _run(statements: list[str]) -> None:
    """All in one go: they are about a hundred."""
    if statements:
        with connection.cursor() as cursor:
            cursor.execute(";\n".join(statements))


def problems() -> list[str]:
    """What is missing or not as this code would make it; empty when all is well."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.tgname, t.tgenabled::text, p.proname, md5(p.prosrc) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
            " WHERE t.tgname LIKE 'drover\\_%%'"
        )
        found = {row[0]: row[1:] for row in cursor.fetchall()}
    bodies = {name: _md5(body) for name, body in _functions().items()}
    wrong = []
    for name, table, _ in _triggers():
        if name not in found:
            wrong.append(f"trigger {name} on {table} is missing")
            continue
        enabled, function, body = found[name]
        if enabled != "A":
            wrong.append(f"trigger {name} on {table} is not enabled")
        elif bodies.get(function) != body:
            wrong.append(f"trigger {name} on {table} is not of this version")
    return [f"{text}; run `manage.py migrate`" for text in wrong]


def before_migrate(*, plan: list[Any] | None = None, app_config: Any, **_: Any) -> None:
    if plan and app_config.name == "fleet":
        drop()


def after_migrate(*, app_config: Any, **_: Any) -> None:
    if app_config.name == "fleet" and _tables_exist():
        create()


def _tables_exist() -> bool:
    tables = set(connection.introspection.table_names())
    return {EVENT, *(a.model._meta.db_table for a in AGGREGATES.values())} <= tables

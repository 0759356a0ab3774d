"""Secrets of one DROVER_VAR, generated once: the secret key and the demo users' first passwords."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

USERS = ("admin", "supervisor", "auditor")
RESTORED = "RESTORED_FROM"  # people and their passwords are those of this backup
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike


def load(var: Path) -> dict[str, str]:
    """Names → values from `var/secrets` (mode 0600); what is missing there is made and kept."""
    file = var / "secrets"
    known = dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line) if file.exists() else {}
    fresh = {"SECRET_KEY": secrets.token_urlsafe(50), **{f"{user.upper()}_PASSWORD": _password() for user in USERS}}
    complete = fresh | known
    if complete != known:
        write(file, complete)
    return complete


def write(file: Path, values: Mapping[str, str]) -> None:
    """Names and values as lines of a file that only we may read."""
    write_private(file, "".join(f"{name}={value}\n" for name, value in values.items()))


def write_private(file: Path, text: str) -> None:
    """A file that only we may read; whole or not at all."""
    draft = file.with_name(f"{file.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)


def _password() -> str:
    """Four groups of four: 78 bits, easy to type."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(4))

"""What an edit changes of a row, as columns and in words. Pure."""

from typing import Any


def changed(row: Any, new: dict[str, Any]) -> dict[str, Any]:
    """Those of the columns that are not so already."""
    return {column: value for column, value in new.items() if getattr(row, column) != value}


def words(row: Any, changed: dict[str, Any]) -> str:
    """`suspect after (s) 9 → 7; can do navigate, wait`, for the timeline."""
    return "; ".join(_of_column(row, column, value) for column, value in changed.items())


def _of_column(row: Any, column: str, value: Any) -> str:
    label = str(row._meta.get_field(column).verbose_name)
    if isinstance(value, bool):
        return label if value else f"no {label}"
    if isinstance(value, list):
        return f"{label} {', '.join(map(str, value)) or 'none'}"
    if isinstance(value, dict):
        return label
    return f"{label} {_short(getattr(row, column))} → {_short(value)}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) if value not in ("", None) else "none"

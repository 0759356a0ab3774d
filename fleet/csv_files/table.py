"""CSV files as people's spreadsheets make and read them: checked when they come, harmless and exact when they go.

A cell that a spreadsheet could take for a formula gets an apostrophe in front, and loses it when it comes back.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fleet.refusals import Refused

MAX_BYTES = 1_000_000
MAX_ROWS = 2000
FORMULA = tuple("=+-@\t\r\n")  # what a spreadsheet would run; spaces before it are no help
BOM = "\ufeff"


class Row(NamedTuple):
    """One line of the file; `number` is its line as a spreadsheet counts, the head being 1."""

    number: int
    cells: dict[str, str]


def read(raw: bytes, columns: Sequence[str], required: Sequence[str]) -> list[Row]:
    """The rows by column. Raises `Refused`, which names line and column, for a file that cannot be read as a whole."""
    lines = _lines(_text(raw))
    if not lines:
        raise Refused(f"The file is empty. Its first line names the columns: {', '.join(columns)}.")
    head = [cell.strip().lower() for cell in lines[0]]
    if unknown := [name for name in head if name not in columns]:
        raise Refused(f"Line 1: there is no column “{unknown[0][:60]}”. Columns are {', '.join(columns)}.")
    if twice := next((name for name in head if head.count(name) > 1), None):
        raise Refused(f"Line 1: the column {twice} is there twice.")
    if missing := [name for name in required if name not in head]:
        raise Refused(f"Line 1: the column {missing[0]} is missing. Columns are {', '.join(columns)}.")
    rows = []
    for number, cells in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(head):
            raise Refused(f"Line {number} has {len(cells)} cells, the first line {len(head)}. Is a comma not quoted?")
        rows.append(Row(number, {name: restored(cell) for name, cell in zip(head, cells, strict=True)}))
    if len(rows) > MAX_ROWS:
        raise Refused(f"The file has {len(rows)} rows; at most {MAX_ROWS} at once. Split it.")
    if not rows:
        raise Refused("The file has a first line and no rows.")
    return rows


def write(columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> str:
    """The file as text. Numbers are ours and stay as they are."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([repr(cell) if isinstance(cell, float) else harmless(cell) for cell in row])  # type: ignore[arg-type]
    return BOM + out.getvalue()


def harmless(cell: str) -> str:
    return f"'{cell}" if _would_be_lost(cell) else cell


def restored(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _would_be_lost(cell[1:]) else cell


def _would_be_lost(cell: str) -> bool:
    """Without an apostrophe in front of it."""
    return cell.lstrip(" ").startswith((*FORMULA, "'"))


def _text(raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise Refused(f"The file has {len(raw) / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB. Split it.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Refused(f"Line {line} is not UTF-8. Save the file as “CSV UTF-8”, then repeat.") from None
    if "\x00" in text:
        raise Refused(f"Line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL character: this is no CSV.")
    return text


def _lines(text: str) -> list[list[str]]:
    first = text.split("\n", 1)[0]
    delimiter = ";" if ";" in first and "," not in first else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return list(reader)
    except csv.Error as error:
        raise Refused(f"Line {reader.line_num}: {error}. Is a quotation mark not closed?") from None

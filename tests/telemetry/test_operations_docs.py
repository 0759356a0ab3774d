"""docs/operations.md and docs/trouble say what is so: settings, figures, log lines."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from telemetry import metrics
from telemetry.watching import site_gauges

DOCS = Path(settings.BASE_DIR) / "docs"
OPERATIONS = (DOCS / "operations.md").read_text()
PAGES = {page.name: page.read_text() for page in [DOCS / "operations.md", *sorted((DOCS / "trouble").glob("*.md"))]}
BLOCKS = {name: re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S) for name, text in PAGES.items()}


def rows(heading: str) -> dict[str, list[str]]:
    """First column → the other cells, of the table under a heading."""
    section = OPERATIONS.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_every_setting_is_in_the_table_and_no_other():
    code = (Path(settings.BASE_DIR) / "fleet" / "settings.py").read_text()
    read = set(re.findall(r'\b(?:env|flag|number|environ\.get|environment\.get)\(\s*"(\w+)"', code))
    assert rows("Settings").keys() == read


def test_every_figure_is_in_the_table_with_its_labels():
    told = {name: set(re.findall(r"`(\w+)`", row[0])) for name, row in rows("Figures").items()}
    counted = {f"{name}": set(labels) for name, labels in metrics.declared()}
    asked = {f"drover_{q.name}": {q.label} - {""} for q in site_gauges.QUESTIONS} | {site_gauges.ANSWERED: set()}
    assert told == counted | asked


@pytest.mark.parametrize("name", PAGES)
def test_figures_that_a_page_names_are_there(name):
    known = {name for name, _ in metrics.declared()} | {f"drover_{q.name}" for q in site_gauges.QUESTIONS}
    known |= {site_gauges.ANSWERED, "drover_session_", "drover_csrf_"}
    found = re.findall(r"\bdrover_\w+", PAGES[name])
    assert found or name != "operations.md"
    assert {one for one in found if one.removesuffix("_total") not in known} == set()


SOURCE = "\n".join(
    path.read_text()
    for app in ("fleet", "missions", "telemetry")
    for path in (Path(settings.BASE_DIR) / app).rglob("*.py")
)


@pytest.mark.parametrize(
    "line", [line for blocks in BLOCKS.values() for kind, text in blocks if kind == "log" for line in text.splitlines()]
)
def test_log_lines_are_ones_that_the_code_writes(line):
    """`…` stands for what differs: the words between have to stand in one format string, in this order."""
    pattern = r"[^\"\n]*?".join(re.escape(words) for words in line.split("…") if words.strip())
    assert re.search(pattern, SOURCE), line


def test_every_page_of_trouble_says_where_to_look():
    for name in PAGES.keys() - {"operations.md"}:
        assert any(kind == "console" for kind, _ in BLOCKS[name]), name
        assert any(kind == "log" for kind, _ in BLOCKS[name]), name
        assert "## Look" in PAGES[name]
        assert f"trouble/{name}" in OPERATIONS

"""Whatever is caught without a name says on its line why: else a defect of ours is swallowed, and nobody knows that it may be."""

import re
from pathlib import Path

from django.conf import settings

BROAD = re.compile(r"except \(?(Base)?Exception\b|except\s*:|suppress\((Base)?Exception\)")


def unexplained(folder: Path) -> list[str]:
    files = (file for app in ("fleet", "missions", "telemetry") for file in (folder / app).rglob("*.py"))
    return [
        f"{file.relative_to(folder)}:{number}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if BROAD.search(line) and "  # " not in line
    ]


def test_each_has_its_reason():
    assert unexplained(Path(settings.BASE_DIR)) == []


def test_one_without_a_reason_is_found(tmp_path):
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "one.py").write_text(
        "try:\n    go()\nexcept Exception:\n    pass\nexcept KeyError:\n    pass\n"
    )
    assert unexplained(tmp_path) == ["fleet/one.py:3"]

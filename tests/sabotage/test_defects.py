"""Each defect of the list can still be made, and the test that has to notice it is still there."""

import pytest
from django.conf import settings

from tests.sabotage.__main__ import OWN, sabotage
from tests.sabotage.defects import DEFECTS


@pytest.mark.parametrize("defect", DEFECTS, ids=[defect.name for defect in DEFECTS])
def test_defect(defect, tmp_path):
    """The code has changed? Then bring tests/sabotage/defects.py after it."""
    copy = tmp_path / defect.file
    copy.parent.mkdir(parents=True)
    copy.write_text((settings.BASE_DIR / defect.file).read_text())
    assert sabotage(tmp_path, defect) == ""
    if copy.suffix == ".py":
        compile(copy.read_text(), defect.file, "exec")
    path, _, test = defect.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (settings.BASE_DIR / path).read_text()


def test_what_cannot_be_made_is_said(tmp_path):
    (tmp_path / DEFECTS[0].file).parent.mkdir(parents=True)
    (tmp_path / DEFECTS[0].file).write_text("")
    assert "stands 0 times in telemetry/worker/batch.py, not once" in sabotage(tmp_path, DEFECTS[0])


@pytest.mark.parametrize(
    ("last_line", "own"),
    [
        ("tests/missions/test_a.py:7: AssertionError", True),
        ("tests/missions/test_a.py:7: Failed", True),  # pytest.raises that saw nothing
        ("tests/missions/test_a.py:7: ImportError", False),
        ("missions/decide.py:7: AssertionError", False),
    ],
)
def test_only_an_assertion_of_the_test_counts(last_line, own):
    assert bool(OWN.findall(f"E  something\n\n{last_line}")) is own

"""docs/status.md shows the tasks as the table in the code has them."""

import re

from tests.browser.first_day.tasks import TASKS
from tests.run.copies import ROOT


def test_the_figures_of_the_first_day_are_those_of_the_code():
    text = (ROOT / "docs/status.md").read_text().partition("## The first day")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (\d+) \| (\d+) \|$", text, re.M)
    assert rows == [(name, task.who, str(task.clicks), str(task.loads)) for name, task in TASKS.items()]

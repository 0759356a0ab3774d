"""One copy for the whole day, and `visit`, which opens a browser of somebody's own."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.browser.conftest import VIOLATIONS
from tests.browser.first_day.day import ROBOTS, Day
from tests.browser.first_day.tasks import Hand
from tests.eventually import PATIENCE_S
from tests.run.conftest import folder  # noqa: F401
from tests.run.copies import Copy


@pytest.fixture(scope="package")
def day():
    """Six robots at two sites, calm: what moves is what a test makes move."""
    kept = Path(tempfile.mkdtemp(prefix="drover-day-"))
    kept.chmod(0o755)
    copy = Copy(kept / "var", DROVER_ROBOTS=str(ROBOTS), DROVER_DEMO_MISSIONS="0", DROVER_SPEED_UP="10")
    try:
        copy.until_ready(120)
        yield Day(copy)
        assert "Traceback" not in copy.output, copy.output
        assert "All invariants hold" in copy.manage("check_invariants").stdout
    finally:
        copy.stop()
        shutil.rmtree(kept)


@pytest.fixture
def visit(chromium, day):
    """`visit(name)` gives the hand of somebody who has signed in through the form, in a browser of their own."""
    opened = []

    def visit(name: str, *, signs_in: bool = True) -> Hand:
        context = chromium.new_context(base_url=day.url, permissions=["clipboard-read", "clipboard-write"])
        context.add_init_script(VIOLATIONS)
        context.set_default_timeout(PATIENCE_S * 1000)
        hand = Hand(context.new_page(), name)
        opened.append(context)
        if signs_in:
            hand.signs_in(day.password(name))
        return hand

    yield visit
    for context in opened:
        for page in context.pages:
            assert page.evaluate("window.violations") == []
        context.close()

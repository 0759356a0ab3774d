"""The page about the machine says what the machine does; every word and every deadline in every situation."""

from itertools import product

import pytest

from missions import deadlines
from missions.decide import PASSED
from missions.facts import Due
from missions.models import FINAL
from tests.missions.tables import HOW_LONG, PAGE, filled, situations, what_happens, words

AGAIN = "run: python -m tests.missions.tables"
KINDS = [kind for kind, _ in deadlines.KINDS]


def test_the_page_is_what_the_machine_does():
    page = PAGE.read_text()
    assert filled(page) == page, AGAIN


@pytest.mark.parametrize("place", situations())
def test_every_word_in_every_situation_keeps_the_promises(place):
    """The machine in memory checks I1, I5 and I9 after each; then silence until it ends, or only alerts are left."""
    for label, make in words().items():
        m = situations()[place]()
        if place == "drawn up" and "hands it over" in label:
            continue
        what_happens(m, make(m))
        for _ in range(60):
            if not m.due:
                break
            m.pass_(online=True)
        still = m.row.paused_at or m.row.held_at or m.row.robot_lost_at
        waits = m.row.state in FINAL or still or not m.row.dispatched_at
        assert waits, f"{label}: {m.row.state} {m.due}"


@pytest.mark.parametrize(("place", "kind"), [*product(situations(), KINDS)])
def test_a_deadline_fires_only_where_it_is_open_and_at_its_time(place, kind):
    m = situations()[place]()
    due = dict(m.due)
    assert kind in due or m.tell(Due(kind, online=True)) == ["redundant"]
    if kind in due:
        assert due[kind] <= 0 or m.tell(Due(kind, online=True), at=(m.now - _start()).total_seconds()) == ["redundant"]
        before = len(m.kinds)
        assert m.pass_(kind) == kind
        assert len(m.kinds) > before  # it is an event, whatever is done then


def _start():
    from tests.missions.machine import START

    return START


def test_every_deadline_has_a_rule_and_a_line():
    assert set(KINDS) == set(PASSED) == set(HOW_LONG)

"""A condition has one name: on cards, in lists and their filters, and in the sentences of the history."""

import pytest

from fleet.history import labels
from fleet.models import Mode, Presence
from fleet.robots.wording import MODES, PRESENCES


@pytest.mark.parametrize(("column", "kinds", "words"), [("presence", Presence, PRESENCES), ("mode", Mode, MODES)])
def test_the_history_says_it_as_cards_do(column, kinds, words):
    known = [value for value in kinds if value != "unknown"]  # "Link: unknown" is no sentence of cards
    said = {value: labels(f"robot.{column}_changed", {column: value})[column] for value in known}
    assert said == {value: words[value].word.lower() for value in known}


def test_the_filters_of_robots_say_it_as_well(client, admin_person, robot):
    client.force_login(admin_person)
    filters = client.get("/admin/fleet/robot/").content.decode().partition('id="changelist-filter"')[2]
    for said in (*MODES.values(), *PRESENCES.values()):
        assert f">{said.word}</a>" in filters
    assert ">Suspect</a>" not in filters and ">Manual</a>" not in filters

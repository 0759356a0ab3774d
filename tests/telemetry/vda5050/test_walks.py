"""Five hundred schedules of trouble between the real mission machine and robots with bad habits (walks.py says what holds)."""

import pytest

from tests.telemetry.vda5050 import recorded
from tests.telemetry.vda5050.test_writing import schema
from tests.telemetry.vda5050.walks import walk

AT_A_TIME = 25


@pytest.mark.thorough  # 16 s
@pytest.mark.parametrize("part", range(20))
def test_whatever_happens_it_ends_well(part):
    for seed in range(part * AT_A_TIME, (part + 1) * AT_A_TIME):
        try:
            walk(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_all_that_robots_are_sent_passes_the_official_schemas():
    recorded.folder("schemas/2.0.0")
    checks = {part: schema("2.0.0", part) for part in ("order", "instantActions")}
    sent = [row for seed in range(1000, 1030) for row in walk(seed).sent]
    assert {part for _, part, _ in sent} == set(checks)
    for _, part, message in sent:
        checks[part].validate(message)

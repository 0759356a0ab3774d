"""What workers find wrong is noted as long as they look, and nothing of those that are gone is kept."""

import pytest

from telemetry import snapshots
from telemetry.watching import notices


@pytest.fixture
def live():
    client = snapshots.client()
    client.delete(notices.KEY)
    yield client
    client.delete(notices.KEY)


def test_what_two_workers_find_is_read_together(live):
    notices.put("here:1", {"backlog": "it waits"})
    notices.put("there:2", {"redis_full": "it is full"})
    assert notices.read() == {"backlog": "it waits", "redis_full": "it is full"}
    notices.put("here:1", {})
    assert notices.read() == {"redis_full": "it is full"}


@pytest.mark.parametrize("later_ms", [notices.FRESH_MS + 1000, -notices.FRESH_MS - 1000])
def test_notes_of_workers_that_are_gone_count_no_more_and_go(live, monkeypatch, later_ms):
    notices.put("gone:1", {"backlog": "it waits"})
    live.hset(notices.KEY, "newer:3", b"[not ours")
    now = snapshots.now_ms()
    monkeypatch.setattr(snapshots, "now_ms", lambda: now + later_ms)
    assert notices.read() == {}
    notices.put("here:2", {})
    assert live.hkeys(notices.KEY) == [b"here:2"]

"""Robots over HTTP: every request is a sign of life; those that are silent are forgotten."""

import asyncio
import uuid

import pytest

from telemetry.gateways import vitals
from telemetry.gateways.http import callers
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.links import Links
from tests.telemetry.post import begun

pytestmark = pytest.mark.django_db(transaction=True)


async def test_every_request_is_a_sign_of_life(post):
    async def seen_at():
        return await Links._here.live.zscore("seen", "RB-001")

    async with asyncio.timeout(5):
        while not (before := await seen_at()):
            pass
        for ask in (post.poll, lambda: post.ack(str(uuid.uuid4())), lambda: post.post("[1]")):
            later = Links._here.clock() + vitals.TOUCH_S
            Links._here.clock = lambda later=later: later
            await ask()
            while (now := await seen_at()) == before:
                pass
            before = now


async def test_robots_that_are_silent_are_forgotten_and_with_the_last_of_them_all_that_is_shared(post, monkeypatch):
    monkeypatch.setattr(callers, "REAP_S", 0)
    monkeypatch.setattr(callers, "KEEP_S", 0)
    Callers._here._reaper.cancel()
    here = Callers._here
    async with asyncio.timeout(5):
        await here._reap()
    assert Callers._here is None
    assert Links._here is None


async def test_what_waits_is_not_forgotten(post):
    poll = asyncio.create_task(post.poll(wait=25))
    await begun()
    later = Links._here.clock() + callers.KEEP_S
    Links._here.clock = lambda: later
    Callers._here.forget()
    assert "RB-001" in Callers._here._callers
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    later += callers.KEEP_S
    Callers._here.forget()
    assert Callers._here._callers == {}
    assert Links._here.of("RB-001") is None

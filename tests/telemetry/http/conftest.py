"""A robot over HTTP that has said hello; nothing of it is left behind."""

import pytest

from telemetry.gateways.http.callers import Callers
from telemetry.gateways.links import Links
from tests.telemetry.post import Post


@pytest.fixture(autouse=True)
async def nothing_left(streams):
    yield
    await Callers.leave()
    assert Links._here is None


@pytest.fixture
async def post(token):
    robot = Post(token)
    await robot.hello()
    return robot

"""In what order one robot's messages are stored, also when storing fails."""

import asyncio
import uuid
from datetime import UTC, datetime

import pytest

from telemetry.gateways import inbox
from telemetry.gateways.inbox import GROUP, WINDOW, Inbox, Message
from telemetry.gateways.intake import LATE_S, Unavailable
from telemetry.gateways.limits import Room

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


class Desk:
    """A store that fails when told to, a clock, and an inbox between them."""

    def __init__(self):
        self.now, self.down, self.stored, self.answered, self.lost = 0.0, False, [], [], []
        self.inbox = Inbox("RB-001", self.store, lambda: self.now)

    async def store(self, robot, msg_id, raw, received_at):
        await asyncio.sleep(0)
        if self.down or raw == b"poison":
            raise Unavailable("down")
        if raw == b"bug":
            raise RuntimeError("bug")
        self.stored.append(raw)
        return "stored"

    def offer(self, *raws, repeats=True):
        async def done(raw, verdict):
            self.answered.append(raw)

        return [
            self.inbox.offer(
                Message(uuid.uuid5(uuid.NAMESPACE_OID, raw), raw.encode(), NOW, lambda v, r=raw: done(r, v),
                        lambda r=raw: self.lost.append(r), repeats)
            )
            for raw in raws
        ]  # fmt: skip


@pytest.fixture
def desk():
    return Desk()


async def test_a_group_is_stored_and_answered_in_order(desk):
    assert desk.offer("1", "2", "3") == [True] * 3
    await desk.inbox.step()
    assert desk.stored == [b"1", b"2", b"3"]
    assert desk.answered == ["1", "2", "3"]


async def test_a_group_is_bounded_and_the_rest_follows(desk):
    desk.offer(*(str(n) for n in range(GROUP + 1)))
    await desk.inbox.step()
    assert len(desk.stored) == GROUP
    await desk.inbox.step()
    assert desk.stored[-1] == str(GROUP).encode()


async def test_after_a_failure_nothing_later_goes_before_what_was_lost(desk):
    desk.down = True
    desk.offer(*(str(n) for n in range(GROUP + 2)))
    await desk.inbox.step()
    assert desk.lost == [str(n) for n in range(GROUP + 2)]
    desk.down = False
    assert desk.offer("99") == [False]
    assert desk.offer("0", "1") == [True, True]
    await desk.inbox.step()
    assert (desk.stored, desk.answered) == ([b"0", b"1"], ["0", "1"])


async def test_a_robot_that_never_repeats_is_served_again_after_a_while(desk):
    desk.down = True
    desk.offer("1")
    await desk.inbox.step()
    desk.down = False
    assert desk.offer("2") == [False]
    desk.now += inbox.GIVE_UP_S
    assert desk.offer("2") == [True]


async def test_what_is_not_repeated_by_itself_holds_nothing_up(desk):
    desk.down = True
    desk.offer("delivered", repeats=False)
    await desk.inbox.step()
    desk.down = False
    assert (desk.lost, desk.offer("2")) == (["delivered"], [True])


async def test_what_was_taken_on_another_way_is_not_waited_for(desk):
    desk.down = True
    desk.offer("1", "2")
    await desk.inbox.step()
    desk.down = False
    desk.inbox.settled(uuid.uuid5(uuid.NAMESPACE_OID, "1"))
    assert desk.offer("3", "2") == [False, True]


async def test_a_robot_that_sends_faster_than_it_is_served_waits_and_loses_no_order(desk):
    taken = desk.offer(*(str(n) for n in range(WINDOW + 2)))
    assert taken == [True] * WINDOW + [False] * 2
    assert desk.lost == [str(WINDOW), str(WINDOW + 1)]
    await desk.inbox.step()
    assert desk.offer(str(WINDOW + 1), str(WINDOW)) == [False, True]


async def test_what_was_stored_too_late_is_not_acknowledged(desk):
    desk.offer("1")
    desk.now += LATE_S + 0.1
    await desk.inbox.step()
    assert (desk.answered, desk.lost) == ([], ["1"])
    assert desk.offer("2", "1") == [False, True]


async def test_an_error_that_is_no_outage_is_raised(desk):
    desk.offer("bug")
    with pytest.raises(RuntimeError):
        await desk.inbox.step()


@pytest.mark.parametrize("how", ["stored", "lost", "closed"])
async def test_room_is_given_back_whatever_becomes_of_the_messages(how):
    desk, room = Desk(), Room()
    desk.inbox = Inbox("RB-001", desk.store, lambda: desk.now, room)
    desk.offer(*(str(n) for n in range(GROUP + 5)))
    assert room.used > 0
    desk.down = how == "lost"
    if how != "closed":
        await desk.inbox.step()
    if how == "stored":
        await desk.inbox.step()
    if how == "closed":
        desk.inbox.close()
    assert room.used == 0

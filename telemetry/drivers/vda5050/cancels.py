"""Ends a dispatch at the robot: cancelOrder until it has answered, and "cancelled" only when its state shows that."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from telemetry.drivers.contract import Command, Delivered, Effect, Wanted
from telemetry.drivers.vda5050 import receipts
from telemetry.drivers.vda5050.errands import Errands
from telemetry.drivers.vda5050.ids import named, parse
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.mouth import Mouth
from telemetry.drivers.vda5050.orders import Orders
from telemetry.drivers.vda5050.receipts import Progress
from telemetry.drivers.vda5050.standing import automatic, busy

LOOK_S = 1.0  # then its state is asked for: what it does not know of it does not report


class _Asked(NamedTuple):
    command: Command
    at: datetime


class Cancels:
    """Dispatches that are to end, by the command that says so."""

    def __init__(self, known: Known, mouth: Mouth, errands: Errands, orders: Orders) -> None:
        self._known, self._mouth, self._errands, self._orders = known, mouth, errands, orders
        self._open: dict[UUID, _Asked] = {}

    def told(self, command: Command, now: datetime) -> None:
        self._open[command.id] = _Asked(command, now)
        self._errands.renew(str(command.id), now)
        for kind in ("mission.cancelled", "mission.finished"):  # its last word again
            self._mouth.forget(named(self._known.id, command.mission, command.dispatch_no, kind))

    def look(self, wanted: Wanted, shown: Progress | None, now: datetime) -> Iterator[Effect]:
        for name, asked in list(self._open.items()):
            yield from self._end(name, asked, wanted, shown, now)

    def _end(
        self, name: UUID, asked: _Asked, wanted: Wanted, shown: Progress | None, now: datetime
    ) -> Iterator[Effect]:
        known, command = self._known, asked.command
        which = command.mission, command.dispatch_no
        picture = known.picture
        if picture is None:
            return  # nobody knows what it does: the site's own deadline goes on
        sent_at = self._orders.sent_at(*which)
        coming = self._orders.on_its_way(*which, now)
        heard = known.heard_since(max(asked.at, sent_at) if sent_at is not None else asked.at)
        order = parse(picture.order_id)
        if order is not None and order[:2] == which and not coming:
            if shown is not None and wanted.dispatch is not None and receipts.finished(wanted.dispatch, picture, shown):
                yield from self._done(name, wanted, now)
                return
            ends = self._orders.ends(order)
            if not known.rests(str(name), *ends):
                if not self._errands.awaits(*ends):  # a second one may kill its next order
                    self._errands.add("cancelOrder", str(name), now)
                yield Delivered(command=name)
            elif heard:
                yield from self._say(command, {}, now)
                yield from self._done(name, wanted, now)
        elif coming:
            if known.profile.idle_cancel:
                self._errands.add("cancelOrder", str(name), now)
        elif heard and sent_at is not None and not picture.order_id and automatic(picture) and busy(picture):
            self._errands.add("cancelOrder", str(name), now)  # it names no order, and what it does may be ours
        elif heard:
            yield from self._say(command, {"why": "unknown"}, now)
            yield from self._done(name, wanted, now)
        if name in self._open and not heard and now >= asked.at + timedelta(seconds=LOOK_S):
            self._errands.add("stateRequest", str(named(known.id, name, "look")), now)

    def _say(self, command: Command, data: dict[str, str], now: datetime) -> Iterator[Effect]:
        word = named(self._known.id, command.mission, command.dispatch_no, "mission.cancelled")
        yield from self._mouth.say(
            word, "mission.cancelled", self._known.said_at(now), now,
            data=data, mission=command.mission, dispatch_no=command.dispatch_no,
        )  # fmt: skip

    def _done(self, name: UUID, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        """A pause ends with the dispatch that was paused, or the next one would begin paused."""
        del self._open[name]
        yield Delivered(command=name)
        picture, dispatch = self._known.picture, wanted.dispatch
        if picture is not None and picture.paused and dispatch is not None and dispatch.paused and not wanted.stopped:
            self._errands.add("stopPause", str(named(self._known.id, name, "unpause")), now)

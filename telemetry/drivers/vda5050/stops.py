"""Halts the robot for people: startPause, and cancelOrder where that does not help. It stays halted until released."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from telemetry.drivers.contract import Effect, Wanted
from telemetry.drivers.vda5050.errands import Errands
from telemetry.drivers.vda5050.ids import named, parse
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.mouth import Mouth
from telemetry.drivers.vda5050.orders import Orders
from telemetry.drivers.vda5050.standing import idle, stands

PAUSE_S = 2.0  # a robot that does not say "paused" by then has its order cancelled
LAG_S = 3.0  # what the site wants may say so long that it is stopped, after it was released


class Stops:
    """`since`: from when on it is to stand; None: it may move."""

    def __init__(self, known: Known, mouth: Mouth, errands: Errands, orders: Orders) -> None:
        self._known, self._mouth, self._errands, self._orders = known, mouth, errands, orders
        self._asked: dict[UUID, datetime] = {}
        self._since: datetime | None = None
        self._released_at: datetime | None = None

    def told(self, command: UUID, now: datetime) -> None:
        self._mouth.forget(named(self._known.id, command, "robot.stopped"))
        self._asked[command] = now
        self._released_at = None
        if self._since is None:
            self._since = now
        if self._known.profile.pause_supported:
            self._errands.drop("stopPause")
            self._errands.add("startPause", str(command), now)
            self._errands.renew(str(command), now)

    def released(self, command: UUID, wanted: Wanted, now: datetime) -> None:
        """It may move; a mission that is paused waits for its own command, a robot without one has nothing to wait for."""
        self._asked, self._since, self._released_at = {}, None, now
        self._errands.drop("startPause")
        at_work = wanted.dispatch is not None and wanted.dispatch.accepted
        if self._known.picture is not None and self._known.picture.paused and not at_work:
            self._errands.add("stopPause", str(command), now)

    def holds(self, wanted: Wanted, now: datetime) -> bool:
        """Whether it is to stand."""
        if self._since is not None:
            return True
        lags = self._released_at is not None and now < self._released_at + timedelta(seconds=LAG_S)
        return wanted.stopped and not lags

    def look(self, stopped: bool, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        picture = self._known.picture
        if not stopped:
            self._since = None
            return
        if picture is None:
            return
        if self._since is None:  # from before a restart
            self._since = now
        if stands(picture) and not self._coming(wanted, now):
            if self._known.heard_since(max(self._asked.values(), default=self._since)):
                self._errands.drop("startPause")
            for command, at in list(self._asked.items()):
                if self._known.heard_since(at):
                    del self._asked[command]
                    yield from self._mouth.say(
                        named(self._known.id, command, "robot.stopped"), "robot.stopped", self._known.said_at(now), now,
                        data={"reply_to": str(command)},
                    )  # fmt: skip
        elif not picture.paused and not idle(picture) and self._waited(now):
            self._cancel(now)

    def _waited(self, now: datetime) -> bool:
        pause_s = PAUSE_S if self._known.profile.pause_supported else 0.0
        return self._since is not None and now >= self._since + timedelta(seconds=pause_s)

    def _cancel(self, now: datetime) -> None:
        picture = self._known.picture
        if picture is None or not picture.order_id:
            return
        order = parse(picture.order_id)
        name = self._orders.ends(order)[1] if order else str(named(self._known.id, picture.order_id, "stop"))
        if order is not None:
            self._orders.cut.add(picture.order_id)
        self._errands.add("cancelOrder", name, now)

    def _coming(self, wanted: Wanted, now: datetime) -> bool:
        dispatch = wanted.dispatch
        return dispatch is not None and self._orders.on_its_way(dispatch.mission, dispatch.dispatch_no, now)

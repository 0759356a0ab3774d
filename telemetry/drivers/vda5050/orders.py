"""Gives the robot its orders: sends them until the robot shows them, and says so when it never does."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from telemetry.drivers.contract import Command, Complaint, Delivered, Dispatch, Effect, Wanted
from telemetry.drivers.vda5050 import meaning, plan, receipts, wishes
from telemetry.drivers.vda5050.errands import Errands, Tries
from telemetry.drivers.vda5050.ids import OrderId, named, parse
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.outgoing import Order
from telemetry.drivers.vda5050.picture import Picture
from telemetry.drivers.vda5050.receipts import Progress, Says
from telemetry.drivers.vda5050.standing import idle
from telemetry.drivers.vda5050.wishes import End, Give, StopCharging

ON_ITS_WAY_S = 3.0  # an order that the robot does not show after so long was lost
ROUNDS = 5  # a robot that was silent all the while gets all tries again when it is back, so often at most
UNPLUG_S = 30.0  # a robot that still says that it charges is given its order all the same


class Orders:
    """`cut`: orders that were ended because the robot had to stop; people may let them go on."""

    def __init__(self, known: Known, errands: Errands) -> None:
        self._known, self._errands = known, errands
        self._giving: Give | None = None
        self._tries: Tries | None = None
        self._rounds, self._there = 1, False
        self._order: Order | None = None
        self._sent: tuple[OrderId, datetime] | None = None
        self._refused: dict[Give, str] = {}
        self._unplug_since: datetime | None = None
        self._abandoned_since: datetime | None = None
        self._waiting: dict[UUID, Command] = {}
        self.cut: set[str] = set()
        self.resuming = False

    def recall(self, picture: Picture) -> None:
        """An order that was ended for a stop before this conversation began: its cancel still stands in the robot's state."""
        order = parse(picture.order_id)
        if order is not None and self.ends(order)[1] in picture.actions:
            self.cut.add(picture.order_id)

    def told(self, command: Command, now: datetime) -> None:
        """To begin, to try a step again, to skip one: what it comes to is read off what the site wants.

        It comes again when the site has heard nothing of it for long: then an order is sent once more, and so on. Nothing is
        said of one that the robot takes in silence for nothing: that is the site's own deadline.
        """
        self._waiting[command.id] = command
        if self._tries is not None and self._tries.over(now):
            self._tries = Tries(now)

    def rests(self, shown: Progress | None) -> bool:
        return self._known.rests(*self.ends(shown.order) if shown is not None else ())

    def ends(self, order: OrderId) -> tuple[str, ...]:
        """Ids of the cancels by which we end an order ourselves."""
        return tuple(str(named(self._known.id, order.text, kind)) for kind in ("end", "stop"))

    def sent_at(self, mission: UUID | None, dispatch_no: int | None) -> datetime | None:
        """When an order of this dispatch was sent last."""
        if self._sent is None or self._sent[0][:2] != (mission, dispatch_no):
            return None
        return self._sent[1]

    def on_its_way(self, mission: UUID | None, dispatch_no: int | None, now: datetime) -> bool:
        """An order of this dispatch was just sent, and the robot does not show it yet."""
        at, picture = self.sent_at(mission, dispatch_no), self._known.picture
        shown = picture is not None and self._sent is not None and picture.order_id == self._sent[0].text
        return at is not None and not shown and now < at + timedelta(seconds=ON_ITS_WAY_S)

    def look(self, wanted: Wanted, shown: Progress | None, now: datetime) -> Iterator[Effect]:
        """Send what is due."""
        picture, dispatch = self._known.picture, wanted.dispatch
        if picture is None:
            return
        if dispatch is None or not (dispatch.paused or picture.order_id in self.cut):
            self.resuming = False
        if dispatch is None:
            self._refused = {}
        wish = wishes.wish(wanted, picture, shown, rests=self.rests(shown), resuming=self.resuming)
        self._unplug_since = (self._unplug_since or now) if isinstance(wish, StopCharging) else None
        match wish:
            case Give():
                yield from self._give(wish, wanted, now)
            case End(order):
                self._errands.add("cancelOrder", self.ends(order)[0], now)
            case StopCharging(order):
                unplug = self._known.profile.stop_charging
                self._errands.add(unplug, str(named(self._known.id, order.text, "unplug")), now)
                if self._unplug_since is not None and now >= self._unplug_since + timedelta(seconds=UNPLUG_S):
                    yield from self._give(Give(order), wanted, now)
        self._leave_abandoned(wanted, now)
        yield from self._deliver(wanted, shown)

    def refusals(self, dispatch: Dispatch, shown: Progress | None) -> Iterator[Says]:
        """What the robot did not take."""
        picture = self._known.picture
        for (order, update), why in self._refused.items():
            if not order.is_of(dispatch):
                continue
            if not dispatch.accepted:
                yield Says("mission.rejected", {"why": why})
            elif not update:
                yield Says("mission.step_failed", {"why": why}, order.first, order.attempt)
            elif shown is None or (picture is not None and plan.is_released(shown.plan, picture)):
                continue  # it needed no update
            elif (task := receipts.due(dispatch, shown)) is not None:
                yield Says("mission.step_failed", {"why": why}, task.step, task.attempt)

    def _give(self, give: Give, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        known, picture, dispatch = self._known, self._known.picture, wanted.dispatch
        assert picture is not None and dispatch is not None
        if give in self._refused:
            return
        if give != self._giving or self._tries is None:
            self._giving, self._tries, self._rounds, self._there = give, Tries(now), 1, False
            self._order = None
        if self._tries.under_way and known.heard_since(self._tries.sent_at + timedelta(seconds=1)):
            self._there = True  # it was so while the order was on its way
        if why := meaning.rejected(picture, give.order.text, give.update):
            self._refused[give] = why
        elif self._tries.over(now):
            back = not self._there and known.heard_since(self._tries.sent_at + timedelta(seconds=1))
            if back and self._rounds < ROUNDS:
                self._tries, self._rounds = Tries(now), self._rounds + 1
        elif not known.gone and self._tries.take(now):
            here = plan.start(picture, known.profile)
            segment = plan.segment(dispatch, give.order, known.profile, here) if here is not None else None
            if segment is None:
                yield Complaint(field="agvPosition", reason="it does not say where it is, so it can be given no order")
                return
            self._sent = give.order, now
            after = plan.base(segment, picture) if give.update else None
            self._order = self._order or plan.order(
                segment, give.update, after
            )  # the same again, wherever it is by now
            yield known.order(self._order, now)

    def _deliver(self, wanted: Wanted, shown: Progress | None) -> Iterator[Delivered]:
        dispatch = wanted.dispatch
        for name, command in list(self._waiting.items()):
            mine = dispatch is not None and (command.mission, command.dispatch_no) == (
                dispatch.mission, dispatch.dispatch_no,
            )  # fmt: skip
            if not mine or dispatch is None:
                del self._waiting[name]  # what the site wants may lag behind: then the command comes again
                continue
            sent = self._sent is not None and self._sent[0][:4] == self._newest(dispatch)[:4]
            has = shown is not None and not shown.superseded
            if sent or has:
                del self._waiting[name]
                yield Delivered(command=command.id)

    def _newest(self, dispatch: Dispatch) -> OrderId:
        first = plan.next_first(dispatch)
        return OrderId(dispatch.mission, dispatch.dispatch_no, first, dispatch.steps[first - 1].attempt)

    def _leave_abandoned(self, wanted: Wanted, now: datetime) -> None:
        """An order that runs though its dispatch is over, such as one that was taken late. The site may only be behind: wait."""
        picture = self._known.picture
        order = wishes.abandoned(wanted, picture) if picture is not None else None
        if order is None or picture is None or idle(picture):
            self._abandoned_since = None
            return
        self._abandoned_since = self._abandoned_since or now
        if now >= self._abandoned_since + timedelta(seconds=ON_ITS_WAY_S):
            self._errands.add("cancelOrder", self.ends(order)[0], now)

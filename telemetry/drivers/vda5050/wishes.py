"""What the robot is to be sent next for its dispatch: an order, an update, the end of an order, or nothing. Pure."""

from typing import NamedTuple

from telemetry.drivers.contract import Wanted
from telemetry.drivers.vda5050 import plan, receipts
from telemetry.drivers.vda5050.ids import OrderId, parse
from telemetry.drivers.vda5050.picture import Picture
from telemetry.drivers.vda5050.receipts import Progress
from telemetry.drivers.vda5050.standing import automatic, idle


class Give(NamedTuple):
    """This update of this order."""

    order: OrderId
    update: int = 0


class End(NamedTuple):
    """The robot is still at an order that nobody wants any more."""

    order: OrderId


class StopCharging(NamedTuple):
    """It charges, and takes no order before it has stopped."""

    before: OrderId


Wish = Give | End | StopCharging | None


def wish(wanted: Wanted, picture: Picture, shown: Progress | None, *, rests: bool, resuming: bool = False) -> Wish:
    """`rests`: the order that it shows is over.

    `resuming`: people want a mission to go on that the site still has as paused.
    """
    dispatch = wanted.dispatch
    if dispatch is None or dispatch.stopping:
        return None
    held = wanted.stopped or (dispatch.paused and not resuming)
    if shown is None:
        if dispatch.accepted or held:
            return None  # it was lost at the robot: the site decides
        first = OrderId(dispatch.mission, dispatch.dispatch_no, plan.next_first(dispatch), _attempt(wanted))
        return _begin(first, picture, rests)
    failed = shown.failed is not None and not (resuming and not shown.failed.begun)
    if (shown.superseded or failed) and not rests:
        return End(shown.order)
    if held or failed or not dispatch.accepted:
        return None
    following = OrderId(dispatch.mission, dispatch.dispatch_no, plan.next_first(dispatch), _attempt(wanted))
    if shown.superseded or following.first > shown.plan.last:
        open_ = any(step.outcome not in receipts.OVER for step in dispatch.steps)
        return _begin(following, picture, rests) if open_ else None
    due = receipts.due(dispatch, shown)
    if resuming and rests and due is not None and due.kind != "wait":
        if due.step != following.first:
            return None  # the site has yet to hear that the robot has done more
        again = following[:4] == shown.order[:4]
        return _begin(following._replace(run=shown.order.run + 1) if again else following, picture, rests)
    update = 0 if picture.e_stopped else _update(picture, shown)
    return Give(shown.order, update) if update else None


def _begin(order: OrderId, picture: Picture, rests: bool) -> Wish:
    """Only a robot that is idle may be given a new order, and not while its emergency stop is pressed."""
    if not automatic(picture) or picture.e_stopped:
        return None
    if picture.battery.charging:
        return StopCharging(order)
    return Give(order) if rests else None


def _update(picture: Picture, shown: Progress) -> int:
    """Number of the update that is due, 0 when none is. One at a time: it begins where the base of the robot ends."""
    at = next((n for n, stop in enumerate(shown.plan.stops) if stop.sequence == shown.reached), 0)
    last, base = len(shown.plan.stops) - 1, plan.base(shown.plan, picture)
    if at == last or base >= last:
        return 0  # it has all, or drives on without being released
    if base < min(at + shown.plan.ahead, last) or picture.new_base_request:
        return picture.order_update_id + 1
    return 0


def _attempt(wanted: Wanted) -> int:
    assert wanted.dispatch is not None
    return wanted.dispatch.steps[plan.next_first(wanted.dispatch) - 1].attempt


def abandoned(wanted: Wanted, picture: Picture) -> OrderId | None:
    """An order of ours that the robot is at, and that belongs to no dispatch that the site wants."""
    order = parse(picture.order_id)
    if order is None or order.is_of(wanted.dispatch) or idle(picture):
        return None
    return order

"""What the robot says of the dispatch that it has been given: receipts, each once, from the order that it shows."""

from collections.abc import Iterator
from datetime import datetime

from telemetry.drivers.contract import Command, Dispatch, Say, Wanted
from telemetry.drivers.vda5050 import plan, receipts
from telemetry.drivers.vda5050.ids import named, parse
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.mouth import Mouth
from telemetry.drivers.vda5050.orders import Orders
from telemetry.drivers.vda5050.receipts import Progress


class Work:
    """Keeps the plan of the order that the robot shows: it is the same with each state."""

    def __init__(self, known: Known, mouth: Mouth, orders: Orders) -> None:
        self._known, self._mouth, self._orders = known, mouth, orders
        self._segment: plan.Plan | None = None

    def asked_again(self, assign: Command) -> None:
        """An assignment that comes again was not heard to be accepted: say that again."""
        self._mouth.forget(named(self._known.id, assign.mission, assign.dispatch_no, "mission.accepted"))

    def shown(self, dispatch: Dispatch | None, now: datetime) -> Progress | None:
        """None: what the robot shows is no order of this dispatch."""
        picture = self._known.picture
        order = parse(picture.order_id) if picture is not None else None
        if picture is None or dispatch is None or order is None or not order.is_of(dispatch):
            return None
        if self._segment is None or self._segment.order != order:
            self._segment = plan.segment(dispatch, order, self._known.profile)
        return receipts.progress(dispatch, self._segment, picture, now) if self._segment is not None else None

    def look(self, wanted: Wanted, shown: Progress | None, now: datetime) -> Iterator[Say]:
        dispatch, picture = wanted.dispatch, self._known.picture
        if dispatch is None or picture is None:
            return
        said = list(receipts.words(dispatch, picture, shown, withheld=self._withheld(wanted, shown)))
        said += self._orders.refusals(dispatch, shown)
        for word in said:
            about = dispatch.mission, dispatch.dispatch_no, *((word.step, word.attempt) if word.step else ())
            yield from self._mouth.say(
                named(self._known.id, *about, word.type), word.type, self._known.said_at(now), now, data=word.data,
                mission=dispatch.mission, dispatch_no=dispatch.dispatch_no, step=word.step, attempt=word.attempt,
            )  # fmt: skip

    def _withheld(self, wanted: Wanted, shown: Progress | None) -> bool:
        """What has failed may have failed because its order was ended for people."""
        dispatch, picture = wanted.dispatch, self._known.picture
        if dispatch is None or picture is None or dispatch.stopping:
            return True
        if not self._orders.resuming:
            return wanted.stopped or dispatch.paused or picture.order_id in self._orders.cut
        # it was ended before the robot came to it: the robot goes on with it
        return shown is not None and shown.failed is not None and not shown.failed.begun

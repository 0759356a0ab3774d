"""What the robot says of itself: its mode and dispatch, faults, whether it is paused, and answers to questions."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from telemetry.drivers.contract import Say, Wanted
from telemetry.drivers.vda5050 import meaning, receipts
from telemetry.drivers.vda5050.errands import Errands
from telemetry.drivers.vda5050.ids import named, parse
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.meaning import Fault
from telemetry.drivers.vda5050.mouth import Mouth
from telemetry.drivers.vda5050.orders import Orders
from telemetry.drivers.vda5050.receipts import Progress
from telemetry.drivers.vda5050.standing import idle, unreadable

NEXT_STATE_S = 0.5  # a state that comes so long after a question was written after it, also if it does not name it
NO_ANSWER_S = 60.0
ASK_PAUSES_S = (2, 4)


class Telling:
    """Words that change are said when they do, and once when the link begins."""

    def __init__(self, known: Known, mouth: Mouth, errands: Errands, orders: Orders) -> None:
        self._known, self._mouth, self._errands, self._orders = known, mouth, errands, orders
        self._questions: dict[UUID, datetime] = {}
        self.begin()

    def begin(self) -> None:
        self._state: Any = None
        self._faults: dict[str, Fault] = {}
        self._paused: tuple[str, bool] | None = None

    def asked(self, command: UUID, now: datetime) -> None:
        self._questions[command] = now
        self._errands.add("stateRequest", str(command), now, ASK_PAUSES_S)

    def look(self, wanted: Wanted, shown: Progress | None, stopped: bool, now: datetime) -> Iterator[Say]:
        yield from self._tell_faults(now)
        yield from self._tell_state(wanted, shown, now)
        yield from self._tell_paused(wanted, shown, stopped, now)
        yield from self._answer(wanted, shown, now)

    def _tell_faults(self, now: datetime) -> Iterator[Say]:
        """A text alone that changes is not said anew: some robots tell the time in it."""
        picture = self._known.picture
        found = meaning.faults(picture) if picture is not None else None
        if picture is None or found is None:
            return
        new = {fault.code: fault for fault in (*meaning.warnings(picture), *found)}
        for code, fault in new.items():
            before = self._faults.get(code)
            if before is None or (before.danger, before.kind) != (fault.danger, fault.kind):
                yield from self._change("robot.fault", fault._asdict(), now, about=f"fault {code}")
                self._state = None
        for code in self._faults.keys() - new.keys():
            yield from self._change("robot.fault_cleared", {"code": code}, now, about=f"fault {code}")
            self._state = None
        self._faults = new

    def _tell_state(self, wanted: Wanted, shown: Progress | None, now: datetime) -> Iterator[Say]:
        data = self._data(wanted, shown)
        if data is None:
            return
        said = data["mode"], data["mission"], data["dispatch_no"], data["ended"]
        if said != self._state:
            self._state = said
            yield from self._change("robot.state", data, now, about="state")

    def _tell_paused(self, wanted: Wanted, shown: Progress | None, stopped: bool, now: datetime) -> Iterator[Say]:
        """Paused is what the robot says of itself, or an order that was ended because it had to stop, and may go on."""
        picture, dispatch = self._known.picture, wanted.dispatch
        if picture is None or dispatch is None or unreadable(picture) or dispatch.stopping:
            return
        if shown is None:
            yield from self._nothing_to_resume(wanted, now)
            return
        if not self._orders.resuming and receipts.finished(dispatch, picture, shown):
            return
        cut = (stopped or picture.order_id in self._orders.cut) and self._orders.rests(shown)
        if cut and self._orders.resuming and shown.failed is not None and shown.failed.begun:
            self._orders.cut.discard(picture.order_id)  # it cannot go on with what it had begun: that has failed
            cut = False
        paused = picture.paused or (cut and receipts.due(dispatch, shown) is not None)
        of = f"{dispatch.mission}.{dispatch.dispatch_no}"
        if self._paused is not None and self._paused[0] == of:
            news = paused != self._paused[1]
        else:  # the link has just begun: what the site believes may be of before
            news = paused or dispatch.paused
        if news and (paused or not stopped):
            kind = "mission.paused" if paused else "mission.resumed"
            yield from self._change(
                kind, {}, now, about="paused", mission=dispatch.mission, dispatch_no=dispatch.dispatch_no
            )
        if paused or not stopped:
            self._paused = of, paused

    def _nothing_to_resume(self, wanted: Wanted, now: datetime) -> Iterator[Say]:
        """It has lost the order in the meantime: it is not paused, and says anew that it is idle, so that the site asks."""
        picture, dispatch = self._known.picture, wanted.dispatch
        if picture is None or dispatch is None or not (self._orders.resuming and dispatch.accepted and dispatch.paused):
            return
        if idle(picture) and not picture.paused:
            self._orders.resuming, self._state = False, None
            more = {"mission": dispatch.mission, "dispatch_no": dispatch.dispatch_no}
            yield from self._change("mission.resumed", {}, now, about="paused", **more)

    def _answer(self, wanted: Wanted, shown: Progress | None, now: datetime) -> Iterator[Say]:
        """By a state that was written after the question, and not while an order is on its way."""
        picture, dispatch = self._known.picture, wanted.dispatch
        for command, at in list(self._questions.items()):
            if now > at + timedelta(seconds=NO_ANSWER_S):
                del self._questions[command]
            told = picture is not None and str(command) in picture.actions
            later = self._known.heard_since(at + timedelta(seconds=0 if told else NEXT_STATE_S))
            coming = dispatch is not None and self._orders.on_its_way(dispatch.mission, dispatch.dispatch_no, now)
            data = self._data(wanted, shown)
            if later and not coming and data is not None:
                self._questions.pop(command, None)
                name = named(self._known.id, command, "answer")
                data["reply_to"] = str(command)
                yield from self._mouth.say(
                    name, "robot.state", self._known.said_at(now), now, about="answer", data=data
                )

    def _data(self, wanted: Wanted, shown: Progress | None) -> dict[str, Any] | None:
        """Of robot.state: with the dispatch whose order the robot shows, whether or not the site still wants it."""
        picture = self._known.picture
        mode = meaning.mode(picture) if picture is not None else None
        if picture is None or mode is None:
            return None
        order, dispatch = parse(picture.order_id), wanted.dispatch
        data: dict[str, Any] = {
            "mode": mode,
            "mission": str(order.mission) if order else None,
            "dispatch_no": order.dispatch_no if order else None,
            "ended": "",
        }
        if shown is not None and dispatch is not None:
            now_at = receipts.due(dispatch, shown)
            outcomes = {step.number for step in dispatch.steps if step.outcome == "completed"}
            data["completed"] = sorted(outcomes | shown.done.keys())
            if now_at is not None:
                data["step"] = now_at.step
            if receipts.finished(dispatch, picture, shown):
                data["ended"] = "finished"
            elif dispatch.stopping and self._orders.rests(shown):
                data["ended"] = "cancelled"
        return data

    def _change(self, kind: str, data: dict[str, Any], now: datetime, *, about: str, **more: Any) -> Iterator[Say]:
        name = self._mouth.changing()
        yield from self._mouth.say(name, kind, self._known.said_at(now), now, about=about, data=data, **more)

"""The talk with one VDA 5050 robot: what it says becomes words for the site, what the site wants becomes messages for it.

It keeps a cache of the robot's newest words and of what was sent, nothing that a restart would lose: order ids name the
dispatch, and the site's wishes come with each call.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec.structs import replace

from telemetry.drivers.contract import (
    Begins,
    Command,
    Complaint,
    Delivered,
    Effect,
    Heard,
    Link,
    Offers,
    Say,
    Spec,
    Tell,
    Wanted,
)
from telemetry.drivers.vda5050 import meaning, plan, reading
from telemetry.drivers.vda5050.cancels import Cancels
from telemetry.drivers.vda5050.doubles import Doubles
from telemetry.drivers.vda5050.errands import Errands
from telemetry.drivers.vda5050.ids import named
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.mouth import Mouth
from telemetry.drivers.vda5050.orders import Orders
from telemetry.drivers.vda5050.silence import Flow, Silence
from telemetry.drivers.vda5050.stops import Stops
from telemetry.drivers.vda5050.telling import ASK_PAUSES_S, Telling
from telemetry.drivers.vda5050.working import Work


class Vda5050Conversation:
    """A `contract.Conversation`."""

    def __init__(self, spec: Spec) -> None:
        self._known = Known(spec)
        self._mouth = Mouth(spec.id)
        self._errands = Errands(self._known)
        self._orders = Orders(self._known, self._errands)
        self._work = Work(self._known, self._mouth, self._orders)
        self._cancels = Cancels(self._known, self._mouth, self._errands, self._orders)
        self._stops = Stops(self._known, self._mouth, self._errands, self._orders)
        self._telling = Telling(self._known, self._mouth, self._errands, self._orders)
        self._silence = Silence(self._known, self._errands)
        self._flow = Flow(self._known.profile.max_states_per_s)
        self._doubles = Doubles()
        self._began = self._has_factsheet = False
        self._called = ""  # id of the question whether it is there
        self._asked = (
            False  # to pause, resume or stop, in this conversation: until then the site's wish is one of before
        )

    def begun(self, session: int, applied: dict[int, int], now: datetime) -> Iterator[Effect]:
        known = self._known
        known.session = session
        self._mouth.begin(session)
        self._telling.begin()
        self._errands.add("stateRequest", str(named(known.id, session, "state")), now, ASK_PAUSES_S)
        if not self._has_factsheet:
            self._errands.add("factsheetRequest", str(named(known.id, session, "factsheet")), now, ASK_PAUSES_S)
        yield from self._errands.step(now)

    def hear(self, message: Heard, wanted: Wanted) -> Iterator[Effect]:
        read = _PARTS.get(message.part)
        if read is None or (message.retained and message.part != "factsheet"):
            return
        if not message.retained and message.part != "connection":
            yield from self._alive(message.at)
        if not message.too_long:
            yield from read(self, message, wanted)

    def stored(self, word: Say, verdict: str, now: datetime) -> Iterator[Effect]:
        self._mouth.stored(word.id)
        return iter(())

    def command(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        carry_out = _COMMANDS.get(command.type)
        if carry_out is None:
            yield Complaint(field="command", reason=f"{command.type[:60]} is not known to this driver")
            yield Delivered(command=command.id)
            return
        yield from carry_out(self, command, wanted, now)
        yield from self._look(wanted, now)

    def step(self, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        for message in self._flow.waiting(now):
            yield from self._take_state(message, wanted)
        if not self._began:
            yield from self._call(now)
        yield from self._silence.step(now)
        yield from self._look(wanted, now)
        yield from self._mouth.step(now)

    def _call(self, now: datetime) -> Iterator[Effect]:
        """One that stands may say nothing for half a minute, and until it speaks it can be sent no stop: ask for its state."""
        self._called = self._called or str(named(self._known.id, now.isoformat(), "call"))
        self._errands.add("stateRequest", self._called, now)
        yield from self._errands.step(now)

    # --- what it says

    def _alive(self, at: datetime) -> Iterator[Effect]:
        if not self._began:
            self._began = True
            self._errands.drop("stateRequest")
            yield Begins()
        self._known.gone = False
        self._silence.heard(at)
        yield Link(hint="alive")

    def _hear_state(self, message: Heard, wanted: Wanted) -> Iterator[Effect]:
        if self._flow.take(message):
            yield from self._take_state(message, wanted)

    def _take_state(self, message: Heard, wanted: Wanted) -> Iterator[Effect]:
        known = self._known
        picture = reading.state(message.payload, known.profile.max_payload_bytes)
        if isinstance(picture, Complaint):
            yield picture
            return
        yield from picture.wrong
        if self._doubles.heard(picture, message.at):
            yield Link(hint="doubled")
        is_first = known.picture is None
        known.picture, known.heard_at = picture, message.at
        if is_first:
            self._orders.recall(picture)
        facts = meaning.telemetry(picture.position, picture.velocity, picture.battery, plan.place(picture))
        if picture.at is not None:
            facts["skew_s"] = round((picture.at - message.at).total_seconds(), 1)
        yield Tell(facts={**facts, "carries": meaning.carries(picture)})
        yield from self._look(wanted, message.at)

    def _hear_connection(self, message: Heard, wanted: Wanted) -> Iterator[Effect]:
        told = reading.connection(message.payload, self._known.profile.max_payload_bytes)
        if isinstance(told, Complaint):
            yield told
        elif told.state == "online":
            yield from self._alive(message.at)
        else:
            self._known.gone = True
            yield Link(hint="gone")

    def _hear_visualization(self, message: Heard, wanted: Wanted) -> Iterator[Effect]:
        told = reading.visualization(message.payload, self._known.profile.max_payload_bytes)
        if isinstance(told, Complaint):
            yield told
            return
        yield from told.wrong
        if facts := meaning.telemetry(told.position, told.velocity):
            yield Tell(facts=facts)

    def _hear_factsheet(self, message: Heard, wanted: Wanted) -> Iterator[Effect]:
        told = reading.factsheet(message.payload, self._known.profile.max_payload_bytes)
        if isinstance(told, Complaint):
            yield told
            return
        yield from told.wrong
        self._has_factsheet = True
        offers = meaning.capabilities(told, self._known.profile)
        if offers is not None:
            yield Offers(capabilities=offers)

    # --- what it is told

    def _begin(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        """An assignment that comes again was not heard to be accepted: say that again."""
        if command.type == "mission.assign":
            self._work.asked_again(command)
        self._orders.told(command, now)
        return iter(())

    def _pause(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        if self._known.picture is None:
            return  # it comes again
        self._asked, self._orders.resuming = True, False
        if self._known.profile.pause_supported:
            self._errands.drop("stopPause")
            self._errands.add("startPause", str(command.id), now)
        else:
            yield Complaint(field="mission.pause", reason="robots of this brand cannot be paused")
        yield Delivered(command=command.id)

    def _resume(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        if self._known.picture is None:
            return
        self._asked = True
        if not self._stops.holds(wanted, now):
            self._go_on(str(command.id), now)
        yield Delivered(command=command.id)

    def _go_on(self, name: str, now: datetime) -> None:
        self._orders.resuming = True
        pausing = self._errands.drop("startPause")
        if pausing or (self._known.picture is not None and self._known.picture.paused):
            self._errands.add("stopPause", name, now)

    def _cancel(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        self._cancels.told(command, now)
        return iter(())

    def _stop(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        self._asked, self._orders.resuming = True, False
        self._stops.told(command.id, now)
        yield Delivered(command=command.id)

    def _release(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        self._stops.released(command.id, wanted, now)
        yield Delivered(command=command.id)

    def _query(self, command: Command, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        self._telling.asked(command.id, now)
        yield Delivered(command=command.id)

    # --- what comes of both

    def _look(self, wanted: Wanted, now: datetime) -> Iterator[Effect]:
        """Say what is new, and send what is due."""
        known = self._known
        picture = known.picture
        stopped = self._stops.holds(wanted, now)
        if picture is not None and known.session is not None:
            wanted = replace(wanted, stopped=stopped)
            if not (self._asked or stopped) and wanted.dispatch is not None and wanted.dispatch.resuming:
                self._asked = True  # a gateway before this one was told to, and may not have come to it
                self._go_on(str(named(known.id, known.session, "resume")), now)
            shown = self._work.shown(wanted.dispatch, now)
            yield from self._work.look(wanted, shown, now)
            yield from self._telling.look(wanted, shown, stopped, now)
            yield from self._cancels.look(wanted, shown, now)
            yield from self._orders.look(wanted, shown, now)
        yield from self._stops.look(stopped, wanted, now)
        yield from self._errands.step(now)


_PARTS: dict[str, Callable[[Vda5050Conversation, Heard, Wanted], Iterator[Effect]]] = {
    "state": Vda5050Conversation._hear_state,
    "connection": Vda5050Conversation._hear_connection,
    "visualization": Vda5050Conversation._hear_visualization,
    "factsheet": Vda5050Conversation._hear_factsheet,
}
_COMMANDS: dict[str, Callable[[Vda5050Conversation, Command, Wanted, datetime], Iterator[Effect]]] = {
    "mission.assign": Vda5050Conversation._begin,
    "mission.retry_step": Vda5050Conversation._begin,
    "mission.skip_step": Vda5050Conversation._begin,
    "mission.pause": Vda5050Conversation._pause,
    "mission.resume": Vda5050Conversation._resume,
    "mission.cancel": Vda5050Conversation._cancel,
    "robot.stop": Vda5050Conversation._stop,
    "robot.release": Vda5050Conversation._release,
    "robot.query_state": Vda5050Conversation._query,
}

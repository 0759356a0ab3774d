"""The bench: time, and a gateway that carries out what a driver answers, and looks at it."""

from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from msgspec.structs import replace

from telemetry.drivers.contract import (
    Begins,
    Command,
    Complaint,
    Conversation,
    Delivered,
    Effect,
    Heard,
    Link,
    Offers,
    Say,
    Send,
    Tell,
    Wanted,
)
from telemetry.drivers.kit.double import Case, Deed, Failed, Kind, Said
from telemetry.drivers.kit.site import Site
from telemetry.drivers.kit.truth import Truth, in_words
from telemetry.drivers.kit.wire import Wire, matches

TICK = timedelta(seconds=0.5)
LOOK_S = 1.0  # the gateway's look at the database, and `Conversation.step`
MOST = 500  # effects of one call
BEGIN = datetime(2026, 11, 29, 10, tzinfo=UTC)
HINTS = ("alive", "gone", "unanswered", "doubled")


class Bench:
    """One robot, its conversation and its site. `run_until` lets time pass."""

    def __init__(self, case: Case, robot: int = 0) -> None:
        self.case, self.driver, self.spec = case, case.driver, case.robots[robot]
        self.now = BEGIN
        self.robot = case.double(self.spec, self.now)
        self.site = Site(self.spec, self.driver.timing)
        self.truth = Truth(case, self.robot, self.site, self.now)
        self.up: Wire[Said] = Wire()
        self.down: Wire[Send] = Wire()
        self.twice = False  # each command is given a second time
        self.words: dict[UUID, Say] = {}
        self.complaints: list[Complaint] = []
        self.hints: list[str] = []
        self.told: list[Tell] = []
        self.offers: list[Offers] = []
        self.log: deque[str] = deque(maxlen=40)
        self.session = 0
        self.sayings: deque[Said] = deque(maxlen=200)  # live messages as they came
        self._retained: dict[str, Said] = {}
        self._later: list[Callable[[], Iterable[Effect]]] = []  # answers of the site's stores
        self._looked_at = self.now
        self.connect()

    # --- the gateway

    def connect(self) -> None:
        """A gateway begins: it knows nothing, and the broker gives it what lies there retained."""
        self.talk: Conversation = self.driver.converse(self.spec)
        self.heard = False  # a live message since then
        self._later, self.wanted = [], self._wanted()
        self.site.reconnected(self.now)
        self.up.cut()
        for said in list(self._retained.values()):
            self.hear(said, retained=True)

    def hear(self, said: Said, retained: bool = False, too_long: bool = False) -> None:
        """A message comes. `too_long`: the gateway has let go of its payload."""
        whose = self.driver.whose(said.topic)
        if whose is None or whose[0] != self.spec.address:
            raise self.failed(f"`whose` of {said.topic} is {whose}: it is {self.spec.address}'s")
        if not any(matches(pattern, said.topic) for pattern, _ in self.driver.topics(self.spec)):
            raise self.failed(f"`topics` has no filter for {said.topic}")
        self.log.append(
            f"{self._clock()} robot  {'(retained) ' if retained else ''}{said.topic} {said.payload[:200]!r}"
        )
        if not retained:
            self.heard = True
            self.sayings.append(said)
        payload = b"" if too_long else said.payload
        heard = Heard(part=whose[1], payload=payload, at=self.now, retained=retained, too_long=too_long)
        self.answered("hear", lambda: self.talk.hear(heard, self.wanted), retained)

    def answered(self, method: str, call: Callable[[], Iterable[Effect]], retained: bool = False) -> list[Effect]:
        """Carry out what the driver answers; returns it."""
        try:
            effects = list(call())
        except Exception as error:  # a driver may raise anything
            raise self.failed(f"`{method}` raised {error!r}") from error
        if len(effects) > MOST:
            raise self.failed(f"`{method}` answered with {len(effects)} effects")
        for effect in effects:
            if not isinstance(effect, get_args(Effect)):
                raise self.failed(f"`{method}` answered with {effect!r}, which is no effect of the contract")
            if retained and (isinstance(effect, Begins | Say | Tell | Delivered) or effect == Link(hint="alive")):
                raise self.failed(f"a retained message may be ages old, and yet it was answered with {effect!r}")
            _CARRY_OUT[type(effect)](self, effect)
        return effects

    def try_out(self, talk: Conversation, topic: str, payload: bytes) -> None:
        """Hears it beside the wire. Nothing is carried out."""
        whose = self.driver.whose(topic)
        heard = Heard(part=whose[1] if whose else "", payload=payload, at=self.now)
        try:
            effects = list(talk.hear(heard, self.wanted))
        except Exception as error:  # a driver may raise anything
            raise self.failed(f"`hear` raised {error!r} at {payload[:200]!r}") from error
        for effect in effects:
            if not isinstance(effect, get_args(Effect)):
                raise self.failed(f"`hear` answered {payload[:200]!r} with {effect!r}, no effect of the contract")
            if isinstance(effect, Complaint):
                self.complaints.append(effect)

    def _send(self, send: Send) -> None:
        if not self.heard and not send.asks:
            raise self.failed(f"{send.topic} is sent before the robot was heard: what does it do now?")
        if send.topic not in self.driver.commands(self.spec):
            raise self.failed(f"{send.topic} is none of `commands`")
        if not isinstance(send.payload, bytes):
            raise self.failed(f"the payload for {send.topic} is no bytes")
        self.log.append(f"{self._clock()} driver {send.topic} {send.payload[:200]!r}")
        self.down.put(send)

    def _say(self, word: Say) -> None:
        self.log.append(f"{self._clock()} driver says {word.type} {word.step or ''} {word.data}")
        if wrong := self.truth.wrong(word):
            raise self.failed(wrong)
        verdict = "duplicate" if word.id in self.words else "stored"
        if verdict == "stored":
            self.words[word.id] = word
            self.site.apply(word, self.now)
        self._later.append(lambda: self.talk.stored(word, verdict, self.now))

    def _wanted(self) -> Wanted:
        return replace(self.site.wanted(), applied=self._applied())

    def _applied(self) -> dict[int, int]:
        """Session → seq up to which nothing is missing."""
        applied: dict[int, int] = {}
        for session, seq in sorted((w.session, w.seq) for w in self.words.values() if w.session and w.seq):
            if seq == applied.get(session, 0) + 1:
                applied[session] = seq
        return applied

    def _begins(self, begins: Begins) -> None:
        self.session += 1
        session, talk = self.session, self.talk
        self.site.reconnected(self.now)
        self._later.append(lambda: talk.begun(session, self._applied(), self.now))

    def _tell(self, tell: Tell) -> None:
        numbers = {k: v for k, v in tell.facts.items() if k not in ("place", "carries") and v is not None}
        if not all(isinstance(value, int | float) for value in numbers.values()):
            raise self.failed(f"telemetry that is no number: {tell.facts}")
        self.told.append(tell)

    def _delivered(self, delivered: Delivered) -> None:
        if not self.site.delivered(delivered.command, self.now):
            raise self.failed(f"command {delivered.command} is said to be delivered, and was never given")

    def _link(self, link: Link) -> None:
        if link.hint not in HINTS:
            raise self.failed(f"there is no hint {link.hint!r}")
        self.hints.append(link.hint)

    # --- time

    def tick(self) -> None:
        """Half a second."""
        self.now += TICK
        for sent in self.down.take():
            self.robot.take(sent, self.now)
        for said in self.robot.step(self.now):
            if said.retain:
                self._retained[said.topic] = said
            self.up.put(said)
        self.truth.pass_time(self.now)
        for said in self.up.take():
            self.hear(said)
        later, self._later = self._later, []
        for call in later:
            self.answered("begun or stored", call)
        if (self.now - self._looked_at).total_seconds() >= LOOK_S:
            self._looked_at, self.wanted = self.now, self._wanted()
            self.answered("step", lambda: self.talk.step(self.wanted, self.now))
        for command in self.site.due(self.now):
            self.command(command)

    def command(self, command: Command) -> None:
        for _ in range(2 if self.twice else 1):
            self.answered("command", lambda: self.talk.command(command, self.wanted, self.now))

    def run(self, seconds: float) -> None:
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.tick()

    def run_until(self, what: str, holds: Callable[[], object], within_s: float = 120) -> None:
        """Fails if it does not come about within so long."""
        end = self.now + timedelta(seconds=within_s)
        while not holds():
            if self.now >= end:
                raise self.failed(f"{within_s:.0f} s, and not yet: {what} (the robot did {in_words(self.deeds())})")
            self.tick()

    # --- people

    def assign(self) -> Command:
        """The case's mission."""
        made = self.site.assign(self.case.steps, self.now)
        self.truth.given(made)
        return made

    def deeds(self) -> list[Deed]:
        """What the robot did of the mission at hand."""
        return self.truth.deeds()

    def did(self, kind: Kind, step: int = 0) -> bool:
        return Deed(kind, step) in self.deeds()

    def said(self, type: str) -> list[Say]:
        about = self.site.dispatch
        mine = [word for word in self.words.values() if word.type == type]
        return [word for word in mine if word.mission is None or (about and word.mission == about.mission)]

    # --- what is told when it fails

    def check(self, holds: object, what: str) -> None:
        if not holds:
            raise self.failed(what)

    def failed(self, what: str) -> Failed:
        return Failed(f"{self.driver.name}, after {self._clock()}: {what}\n" + "\n".join(self.log))

    def _clock(self) -> str:
        return f"{(self.now - BEGIN).total_seconds():6.1f} s"


_CARRY_OUT: dict[type, Callable[[Bench, Any], None]] = {
    Send: Bench._send,
    Say: Bench._say,
    Tell: Bench._tell,
    Begins: Bench._begins,
    Delivered: Bench._delivered,
    Link: Bench._link,
    Offers: lambda bench, offers: bench.offers.append(offers),
    Complaint: lambda bench, complaint: bench.complaints.append(complaint),
}

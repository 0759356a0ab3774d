"""What a conversation knows of its robot: a cache of its newest words, and how it is written to."""

from datetime import datetime

from telemetry.drivers.contract import Send, Spec
from telemetry.drivers.vda5050 import meaning, writing
from telemetry.drivers.vda5050.outgoing import Action, Header, Order
from telemetry.drivers.vda5050.picture import Picture
from telemetry.drivers.vda5050.profile import Profile
from telemetry.drivers.vda5050.standing import INSTANT, idle, unreadable

_UINT32 = 2**32

_QUESTIONS = ("stateRequest", "factsheetRequest")


class Known:
    """`picture`: its newest live state, heard at `heard_at`; None: nothing was heard, so nothing is sent."""

    def __init__(self, spec: Spec) -> None:
        self.id = spec.id
        self.address = spec.address
        self.profile: Profile = spec.profile
        self.session: int | None = None
        self.picture: Picture | None = None
        self.heard_at: datetime | None = None
        self.gone = False
        self._headers: dict[str, int] = {}

    def heard_since(self, at: datetime) -> bool:
        return self.heard_at is not None and self.heard_at > at

    def said_at(self, now: datetime) -> datetime:
        """When the robot said what it said last, by its own clock if it has one."""
        return (self.picture.at if self.picture is not None else None) or self.heard_at or now

    def order(self, order: Order, now: datetime) -> Send:
        header = self._header("order", now)
        return Send(topic=self._topic("order"), payload=writing.order(header, order, self.profile))

    def action(self, action: Action, now: datetime) -> Send:
        """One a message: what is wrong with one costs no other."""
        header = self._header("instantActions", now)
        payload = writing.instant_actions(header, [action], self.profile)
        return Send(topic=self._topic("instantActions"), payload=payload, asks=action.type in _QUESTIONS)

    def rests(self, *cancels: str) -> bool:
        """Its order is over: it is idle, or says that one of these cancels is done and does nothing any more."""
        picture = self.picture
        if picture is None or unreadable(picture):
            return False
        if idle(picture):
            return True
        cancelled = any(name in picture.actions and picture.actions[name].status == "FINISHED" for name in cancels)
        return cancelled and not picture.driving and not self._acts(picture)

    def _acts(self, picture: Picture) -> bool:
        """An action of its order has not ended."""
        ours = picture.order_id + "."
        beside = {*INSTANT, self.profile.start_charging, self.profile.stop_charging}
        return any(
            not state.ended and (name.startswith(ours) or state.type not in beside)
            for name, state in picture.actions.items()
        )

    def _header(self, part: str, now: datetime) -> Header:
        """Numbers begin with the time, so that they go on rising after a restart."""
        number = self._headers.get(part, int(now.timestamp())) % _UINT32
        self._headers[part] = number + 1
        version = meaning.version(self.picture, self.profile)
        return Header(header_id=number, at=now, version=version, address=self.address)

    def _topic(self, part: str) -> str:
        return writing.topic(self.profile, self.address, part)

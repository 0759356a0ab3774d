"""A link over a driver: its commands go through the robot's conversation, and it may be quiet for as long as its brand may."""

import math
from functools import partial
from typing import Protocol

from telemetry.gateways.link import SILENT_S, Link
from telemetry.gateways.mqtt.enrolled import Robot
from telemetry.gateways.rows import Asked

MQTT = "MQTT"


class Driven(Protocol):
    """What such a link needs of the talk with its robot."""

    robot: Robot

    @property
    def may_send(self) -> bool: ...

    async def send(self, frame: str) -> None: ...

    def applied(self, applied: dict[int, int]) -> None: ...

    async def closed(self, link: "DrivenLink", code: int) -> None: ...


class DrivenLink(Link):
    """`said`, `told`: messages that we have numbered, as the robot does not."""

    def __init__(
        self, talk: Driven, session: int, credential: int | None, applied: dict[int, int], heard: float
    ) -> None:
        id = talk.robot.spec.id
        super().__init__(id, session, credential, talk.send, partial(talk.closed, self), applied, MQTT, heard)
        self._talk = talk
        self.said = self.told = 0

    def ask(self, now: float = -math.inf) -> Asked:
        """Over a broker that is away nothing can be sent, so nothing is marked as sent."""
        robot = self._talk.robot
        asked = super().ask(now)
        return asked._replace(takes=self._talk.may_send, address=robot.spec.address, brand=robot.brand)

    def passed(self, applied: dict[int, int]) -> None:
        """Its robot may be told, if it asks."""
        super().passed(applied)
        if applied:
            self._talk.applied(self.watermarks())

    def silent(self, now: float) -> bool:
        """Some say something twice a minute only, and are well."""
        return now - self.heard > max(SILENT_S, self._talk.robot.suspect_after_s)

"""A simulated robot's link, whatever it goes over: obey, learn what is stored, come back after a loss.

`over_socket` and `over_http` have the rest: hello, and how messages come and go.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from websockets.exceptions import InvalidHandshake, WebSocketException

from telemetry.protocol import COME_BACK, REPLACED, UNAUTHORISED
from telemetry.simulator.faults import Faults
from telemetry.simulator.outbox import Outbox

log = logging.getLogger("robot")
BACKOFF_S = (0.5, 1.0, 2.0, 4.0)  # the last one repeats; ± half
LONG_S = {UNAUTHORISED: 30.0, REPLACED: 10.0}  # after these close codes trying soon is of no use
SILENT_S = 10.0  # without a word from the site the link is taken for dead
REMEMBERED = 500  # commands by msg_id


class LinkLost(Exception):
    """The site has ended it. `code` as a close code, 0 when there is none."""

    def __init__(self, why: str, code: int = 0) -> None:
        super().__init__(why)
        self.code = code


class Link:
    """Keeps one robot connected. `obey(command)` acts, `greet()` follows each welcome, `battery()` goes with heartbeats.

    `keep()` comes before an acknowledgement or a critical message leaves. `obeyed`: commands by msg_id, the oldest first.
    """

    def __init__(
        self, url: str, token: str, robot: str, outbox: Outbox, *, obey: Callable[[dict[str, Any]], None],
        greet: Callable[[], None], keep: Callable[[], None], battery: Callable[[], float], chance: random.Random,
        faults: Faults | None = None,
    ) -> None:  # fmt: skip
        self._url, self._token, self._robot, self._outbox = url, token, robot, outbox
        self._obey, self._greet, self._keep, self._battery, self._chance = obey, greet, keep, battery, chance
        self._faults = faults or Faults(robot)
        self.is_up = False
        self._news = asyncio.Event()
        self.obeyed: OrderedDict[str, None] = OrderedDict()
        self._failures = 0
        self._away = asyncio.Event()
        self._away_until = 0.0  # by time.monotonic()

    def leave(self, for_s: float) -> None:
        """Out of reach for so long."""
        self._away_until = time.monotonic() + for_s
        self._away.set()

    def news(self) -> None:
        """The outbox has something new."""
        self._news.set()

    async def tell(self, type: str, data: dict[str, Any]) -> None:
        """Send something that may be lost."""
        raise NotImplementedError

    async def _talk(self) -> None:
        """One link from its hello to its end."""
        raise NotImplementedError

    def _begin(self, welcome: dict[str, Any]) -> None:
        self._outbox.begin(welcome["session"], welcome["applied"])
        self._greet()
        self.is_up, self._failures = True, 0
        self._news.set()

    def _learn(self, verdict: dict[str, Any]) -> None:
        """An acknowledgement of the site."""
        if verdict["verdict"] == "seen":
            self._outbox.applied(verdict.get("applied", {}))
        elif verdict["verdict"] in ("stored", "duplicate", "invalid") and verdict["msg_id"]:
            self._outbox.acknowledged(verdict["msg_id"], verdict["verdict"])
        if verdict["verdict"] == "invalid":
            log.error("%s: the site refuses %s: %s", self._robot, verdict.get("field"), verdict.get("reason"))

    def _take(self, command: dict[str, Any]) -> bool:
        """Carry it out once; an assignment that comes again is confirmed again. True: it can be acknowledged."""
        heard = self._faults.command(command)
        if heard is None:
            return False
        if heard["type"] == "mission.assign" or heard["msg_id"] not in self.obeyed:
            self.obeyed[heard["msg_id"]] = None
            while len(self.obeyed) > REMEMBERED:
                self.obeyed.popitem(last=False)
            self._obey(heard)
        return True

    async def _first_to_end(self, *work: Coroutine[Any, Any, None]) -> None:
        """Until one of them ends or fails, or the robot leaves; then none is left."""
        tasks = [asyncio.create_task(coroutine) for coroutine in (*work, self._until_away())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_away(self) -> None:
        await self._away.wait()
        raise LinkLost("out of reach")

    async def run(self) -> None:
        """Connect for ever."""
        while True:
            pause = 0.0
            if self._away.is_set():
                await asyncio.sleep(self._away_until - time.monotonic())
                self._away.clear()
            try:
                await self._talk()
            except (OSError, TimeoutError, InvalidHandshake, WebSocketException, LinkLost) as error:
                code = getattr(getattr(error, "rcvd", error), "code", 0)
                pause = LONG_S.get(code, 0.0)
                log.warning("%s: link lost (%s)", self._robot, code or f"{type(error).__name__} {error}")
                if code == COME_BACK:
                    self._failures = 0
            finally:
                self.is_up = False
            pause = pause or BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
            self._failures += 1
            await asyncio.sleep(pause * self._chance.uniform(0.5, 1.5))

"""`manage.py demo`: make the demo site once; with `--keep`, keep missions coming."""

import logging
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.utils import timezone

from fleet.running import keys, startup
from telemetry.simulator import demo
from telemetry.simulator.traffic import Traffic

log = logging.getLogger(__name__)
EVERY_S = 1.0


class Command(BaseCommand):
    help = "Make sites, brands, robots and users of the demo; what is there already stays."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--keep", action="store_true", help="do not make anything; keep missions coming")
        parser.add_argument("--robots", type=int, default=settings.ROBOTS, help="how many are simulated")
        parser.add_argument("--foreign", action="store_true", help="as many that others wrote, in their stead")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--speed-up", type=float, default=settings.SPEED_UP)

    def handle(self, *args: Any, **options: Any) -> None:
        startup.check()
        file = settings.VAR / "robots.json"
        if options["keep"]:
            self._keep(Traffic(demo.names(file), seed=options["seed"], speed_up=options["speed_up"]))
            return
        secrets = keys.load(settings.VAR)
        count, foreign = (0, options["robots"]) if options["foreign"] else (options["robots"], 0)
        demo.make(
            count,
            foreign=foreign,
            url=f"ws://127.0.0.1:{settings.PORT}/robot/v1/ws",
            file=file,
            passwords={user: secrets[f"{user.upper()}_PASSWORD"] for user in keys.USERS},
        )

    def _keep(self, traffic: Traffic) -> None:
        told = False
        while True:
            try:
                traffic.step(timezone.now())
                told = False
            except DatabaseError as exc:
                if not told:
                    log.warning("no new missions while the database is away: %s", " ".join(str(exc).split()))
                told = True
            close_old_connections()
            time.sleep(EVERY_S)

"""`manage.py gateway`: robots over MQTT. Start as many as you like under different names; they share the robots out."""

import asyncio
import logging
import re
import signal
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError
from django.db import connection

from fleet import logs
from fleet.running import startup
from telemetry.gateways.mqtt.gateway import Gateway, serve
from telemetry.gateways.mqtt.sharing import PREFIX, Clash
from telemetry.partitions import LEASE_S
from telemetry.watching.scrape import export

PATIENCE_S = 10.0
CLASH_S = LEASE_S + 2  # one that was killed, or frozen, is gone after so long
log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Serve robots over MQTT (MQTT_URL). Ends within a second on SIGTERM."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.MQTT_URL:
            why = "MQTT_URL is not set, such as mqtt://user:password@127.0.0.1:1883"
            raise SystemExit(logs.last_words(f"cannot start: {why}"))
        with asyncio.Runner() as runner:
            try:
                runner.run(_run())
            except (Clash, ValueError) as error:
                raise SystemExit(logs.last_words(f"cannot start: {error}")) from None


def name_of(instance: str) -> str:
    """The client id of a gateway: stable, and fit for a topic."""
    return (PREFIX + re.sub(r"[^A-Za-z0-9._-]", "-", instance))[:60]


async def _run() -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    gateway = Gateway(settings.MQTT_URL, name_of(settings.GATEWAY))
    if not await _begin(gateway, stopping):
        return await gateway.end()
    exporter = export("gateway")
    try:
        await serve(gateway, stopping)
    finally:
        if exporter:
            exporter.stop()


async def _begin(gateway: Gateway, stopping: asyncio.Event) -> bool:
    """It may start before the database is up and migrated, or while one of its name is still dying."""
    patience = time.monotonic() + PATIENCE_S
    while not stopping.is_set():
        problems = await asyncio.to_thread(_problems)
        try:
            if not problems:
                await gateway.start()
                return True
        except (Clash, DatabaseError) as error:
            if time.monotonic() > patience - PATIENCE_S + CLASH_S:
                await gateway.end()
                raise Clash(str(error)) from None
        if time.monotonic() > patience:
            await gateway.end()
            raise Clash(problems[0])
        await asyncio.sleep(0.5)
    return False


def _problems() -> list[str]:
    try:
        return startup.problems()
    finally:
        connection.close()

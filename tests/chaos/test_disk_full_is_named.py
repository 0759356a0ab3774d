"""PostgreSQL's disk is really full: said without the database, nothing lost, and over by itself once there is room.

Needs a small disk, which takes the right to mount one.
"""

import json
import os
import subprocess
import sys

import psycopg
import pytest
from django.conf import settings

from fleet.running.throwaway import stores
from tests.chaos.conftest import OwnValkey
from tests.chaos.world import mount
from tests.eventually import eventually
from tests.tools import missing

pytestmark = [pytest.mark.processes]
MESSAGES = 300

BEGIN = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
from bench.ground import fleet_of
fleet_of(1)
"""
SAY = f"""
import asyncio, json, uuid
from datetime import UTC, datetime
from django.conf import settings
from telemetry.gateways.intake import Intake

async def say():
    intake = Intake(settings.REDIS_URL)
    for n in range(1, {MESSAGES} + 1):
        msg_id = uuid.uuid4()
        line = {{"v": 1, "msg_id": str(msg_id), "robot": "B-000", "session": 1, "channel": "critical", "seq": n,
                "type": "robot.fault", "occurred_at": datetime.now(UTC).isoformat(),
                "data": {{"code": f"E{{n}}", "text": uuid.uuid4().hex * 200}}}}
        assert await intake.store("B-000", msg_id, json.dumps(line).encode(), datetime.now(UTC)) == "stored"
    await intake.aclose()

asyncio.run(say())
"""
STATE = "import json; from telemetry.watching import health; print(json.dumps(health.state()))"


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    try:
        mount(folder)
    except (subprocess.CalledProcessError, OSError) as error:
        missing(f"small disks cannot be mounted here ({error})")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def durable(tmp_path_factory):
    valkey = OwnValkey(tmp_path_factory.mktemp("vk"))
    valkey.start()
    yield valkey.url
    valkey.kill()


def test_a_full_disk_is_named_and_costs_nothing(small_disk, durable, tmp_path):
    with stores(small_disk / "stores") as found:
        environment = os.environ | found | {
            "REDIS_URL": durable, "SECRET_KEY": "x" * 50, "PYTHONPATH": str(settings.BASE_DIR), "DROVER_DISK_LOW_MB": "0",
            "DJANGO_SETTINGS_MODULE": "fleet.settings", "DROVER_VAR": str(tmp_path / "var"),
        }  # fmt: skip

        def python(program: str) -> str:
            begin = "import django; django.setup()\n"
            return subprocess.run(
                [sys.executable, "-c", begin + program], env=environment, check=True, stdout=subprocess.PIPE, text=True
            ).stdout

        def applied() -> int:
            with psycopg.connect(found["DATABASE_URL"]) as connection:
                row = connection.execute("SELECT max(applied_seq) FROM telemetry_watermark").fetchone()
            return row[0] or 0

        python(BEGIN)
        log = tmp_path / "worker.log"
        with log.open("wb") as out:
            worker = subprocess.Popen(
                [sys.executable, settings.BASE_DIR / "manage.py", "worker"], env=environment, stderr=out
            )
        try:
            eventually(lambda: "took partitions" in log.read_text(), what="the worker works")
            filler = small_disk / "filler"
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(2**16))
                except OSError:
                    pass
            python(SAY)

            def said() -> bool:
                lacking, _ = json.loads(python(STATE))
                return "PostgreSQL's disk is full" in lacking.get("database", "")

            eventually(said, what="what is wrong is said")
            assert "database_full: PostgreSQL's disk is full" in log.read_text()
            assert applied() < MESSAGES
            filler.unlink()
            eventually(lambda: applied() == MESSAGES, what="all of it is applied")
            assert worker.poll() is None
        finally:
            worker.terminate()
            worker.wait(10)

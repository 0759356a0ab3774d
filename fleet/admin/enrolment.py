"""From a robot's row to its first message: the token, shown once, what to type, and a page that waits with you."""

import json
import re
import shlex
import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from fleet.admin.seen import OUT_OF_DATE
from fleet.columns import accepted_text
from fleet.history import by_user
from fleet.models import Robot
from fleet.people.access import may
from fleet.ports import drivers
from fleet.refusals import Refused
from fleet.robots import credentials

HELD_OUT = "THE-TOKEN"  # where the token goes, on a page that does not know it


def connect_page(page: Any, request: HttpRequest, robot: Robot, token: str = "") -> HttpResponse:
    """How to connect this robot, and whether it has. With `token` it is the one answer that holds it."""
    allowed = may(request.user, "fleet.issue_credential", robot.site_id)
    if not allowed:
        raise PermissionDenied
    driver = drivers.named(robot.brand.driver)
    context = {
        "driver": driver,
        "broker": broker(),
        "topics": _topics(driver, robot),
        "token": token,
        "once": uuid.uuid4().hex,
        "has_token": robot.credentials.filter(revoked_at=None).exists(),
        "title": f"Connect {robot.pk}",
        **_commands(request, robot, token or HELD_OUT),
    }
    how = "connect_broker" if driver.address else "connect"
    answer: HttpResponse = page.render(request, f"admin/drover/{how}.html", robot, context)
    answer["Cache-Control"] = "no-store"
    return answer


def broker() -> str:
    """Where robots reach the broker, without who we are there; empty when there is none."""
    url = urlsplit(settings.MQTT_URL)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}" if url.netloc else ""


def _topics(driver: drivers.Driver, robot: Robot) -> list[str]:
    """What it says on the broker; none when there is no broker, or its settings are none."""
    try:
        found = driver.topics(robot.pk, robot.address, robot.brand.profile | robot.profile)
    except Exception:  # a driver may raise anything at settings that it cannot use
        return []
    return found if driver.address or settings.MQTT_URL else []


def issue(page: Any, request: HttpRequest, robot: Robot) -> HttpResponse:
    """A token per form that was shown: sent again (a reload, the back button, two clicks) it issues none."""
    if drivers.named(robot.brand.driver).address:
        raise Refused(f"{robot.pk} is known by its address and shows no token.")
    once = request.POST.get("once", "")
    if not re.fullmatch(r"[0-9a-f]{32}", once):
        raise Refused(OUT_OF_DATE)
    label = accepted_text(request.POST.get("reason", ""))[:200]
    by = replace(by_user(request.user), cause=f"request:{once}")
    try:
        token = credentials.issue_credential(robot.pk, label=label, by=by, once=True)
    except Refused as refused:
        messages.error(request, str(refused))
        return redirect(page.url("connect", robot))
    return connect_page(page, request, robot, token)


def _commands(request: HttpRequest, robot: Robot, token: str) -> dict[str, str]:
    """Lines to copy. Ids and tokens have no character that a shell could mistake."""
    secure, host = request.is_secure(), request.get_host()
    http, ws = ("https" if secure else "http", "wss" if secure else "ws")
    hello = {"type": "hello", "v": 1, "robot": robot.pk, "msg_id": str(uuid.uuid4()), "data": {"software": "first try"}}
    frame = json.dumps(hello)
    places = list(robot.site.places.values_list("name", "x", "y", "theta"))
    config = {
        "url": f"{ws}://{host}/robot/v1/ws", "id": robot.pk, "token": token,
        "capabilities": robot.brand.capabilities, "places": places, "start": places[0][0] if places else "",
    }  # fmt: skip
    return {
        "ws_url": config["url"],
        "http_url": f"{http}://{host}/robot/v1/events",
        "curl_line": f"curl -sS {shlex.quote(f'{http}://{host}/robot/v1/events')} \\\n"
        f"  -H 'Authorization: Bearer {token}' \\\n  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(frame)}",
        "ws_line": f"echo {shlex.quote(frame)} | \\\n"
        f"  websocat -n -H 'Authorization: Bearer {token}' {shlex.quote(config['url'])}",
        "command_line": f"echo {shlex.quote(json.dumps(config, ensure_ascii=False))}"
        f" | .venv/bin/python -m telemetry.simulator.robot {robot.pk}",
    }

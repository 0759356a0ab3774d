"""ASGI entry point: HTTP, the live page's socket, the robots' socket."""

import os
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.db.backends.signals import connection_created
from django.urls import path, re_path

from fleet import logs

logs.catch()  # settings may refuse
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
http = get_asgi_application()  # before any consumer is imported

from fleet.running import startup  # noqa: E402
from fleet.web import patience, pool  # noqa: E402
from telemetry.gateways.http.requests import PREFIX, robot_http  # noqa: E402
from telemetry.gateways.ws import robot_socket  # noqa: E402
from telemetry.live.consumer import live_page  # noqa: E402

startup.check()
if not startup.in_tests():
    connection_created.connect(startup.bound_statements, dispatch_uid="web.statements")
    pool.install()
patience.install()


async def nowhere(scope: Any, receive: Any, send: Any) -> None:
    """A socket of any other address: refused before it is accepted, which is a 403."""
    await receive()
    await send({"type": "websocket.close"})


sockets = URLRouter(
    [
        path("live/ws", AllowedHostsOriginValidator(AuthMiddlewareStack(live_page))),
        path("robot/v1/ws", robot_socket),  # no cookies: a bearer token
        re_path("", nowhere),
    ]
)


async def requests(scope: Any, receive: Any, send: Any) -> None:
    """Robots' requests do not wait for pages, nor pages for robots' requests."""
    await (robot_http if scope["path"].startswith(PREFIX) else http)(scope, receive, send)


application = ProtocolTypeRouter({"http": requests, "websocket": sockets})

"""ASGI entry point: HTTP, the live page's socket, the robots' socket."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
http = get_asgi_application()  # before any consumer is imported

from fleet import startup  # noqa: E402

startup.check()

application = ProtocolTypeRouter({"http": http})

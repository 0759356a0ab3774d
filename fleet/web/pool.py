"""Database connections of a web process: requests share a bounded number, and what must never wait has one of its own.

Each request runs in a thread of its own, so without this each would open a connection, and nothing would bound them. What
stops robots never waits behind other work (I13), and what serves robots and live pages all day keeps its connection.
"""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

KEPT = 2  # connections that stay open while nobody asks
WAIT_S = 5.0  # for one, when all are in use; then the page says that the database does not answer
GIVE_UP_S = 2.0  # tries to connect; the next request tries anew, so nothing rests for minutes after an outage
NEVER_WAIT = {"stop", "stop_all", "cancel"}  # last parts of addresses


def install() -> None:
    """Before the first request."""
    connection.close()
    connection.settings_dict["OPTIONS"]["pool"] = {
        "min_size": min(KEPT, settings.DB_CONNECTIONS), "max_size": settings.DB_CONNECTIONS, "timeout": WAIT_S,
        "reconnect_timeout": GIVE_UP_S, "max_idle": 60.0, "num_workers": 2, "name": "requests",
    }  # fmt: skip
    connection.settings_dict["CONN_MAX_AGE"] = 0  # what a request is done with is the next one's


def own(max_age_s: int = 60) -> None:
    """This thread has a connection of its own from here on, beside the pool."""
    if "pool" in connection.settings_dict["OPTIONS"]:
        connection.close()
        options = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"}
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": options, "CONN_MAX_AGE": max_age_s}


def never_waits(request: HttpRequest) -> bool:
    return request.method == "POST" and request.path.rstrip("/").rpartition("/")[2] in NEVER_WAIT


@sync_and_async_middleware
def urgent(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: a stop waits for no other request's connection."""
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> Any:
            if never_waits(request):
                await sync_to_async(own)(0)  # in the thread in which its view runs
            return await get_response(request)

        return middleware

    def plain(request: HttpRequest) -> Any:
        if never_waits(request):
            own(0)
        return get_response(request)

    return plain

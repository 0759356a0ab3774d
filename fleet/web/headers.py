"""The one security header that Django has no setting for: no page of Drover needs a camera, a microphone or a payment."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

REFUSED = ("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone", "midi",
           "payment", "publickey-credentials-get", "serial", "usb")  # fmt: skip
POLICY = ", ".join(f"{feature}=()" for feature in REFUSED)


@sync_and_async_middleware
def permissions_policy(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> Any:
            response = await get_response(request)
            response.headers["Permissions-Policy"] = POLICY
            return response

        return middleware

    def plain(request: HttpRequest) -> Any:
        response = get_response(request)
        response.headers["Permissions-Policy"] = POLICY
        return response

    return plain

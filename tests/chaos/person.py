"""A person's browser as far as requests go."""

import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from django.conf import settings
from django.test import Client

TOKEN = "t" * 32


class Person:
    """A browser's requests: session cookie and token."""

    def __init__(self, user, port: int) -> None:
        client = Client()
        client.force_login(user)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        self.url = f"http://127.0.0.1:{port}"
        self.headers = {
            "Cookie": f"{settings.SESSION_COOKIE_NAME}={session}; {settings.CSRF_COOKIE_NAME}={TOKEN}",
            "X-CSRFToken": TOKEN, "Accept": "application/json",
        }  # fmt: skip

    def ask(self, path: str, data: bytes | None = None) -> tuple[int, str, float]:
        """Status, body, seconds."""
        began = time.monotonic()
        try:
            with urlopen(Request(self.url + path, data, self.headers), timeout=10) as response:
                answer = response.status, response.read().decode()
        except HTTPError as error:
            answer = error.code, error.read().decode()
        return *answer, time.monotonic() - began

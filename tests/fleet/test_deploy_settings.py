"""As it is run for real: Django's own look at the settings finds nothing, and the headers are there."""

import os
import subprocess
import sys

import pytest
from django.conf import settings

PRODUCTION = {
    "SECRET_KEY": "not-a-real-one-" + "kW7vQ2mZ9xT4" * 5,
    "DROVER_HTTPS": "1",
    "ALLOWED_HOSTS": "fleet.example.com",
}


def manage(*words: str, **more: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if name not in ("DEBUG", "DJANGO_SETTINGS_MODULE")}
    return subprocess.run(
        [sys.executable, "manage.py", *words], cwd=settings.BASE_DIR, env={**kept, **PRODUCTION, **more},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.processes
def test_check_deploy_finds_nothing():
    checked = manage("check", "--deploy", "--fail-level", "WARNING")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.processes
def test_check_deploy_would_find_something():
    assert "security.W0" in manage("check", "--deploy", "--fail-level", "WARNING", DROVER_HTTPS="0").stderr


def test_headers_of_every_page(client, supervisor):
    client.force_login(supervisor)
    for url in ("/login/", "/fleet/", "/admin/", "/account/", "/nowhere/"):
        headers = client.get(url).headers
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert "camera=()" in headers["Permissions-Policy"]
        assert "default-src 'self'" in headers["Content-Security-Policy"]


def test_the_session_cookie_is_for_the_browser_alone(client, supervisor):
    client.post("/login/", {"username": "Ana", "password": "correct horse battery"})
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    assert cookie["httponly"] and cookie["samesite"] == "Lax" and cookie["max-age"] == 12 * 3600

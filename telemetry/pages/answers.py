"""What a person is answered: what was done or why not, as JSON to a script and as a page to a form; damaged requests."""

import logging
import sys
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from fleet import logs
from telemetry.watching.causes import of_database

log = logging.getLogger(__name__)


def answer(request: HttpRequest, status: int, text: str, **more: Any) -> HttpResponse:
    """`more` is for scripts."""
    if "application/json" in request.headers.get("Accept", ""):
        return JsonResponse({"text": text, **more}, status=status)
    if status in (401, 403, 404):
        context = {"text": text, "signed_out": status == 401, "before": _page_before(request)}
        return render(request, "refused.html", context, status=status)
    messages.add_message(request, messages.INFO if status == 200 else messages.ERROR, text)
    return redirect("fleet")


def _page_before(request: HttpRequest) -> str:
    """The page of ours that was left for this one, if the browser says: to load this one again would send all again."""
    page = request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure())
    return page if ours else ""


def not_understood(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """A request that is damaged. Django's own page reads the form once more, fails at it again, and has no answer."""
    return HttpResponse("This request is not understood.", status=400, content_type="text/plain; charset=utf-8")


not_understood.csrf_exempt = True  # type: ignore[attr-defined]


def failed(request: HttpRequest) -> HttpResponse:
    """An exception that nobody caught. The page asks the database nothing, and names what the log has under the same id.

    When the database is away, or takes no writes, it says so, and that it is worth another try (503, as the API has it).
    """
    error = sys.exception()
    away = isinstance(error, Exception) and of_database(error) is not None
    page = render_to_string("500.html", {"id": logs.about().get(logs.REQUEST, ""), "away": away})
    return HttpResponse(page, status=503, headers={"Retry-After": "2"}) if away else HttpResponse(page, status=500)


def not_this_page(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's token is not ours: settings.CSRF_FAILURE_VIEW."""
    if request.path in (reverse("login"), reverse("logout")):  # a tab from before somebody signed in elsewhere
        return redirect(request.get_full_path() if request.path == reverse("login") else "login")
    if not request.user.is_authenticated:
        return answer(request, 401, "You are signed out. Sign in again, then repeat it.")
    log.info("%s refused: %s", request.path, reason)
    return answer(request, 403, "Not done: this page is out of date. Load it again, then repeat it.")

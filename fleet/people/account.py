"""A person's own page: where they are signed in, and their password."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from fleet.history import by_user
from fleet.people import actions as people
from fleet.people import sessions

SENDING = {"csrf_cookie": settings.CSRF_COOKIE_NAME}  # what static/live/sending.js asks of a page


@require_safe
@never_cache
@login_required
def account(request: HttpRequest) -> HttpResponse:
    rows = sessions.in_words(request.user, request.session.session_key, timezone.now())  # type: ignore[arg-type]
    return render(request, "account/page.html", {"sessions": rows, "others": len(rows) > 1, **SENDING})


@require_POST
@login_required
def end_session(request: HttpRequest, number: int) -> HttpResponse:
    """Sign out one of one's own."""
    if not sessions.end_sessions(sessions.sessions_of(request.user).filter(pk=number), by=by_user(request.user)):  # type: ignore[arg-type]
        raise Http404("There is no such session of yours: it has ended, or was never yours.")
    messages.success(request, "That session is over.")
    return redirect("account")


@require_POST
@login_required
def end_others(request: HttpRequest) -> HttpResponse:
    """Sign out everywhere but here."""
    ended = _others(request)
    messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("account")


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def password(request: HttpRequest) -> HttpResponse:
    form = PasswordChangeForm(request.user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        people.set_password(request.user, form.cleaned_data["new_password1"], by=by_user(request.user))  # type: ignore[arg-type]
        update_session_auth_hash(request, request.user)  # this one goes on, under a new key
        messages.success(request, "Your password is changed. Every other session of yours is over.")
        return redirect("account")
    return render(request, "account/password.html", {"form": form, **SENDING})


def _others(request: HttpRequest) -> int:
    others = sessions.sessions_of(request.user).exclude(key=request.session.session_key)  # type: ignore[arg-type]
    return sessions.end_sessions(others, by=by_user(request.user))

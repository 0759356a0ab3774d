"""The way into the admin: one sign-in for the whole site, and nothing but looking (GET) and asking (POST).

Not in `fleet.admin`, because its pages need this to register.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.text import capfirst
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

METHODS = ("GET", "HEAD", "POST")
# sign-in, sign-out and passwords are the whole site's; "view on site" tells everybody whether an object exists
LEFT_OUT = {"login", "logout", "password_change", "password_change_done", "view_on_site"}


@never_cache
@require_http_methods(METHODS)
def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Where other Django sites have their sign-in, and bookmarks and scripts look for it: ours, and then where they wanted."""
    wanted = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure())
    return redirect_to_login(wanted if safe else reverse("admin:index"))


def _page_of(request: HttpRequest) -> str:
    """Where somebody was who pressed a button."""
    page = urlsplit(request.headers.get("Referer", ""))
    here = page.netloc == request.get_host() and page.path.startswith(reverse("admin:index"))
    return f"{page.path}?{page.query}".rstrip("?") if here else reverse("admin:index")


class Door(admin.AdminSite):
    site_header = site_title = "Drover"
    index_title = "Now"
    site_url = "/fleet/"
    empty_value_display = "–"
    app_words = {"auth": "People and roles", "telemetry": "Links, statistics, webhooks"}  # on the start page
    enable_nav_sidebar = False  # lists need the width; the top bar has what people open daily

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), "csrf_cookie": settings.CSRF_COOKIE_NAME}

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """What the start page lists, in the words of the pages themselves."""
        apps: list[Any] = super().get_app_list(request, app_label)
        for app in apps:
            app["name"] = self.app_words.get(app["app_label"], app["name"])
            for row in app["models"]:
                row["name"] = capfirst(getattr(self.get_model_admin(row["model"]), "many", "") or row["name"])
        return apps

    def get_urls(self) -> list[Any]:
        kept = [url for url in super().get_urls() if getattr(url, "name", None) not in LEFT_OUT]
        return [path("login/", to_sign_in, name="login"), *kept]

    def admin_view(self, view: Any, cacheable: bool = False) -> Callable[..., HttpResponse]:
        inner = super().admin_view(view, cacheable)

        @wraps(inner)
        def enter(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method not in METHODS:
                return HttpResponseNotAllowed(METHODS)
            if not request.user.is_authenticated:
                if request.method == "POST":
                    messages.error(request, "Not done: you had been signed out. Sign in, then do it again.")
                return redirect_to_login(request.get_full_path() if request.method != "POST" else _page_of(request))
            if not self.has_permission(request):
                raise PermissionDenied  # to sign in again would not help
            return inner(request, *args, **kwargs)

        return enter

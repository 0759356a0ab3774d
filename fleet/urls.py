"""All URLs of the site."""

from django.contrib import admin
from django.urls import include, path

from fleet.people import account
from telemetry.api import api, nowhere
from telemetry.watching import health, scrape

admin.autodiscover()

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", scrape.metrics),
    path("admin/", admin.site.urls),
    path("account/", account.account, name="account"),
    path("account/password/", account.password, name="account-password"),
    path("account/sessions/others/end", account.end_others, name="account-end-others"),
    path("account/sessions/<int:number>/end", account.end_session, name="account-end"),
    path("api/v1/", api.urls),
    path("api/<path:path>", nowhere),
    path("", include("telemetry.urls")),
]
handler400 = "telemetry.pages.answers.not_understood"
handler500 = "telemetry.pages.answers.failed"

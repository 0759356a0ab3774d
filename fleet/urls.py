"""All URLs of the site."""

from django.contrib import admin
from django.urls import include, path

from telemetry import health, scrape

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", scrape.metrics),
    path("admin/", admin.site.urls),
    path("", include("telemetry.urls")),
]

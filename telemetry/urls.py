"""URLs of the live pages."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path, re_path
from django.views.generic import RedirectView

from fleet.models import ROBOT_ID
from telemetry import views

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="fleet"), name="home"),
    path("login/", LoginView.as_view(template_name="login.html", redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(next_page="login"), name="logout"),
    path("fleet/", views.fleet, name="fleet"),
    *(
        re_path(
            rf"^fleet/robots/(?P<robot_id>{ROBOT_ID})/{verb}\Z",
            views.robot_action,
            {"verb": verb},
            name=f"robot-{verb}",
        )
        for verb in views.ROBOT_VERBS
    ),
    *(
        path(f"fleet/missions/<uuid:mission_id>/{verb}", views.mission_action, {"verb": verb}, name=f"mission-{verb}")
        for verb in views.MISSION_VERBS
    ),
]

"""URLs of the live pages."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path, re_path
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.generic import RedirectView

from fleet.models import ROBOT_ID
from fleet.people.sign_in import SignInForm
from telemetry.pages import buttons, connecting, fleet_page, inspector

page = require_http_methods(["GET", "HEAD", "POST"])

urlpatterns = [
    path("", require_safe(RedirectView.as_view(pattern_name="fleet")), name="home"),
    path(
        "login/",
        page(LoginView.as_view(template_name="login.html", form_class=SignInForm, redirect_authenticated_user=True)),
        name="login",
    ),
    path("logout/", require_POST(LogoutView.as_view(next_page="login")), name="logout"),
    path("fleet/", fleet_page.fleet, name="fleet"),
    *(
        path(f"fleet/{verb}", buttons.robots_action, {"verb": verb}, name=f"robots-{verb}")
        for verb in buttons.MANY_VERBS
    ),
    re_path(rf"^fleet/robots/(?P<robot_id>{ROBOT_ID})/messages\Z", inspector.messages, name="robot-messages"),
    re_path(rf"^fleet/robots/(?P<robot_id>{ROBOT_ID})/connection\Z", connecting.connection, name="robot-connection"),
    *(
        re_path(
            rf"^fleet/robots/(?P<robot_id>{ROBOT_ID})/{verb}\Z",
            buttons.robot_action,
            {"verb": verb},
            name=f"robot-{verb}",
        )
        for verb in buttons.ROBOT_VERBS
    ),
    *(
        path(
            f"fleet/missions/<uuid:mission_id>/{verb}",
            buttons.mission_action,
            {"verb": verb},
            name=f"mission-{verb}",
        )
        for verb in buttons.MISSION_VERBS
    ),
    *(
        path(f"fleet/alerts/<int:alert_id>/{verb}", buttons.alert_action, {"verb": verb}, name=f"alert-{verb}")
        for verb in buttons.ALERT_VERBS
    ),
]

"""A small world for the table: objects of every kind at Hall 1 with unmistakable texts, and people of all kinds."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils import timezone

from fleet.alerts import actions as alerts
from fleet.history import by_user
from fleet.models import Alert, Brand, Robot, Site
from fleet.people import access
from fleet.people.tokens import SCOPES, issue_token
from fleet.robots import actions as fleet_actions
from fleet.robots import credentials, stopping
from fleet.sites import actions as site_actions
from fleet.sites.maps import picture_of
from missions import drawing_up, templates
from missions.models import DeadLetter, Mission
from telemetry.gateways.knocks import Stranger, record
from telemetry.out.models import Tally
from telemetry.out.webhooks import actions as webhooks
from tests.actors import SYSTEM, online, user
from tests.fleet.pictures import png


@dataclass
class World:
    site: Site
    people: dict[str, User]
    token: str
    programs: dict[str, str]  # API tokens
    mission: Any
    brand: Brand
    marks: list[str] = field(default_factory=list)  # texts that nobody of another site may ever read

    def client(self, name: str, **kwargs: Any) -> Client:
        """Somebody's browser, or a robot's token."""
        if name == "robot":
            return Client(headers={"authorization": f"Bearer {self.token}"}, **kwargs)
        if name in self.programs:
            return Client(headers={"authorization": f"Bearer {self.programs[name]}"}, **kwargs)
        client = Client(**kwargs)
        if name in self.people:
            client.force_login(self.people[name])
        return client

    def arguments(self, route: str) -> dict[str, Any]:
        known = {
            "robot_id": "RB-ZEBRA", "mission_id": self.mission.pk, "site_id": self.site.pk, "app_label": "fleet",
            "alert_id": Alert.objects.get(cause="zebra").pk, "url": "nothing-like-this/", "number": 0, "sha256": self.site.map_sha256,
            "path": "nothing-like-this",
        }  # fmt: skip
        if found := re.match(r"admin/(\w+)/(\w+)/<path:object_id>", route):
            known["object_id"] = _key(self, apps.get_model(*found.groups()))
        return known

    def url(self, route: str, query: str = "", *, nowhere: bool = False) -> str:
        """The route with the objects of Hall 1, or with such as nobody has, in the place of its arguments."""
        known = self.arguments(route)
        if nowhere:
            known |= {"robot_id": "RB-NOWHERE", "mission_id": uuid4(), "site_id": 987654321}
            if "object_id" in known:
                known["object_id"] = _like(known["object_id"])
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda m: str(_known(known, m[1], route)), route)
        return f"/{path}" + (f"?{query.format(site=self.site.pk)}" if query else "")


def _like(key: Any) -> Any:
    """A key of the same kind that no row has."""
    return uuid4() if isinstance(key, UUID) else 987654321 if isinstance(key, int) else "RB-NOWHERE"


def _known(known: dict[str, Any], name: str, route: str) -> Any:
    assert name in known, f"{route}: say in tests/access/world.py, World.arguments, what <{name}> is"
    return known[name]


def _key(world: World, model: Any) -> Any:
    if model is User:
        return world.people["supervisor"].pk
    if model is Robot:
        return "RB-ZEBRA"
    if model is Mission:
        return world.mission.pk
    row = access.at_sites(world.people["supervisor"], model._default_manager.order_by("pk")).first()
    assert row is not None, f"tests/access/world.py: make a {model._meta.verbose_name} at Hall 1"
    return row.pk


@pytest.fixture
def world(
    site, other_site, brand, admin_person, supervisor, other_supervisor, auditor, site_auditor, outsider
) -> World:
    people = {
        "admin": admin_person, "other_admin": user("Oskar", "admin", other_site), "supervisor": supervisor,
        "other_supervisor": other_supervisor, "auditor": auditor, "site_auditor": site_auditor, "outsider": outsider,
    }  # fmt: skip
    by = by_user(supervisor)
    User.objects.filter(pk=supervisor.pk).update(first_name="Zebra-person")
    site_actions.rename_site(site.pk, name="Zebra-hall", by=by)
    site_actions.add_place(site, name="Zebra-place", x=1, y=1, by=by)
    drawn = png()
    picture = picture_of(io.BytesIO(drawn), len(drawn))
    site_actions.set_map(site.pk, picture, x=0, y=0, m_per_px=0.05, rotation=0, by=by)
    fleet_actions.enrol_robot(id="RB-ZEBRA", name="Zebra-robot", site=site, brand=brand, by=by)
    online("RB-ZEBRA")
    token = credentials.issue_credential("RB-ZEBRA", label="Zebra-credential", by=by)
    stopping.stop_robot("RB-ZEBRA", why="Zebra-reason", by=by)
    steps = [{"command": "navigate", "params": {"place": "Zebra-place"}}]
    mission = drawing_up.draft_mission(title="Zebra-mission", site=site, robot="RB-ZEBRA", steps=steps, by=by)
    templates.save_template(name="Zebra-template", site=site, title="Zebra-title", steps=steps, by=by)
    DeadLetter.objects.create(
        direction="in", robot_id="RB-ZEBRA", msg_id=uuid4(), kind="Zebra-letter", body='{"Zebra": "body"}',
        reason="Zebra-trouble", created_at=timezone.now(),
    )  # fmt: skip
    alerts.raise_alert(
        "zebra", severity="warning", text="Zebra-alert", subject="robot:RB-ZEBRA", robot="RB-ZEBRA", site=site.pk
    )
    alerts.silence(site=site, until=timezone.now() + timedelta(hours=1), why="Zebra-silence", by=by)
    stranger = Stranger("", "RB-ZEBRA", "HTTP", "192.0.2.1")
    record([(stranger, 1, timezone.now())])
    webhooks.create_webhook(
        name="Zebra-webhook", url="https://zebra.example.org/", site=site.pk, kinds=["mission.*"], by=by
    )  # fmt: skip
    Tally.objects.create(hour=timezone.now(), site=site, what="ended", detail="Zebra-detail", n=7)
    fleet_actions.enrol_robot(id="RB-OWN", name="Own robot", site=other_site, brand=brand, by=SYSTEM)
    own = [{"command": "navigate", "params": {"place": "Dock A"}}]
    drawing_up.draft_mission(title="Own mission", site=other_site, robot="RB-OWN", steps=own, by=SYSTEM)
    programs = {
        "program": issue_token(supervisor, label="Zebra-program", scopes=list(SCOPES), by=by),
        "other_program": issue_token(other_supervisor, label="Own program", scopes=list(SCOPES), by=by),
    }
    return World(
        Site.objects.get(pk=site.pk),
        people,
        token,
        programs,
        Mission.objects.get(pk=mission),
        brand,
        ["Zebra", "ZEBRA"],
    )


def routes(resolver: Any = None, prefix: str = "") -> Iterator[str]:
    """Every address of the site as its pattern: `fleet/robots/<robot_id>/stop`."""
    for entry in (resolver or get_resolver()).url_patterns:
        pattern = prefix + _readable(str(entry.pattern))
        if isinstance(entry, URLResolver):
            yield from routes(entry, pattern)
        else:
            yield pattern


def _readable(pattern: str) -> str:
    """A regular expression as a path with names."""
    text, start = pattern.removeprefix("^").removesuffix("$").removesuffix("\\Z"), 0
    while (start := text.find("(?P<")) >= 0:
        depth, end = 1, start + 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        name = text[start + 4 : text.index(">", start)]
        text = f"{text[:start]}<{name}>{text[end:]}"
    return text

"""A running copy with everybody who works on the first day, and what a test may ask it beside the pages."""

import json
import urllib.error
import urllib.request
from typing import Any

import psycopg

from tests.eventually import eventually
from tests.run.copies import Copy

ROBOTS = 6
PASSWORD = "lantern over the quiet harbour"
PEOPLE = {  # beside the three of the demo
    "yara": ("supervisor", "South Yard"),
    "nora": ("supervisor", "North Hall"),
    "tess": ("supervisor", "South Yard"),
    "pia": ("supervisor", "North Hall"),
}
SET_UP = f"""
import json
from datetime import timedelta
from unittest import mock
from django.contrib.auth.models import User
from django.utils import timezone
from fleet.alerts import actions as alerts
from fleet.history import Origin, by_user
from fleet.models import Brand, Site
from fleet.people.actions import add_person
from fleet.people.tokens import SCOPES, issue_token
from fleet.robots import actions, credentials
from missions import actions as missions, drawing_up

by = Origin("system", actor_name="first day")
sites = {{site.name: site for site in Site.objects.all()}}
for name, (role, where) in {PEOPLE!r}.items():
    add_person(username=name, password={PASSWORD!r}, role=role, sites=[sites[where]], by=by)
supervisor = User.objects.get(username="supervisor")
token = issue_token(supervisor, label="first day", scopes=SCOPES, by=by)

earlier = timezone.now() - timedelta(days=1)
steps = [{{"command": "navigate", "params": {{"place": "Dock A"}}}}]
with mock.patch("django.utils.timezone.now", lambda: earlier):
    yesterday = drawing_up.draft_mission(title="Move pallet 9", site=sites["North Hall"], robot=None, steps=steps, by=by_user(supervisor))
    missions.cancel_mission(yesterday, by=by_user(User.objects.get(username="nora")), reason="wrong pallet")

mule = Brand.objects.get(name="Mule 300")
actions.enrol_robot(id="RB-970", name="Old Mule", site=sites["North Hall"], brand=mule, by=by)
credentials.issue_credential("RB-970", label="lost key", by=by)
actions.enrol_robot(id="RB-960", name="Missing Mule", site=sites["North Hall"], brand=mule, by=by)
credentials.issue_credential("RB-960", label="its key", by=by)
alerts.raise_alert("first-day", severity="warning", text="Gate 4 stays open", subject=f"site:{{sites['North Hall'].pk}}", site=sites["North Hall"].pk)
print(json.dumps({{"token": token, "yesterday": str(yesterday), "sites": {{n: s.pk for n, s in sites.items()}}}}))
"""


class Day:
    """The copy, an API token of `supervisor` to prepare things with, and the history to look results up in."""

    def __init__(self, copy: Copy) -> None:
        self.copy, self.url = copy, copy.url
        made = copy.manage("shell", "-v", "0", "-c", SET_UP)
        assert made.returncode == 0, made.stdout + made.stderr
        found = json.loads(made.stdout.splitlines()[-1])
        self.token, self.yesterday, self.sites = found["token"], found["yesterday"], found["sites"]
        environment = dict(line.split("=", 1) for line in (copy.var / "environment").read_text().splitlines())
        self.database = environment["DATABASE_URL"]
        eventually(lambda: self._online() == ROBOTS, what="all robots online")

    def _online(self) -> int:
        return self.ask("SELECT count(*) FROM fleet_robot WHERE presence = 'online'")[0][0]

    def password(self, user: str) -> str:
        return PASSWORD if user in PEOPLE else self.copy.password(user)

    def ask(self, query: str, *arguments: Any, of: str = "") -> list[tuple]:
        """Rows of the copy's database, or `of` another."""
        with psycopg.connect(of or self.database) as connection:
            return connection.execute(query, arguments).fetchall()

    def history(self, aggregate: str) -> list[tuple[str, str, dict]]:
        """(kind, who, what) of each event, oldest first."""
        query = "SELECT kind, actor_kind || ' ' || actor_name, data FROM fleet_event WHERE aggregate = %s ORDER BY seq"
        return [(kind, who, json.loads(data)) for kind, who, data in self.ask(query, aggregate)]

    def happened(self, aggregate: str, kind: str, timeout_s: float = 40) -> tuple[str, dict]:
        """Who did it last, and what; waits for it."""

        def last() -> tuple[str, dict] | None:
            return next(((who, data) for k, who, data in reversed(self.history(aggregate)) if k == kind), None)

        return eventually(last, timeout_s, f"{kind} of {aggregate}")

    def mission(self, title: str) -> str:
        """Id of the newest mission of this title."""
        return str(self.ask("SELECT id FROM missions_mission WHERE title = %s ORDER BY created_at DESC", title)[0][0])

    def api(self, method: str, path: str, **body: Any) -> Any:
        raw = json.dumps(body).encode() if method == "POST" else None
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}api/v1{path}", raw, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def draft(self, title: str, *steps: tuple[str, dict], where: str = "North Hall", **more: Any) -> str:
        rows = [{"command": command, "params": params} for command, params in steps]
        return self.api("POST", "/missions", title=title, site=self.sites[where], steps=rows, **more)["id"]

    def state(self, mission: str) -> str:
        return self.api("GET", f"/missions/{mission}")["state"]

    def until(self, mission: str, *states: str, timeout_s: float = 60) -> str:
        return eventually(lambda: (now := self.state(mission)) in states and now, timeout_s, f"{mission} {states}")

    def free(self, *robots: str) -> None:
        """Waits until these are online, without mission and hold."""

        def is_free(robot: str) -> bool:
            now = self.api("GET", f"/robots/{robot}")
            return now["presence"] == "online" and not now["mission"] and not now["holds"]

        for robot in robots:
            eventually(lambda robot=robot: is_free(robot), what=f"{robot} free")

    def end(self, mission: str) -> None:
        """Leaves nothing behind for the next test."""
        self.api("POST", f"/missions/{mission}/cancel", reason="end of the test")
        self.until(mission, "aborted", "success")

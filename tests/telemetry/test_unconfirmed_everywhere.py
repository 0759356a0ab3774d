"""A mission that was aborted while its robot never confirmed that it stopped is nowhere plain "aborted" (DESIGN section 4)."""

import re
from collections import Counter
from datetime import timedelta
from html import unescape

import pytest

from fleet.history import by_user
from fleet.models import Alert, Event, Hold
from fleet.robots.wording import hold_said
from missions import actions, drawing_up
from missions.admin.bulk import Asked
from missions.admin.mission_bulk import BULKS
from missions.admin.mission_buttons import CANCELLED
from missions.facts import Accepted, Delivered, Due, StepFailed
from missions.models import Mission
from missions.wording import ending
from telemetry.live import alarms, fragments, loading
from telemetry.live.fragments import EVERYWHERE
from telemetry.out.statistics import report
from telemetry.out.statistics.counting import UNCONFIRMED as UNCONFIRMED_MARK
from telemetry.out.webhooks import payload
from tests.actors import STEPS, tell
from tests.api.conftest import Caller, caller, program  # noqa: F401  (fixtures)

pytestmark = pytest.mark.django_db
UNCONFIRMED = re.compile(r"aborted( in 24 h)?, stop not confirmed", re.IGNORECASE)
# not: the code of the edge, the number of others
PLAIN = re.compile(r"(?<!→ )\baborted\b(?!( in 24 h)?, stop not confirmed| in 24 h)", re.IGNORECASE)


@pytest.fixture
def unconfirmed(dispatched) -> Mission:
    """Its robot failed a step, was told to stop, and said nothing."""
    tell(dispatched, Delivered(), Accepted(1), StepFailed(1, 1, 1, "stuck"))
    asked = Mission.objects.get(pk=dispatched.pk).stop_requested_at
    for seconds in (5, 10, 15):
        tell(dispatched, Due("stop"), at=asked + timedelta(seconds=seconds))
    found = Mission.objects.get(pk=dispatched.pk)
    assert (found.state, found.stop_confirmed) == ("aborted", False)
    return found


def text(html: str) -> str:
    """What a person reads of a page or a part of it; codes and addresses are not read."""
    html = re.sub(r"<(script|style|code|template|select)\b.*?</\1>", " ", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def part(html: str, pattern: str) -> str:
    """The part of a page that names the mission."""
    return text(re.search(pattern, html, re.S)[0])


def page(client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return b"".join(answer.streaming_content).decode() if answer.streaming else answer.content.decode()


def event(mission: Mission) -> Event:
    return Event.objects.get(aggregate=f"mission:{mission.pk}", kind="mission.aborted")


def refusal(verb, *args, **kwargs) -> str:
    with pytest.raises(ValueError) as refused:
        verb(*args, **kwargs)
    return str(refused.value)


def row_of(mission: Mission) -> loading.MissionRow:
    return loading.load([], [mission.pk]).missions[str(mission.pk)]


MISSION = "/admin/missions/mission"
# where it is named → what is said there; `s` has client, mission, supervisor, program
PLACES = {
    "list": lambda s: part(page(s.client, f"{MISSION}/"), r"<tbody>.*</tbody>"),
    "page": lambda s: part(page(s.client, f"{MISSION}/{s.mission.pk}/change/"), r'<div class="mission-now".*</div>'),
    "page of a rerun": lambda s: part(page(s.client, f"{MISSION}/{s.rerun}/change/"), r'<div id="mission-related".*?</div>'),
    "timeline": lambda s: part(page(s.client, f"{MISSION}/{s.mission.pk}/change/"), r'<section class="panel" id="history">.*'),
    "start page": lambda s: part(page(s.client, "/admin/"), r'<div id="content".*'),
    "alerts": lambda s: part(page(s.client, "/admin/fleet/alert/"), r"<tbody>.*</tbody>"),
    "alert": lambda s: text(Alert.objects.get(cause=f"aborted:mission:{s.mission.pk}").text),
    "audit": lambda s: part(page(s.client, f"/admin/fleet/event/?q=mission:{s.mission.pk}"), r"<tbody>.*</tbody>"),
    "event": lambda s: part(page(s.client, f"/admin/fleet/event/{event(s.mission).pk}/change/"), r"<h1.*?</h1>"),
    "csv": lambda s: next(
        line.split(",")[8] + "," + line.split(",")[9]
        for line in page(s.client, "/admin/fleet/event/export.csv").splitlines() if ",mission.aborted," in line
    ),
    "api": lambda s: s.program("GET", f"/missions/{s.mission.pk}").said["says"],
    "api list": lambda s: s.program("GET", "/missions?state=aborted").said["items"][0]["says"],
    "api events": lambda s: s.program("GET", f"/missions/{s.mission.pk}/events").said["items"][-1]["text"],
    "webhook": lambda s: payload.told(event(s.mission))["text"],
    "statistics": lambda s: report._end(f"robot_fault{UNCONFIRMED_MARK}"),
    "live bell": lambda s: next(line["text"] for line in alarms.lines(alarms.load()) if "Fetch" in line["text"]),
    "live row": lambda s: text(fragments.mission(row_of(s.mission), None).html),
    "live counters": lambda s: text(fragments.counts(EVERYWHERE, Counter(), _counted()).html),
    "robot's hold": lambda s: hold_said(Hold.objects.get()).word,
    "robot's card": lambda s: text(_card(loading.load(["RB-001"]).robots["RB-001"])),
    "cancel": lambda s: CANCELLED["already ended"].format(s.mission, ending(s.mission).lower()),
    "cancel in bulk": lambda s: next(b for b in BULKS if b.name == "cancel").run(s.mission, Asked(by_user(s.supervisor), "")),
    "pause refused": lambda s: refusal(actions.pause_mission, s.mission.pk, by=by_user(s.supervisor)),
    "run refused": lambda s: refusal(actions.queue_mission, s.mission.pk, by=by_user(s.supervisor)),
    "to come after": lambda s: refusal(
        drawing_up.draft_mission, title="Next", site=s.mission.site_id, robot=s.mission.robot_id, steps=STEPS,
        after=[s.mission.pk], by=by_user(s.supervisor),
    ),
}  # fmt: skip


def _counted() -> Counter[str]:
    return Counter({state: n for (_, state), n in loading.ended().items()})


def _card(row: loading.RobotRow) -> str:
    return fragments.robot(fragments.shell(row, False), fragments.vitals(row, None)).html


@pytest.fixture
def seen(client, unconfirmed, supervisor, admin_person, program):  # noqa: F811
    class Seen:
        pass

    s = Seen()
    s.client, s.mission, s.supervisor, s.program = client, unconfirmed, supervisor, program
    s.rerun = drawing_up.rerun_mission(unconfirmed.pk, by=by_user(supervisor))
    client.force_login(admin_person)
    return s


@pytest.mark.parametrize("place", PLACES)
def test_it_says_so(seen, place):
    said = PLACES[place](seen)
    assert UNCONFIRMED.search(said), said
    assert not PLAIN.search(said), said

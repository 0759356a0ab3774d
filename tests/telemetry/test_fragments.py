"""What cards, rows and counters say, how old it is (I7), and that what robots and people write is text (I12)."""

import hashlib
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from django.conf import settings

from fleet.robots.wording import MODES
from telemetry.live import cards, fragments
from telemetry.live.loading import Hold, MissionRow, RobotRow, Waits
from telemetry.live.queue_facts import robot_facts
from telemetry.snapshots import Snapshot

T0 = datetime(2026, 11, 29, 10, 31, tzinfo=UTC)
VOID = {"use", "input", "rect", "path", "circle"}


def robot(**given) -> RobotRow:
    nothing = dict.fromkeys(RobotRow.__struct_fields__)
    ground = {"id": "RB-001", "version": 3, "site": 1, "name": "Ella", "mode": "idle", "mode_since": T0,
              "presence": "online", "presence_since": T0, "fault": "", "holds": [], "suspect_after_s": 9}  # fmt: skip
    return RobotRow(**{**nothing, **ground, **given})


ON_A_MISSION = {
    "mission": "6a1f0a52-0000-4000-8000-000000000001", "mission_version": 9, "mission_title": "Pallets",
    "mission_state": "executing", "mission_step": 2, "mission_steps": 3, "mission_command": "navigate",
    "mission_params": {"place": "Dock A"}, "mission_dispatched_at": T0, "mode": "running",
}  # fmt: skip


def mission(**given) -> MissionRow:
    nothing = dict.fromkeys(MissionRow.__struct_fields__)
    ground = {"id": ON_A_MISSION["mission"], "version": 4, "site": 1, "title": "Pallets", "state": "executing", "step": 2,
              "steps": 3, "command": "navigate", "params": {"place": "Dock A"}, "robot": "RB-001", "robot_name": "Ella",
              "robot_presence": "online", "priority": 0, "created_at": T0, "dispatched_at": T0,
              "stop_requested_by": "", "abort_reason": "", "abort_detail": ""}  # fmt: skip
    return MissionRow(**{**nothing, **ground, **given})


def waiting(**given) -> MissionRow:
    return mission(**{"state": "pending", "step": 0, "dispatched_at": None, "queued_at": T0, "waits": Waits()} | given)


ELLA = robot_facts(robot(), 80.0)


def hold(kind="stopped", **given) -> Hold:
    ground = {"number": 4, "kind": kind, "why": "blocked aisle", "by": "Ana", "since": T0, "until": None, "asked_at": T0,
              "confirmed_at": T0, "unconfirmed_at": None, "mission": ON_A_MISSION["mission"]}  # fmt: skip
    return Hold(**{**ground, **given})


class Reader(HTMLParser):
    """Reads a fragment as a browser does: elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.roots = self.depth = 0
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.roots += self.depth == 0
        self.depth += tag not in VOID

    def handle_endtag(self, tag):
        self.depth -= tag not in VOID

    def handle_data(self, data):
        self.text += data


def says(html: str) -> str:
    return " ".join(re.search(r'class="says">(.*?)</(?:p|span)>', html, re.S)[1].split())


def plain(html: str) -> str:
    return Reader(says(html)).text


def whole(row: RobotRow, snapshot: Snapshot | None = None) -> fragments.Fragment:
    shell = fragments.shell(row, cards.battery_low(snapshot))
    return fragments.robot(shell, fragments.vitals(row, snapshot))


def card(row: RobotRow, snapshot: Snapshot | None = None) -> str:
    return whole(row, snapshot).html


@pytest.mark.parametrize(
    ("row", "battery", "tone", "shape", "bucket", "words"),
    [
        (robot(), 80, "ok", "idle", "idle", "Idle 10:31 UTC"),
        (robot(mode="charging"), 8, "ok", "charging", "charging", "Charging 10:31 UTC"),
        (robot(mode="manual"), 80, "ok", "manual", "running", "Driven by hand 10:31 UTC"),
        (robot(**ON_A_MISSION), 80, "ok", "running", "running", "Running 10:31 UTC: Drive to Dock A"),
        (robot(**ON_A_MISSION | {"mission_attempt": 3}), 80, "ok", "running", "running",
         "Running 10:31 UTC: Drive to Dock A (try 3)"),
        (robot(**ON_A_MISSION | {"mission_attempt": 1, "mission_retry_for": "failure"}), 80, "ok", "running", "running",
         "Running 10:31 UTC: Drive to Dock A"),
        (robot(**ON_A_MISSION | {"mode": "idle", "mission_retry_for": "failure", "mission_retry_due_at": T0}), 80, "ok",
         "running", "running", "Waits to try again 10:31 UTC: Drive to Dock A"),
        (robot(**ON_A_MISSION | {"mode": "idle"}), 80, "ok", "running", "running",
         "Between steps 10:31 UTC: Drive to Dock A"),
        (robot(**ON_A_MISSION | {"mode": "paused"}), 80, "ok", "paused", "paused", "Paused 10:31 UTC"),
        (robot(), 19.9, "warn", "warn", "warn", "Battery low, idle 10:31 UTC"),
        (robot(presence="suspect"), 80, "warn", "warn", "warn", "Not heard of lately since 10:31 UTC"),
        (robot(presence="offline"), 80, "off", "off", "off", "Offline since 10:31 UTC"),
        (robot(presence="offline", **ON_A_MISSION), 8, "bad", "bad", "bad", "Offline with a mission since 10:31 UTC"),
        (robot(presence="unknown"), None, "off", "off", "off", "No verdict on its link yet"),
        (robot(presence="unknown", presence_since=None), None, "off", "off", "off", "Never heard from"),
        (robot(mode="fault", fault="hot motor"), 80, "bad", "bad", "bad", "Fault since 10:31 UTC: hot motor"),
        (robot(mode="fault", fault="e-stop", safety=True), 80, "bad", "bad", "bad", "Safety stop since 10:31 UTC: e-stop"),
        (robot(fault="hot motor"), 80, "bad", "bad", "bad", "Fault since 10:31 UTC: hot motor"),
        (robot(holds=[hold()]), 80, "bad", "bad", "bad", "Stopped by Ana, 10:31 UTC: blocked aisle"),
        (robot(holds=[hold(confirmed_at=None)]), 80, "info", "ring", "running",
         "Stopping… asked by Ana, 10:31 UTC: blocked aisle"),
        (robot(holds=[hold(confirmed_at=None, unconfirmed_at=T0)]), 80, "bad", "bad", "bad",
         "Stop not confirmed: it may still be moving. Asked by Ana, 10:31 UTC: blocked aisle"),
        (robot(holds=[hold(confirmed_at=None, unconfirmed_at=T0)], presence="offline"), 80, "bad", "bad", "bad",
         "Offline: told to stop when it is back. Asked by Ana, 10:31 UTC: blocked aisle"),
        (robot(holds=[hold("unconfirmed", mission=None)]), 80, "bad", "bad", "bad",
         "Stop not confirmed: it may still be moving since 10:31 UTC"),
        (robot(holds=[hold(), hold("unconfirmed")], presence="offline"), 80, "bad", "bad", "bad",
         "Aborted, stop not confirmed: it may still be moving since 10:31 UTC"),
        (robot(holds=[hold("maintenance", why="new tyres")]), 80, "off", "off", "off",
         "Maintenance by Ana, 10:31 UTC: new tyres"),
        (robot(holds=[hold("maintenance")], mode="fault", fault="x"), 80, "bad", "bad", "bad", "Fault since 10:31 UTC: x"),
        (robot(**ON_A_MISSION | {"mission_state": "pending"}), 80, "info", "ring", "running", "Dispatching… 10:31 UTC"),
        (robot(**ON_A_MISSION | {"mission_stop_requested_at": T0, "mission_stop_requested_by": "Ana"}), 80, "info", "ring",
         "running", "Stopping… asked by Ana, 10:31 UTC"),
    ],
)  # fmt: skip
def test_a_card_says_the_one_thing_to_know(row, battery, tone, shape, bucket, words):
    fragment = whole(row, battery and Snapshot(at=5, battery=battery))
    found = fragments.shell(row, battery is not None and battery < 20).bucket
    (root, attributes), *_ = Reader(fragment.html).elements
    assert (root, attributes["id"], attributes["class"]) == ("article", "robot-RB-001", f"card {tone}")
    assert f'href="#i-{shape}"' in fragment.html
    assert (plain(fragment.html), found) == (words, bucket)


@pytest.mark.parametrize(
    ("at", "battery", "words"),
    [
        (robot(holds=[hold()]), 80, "Ella is on hold. Stopped by Ana: blocked aisle"),
        (robot(**ON_A_MISSION), 80, "Ella is busy with “Pallets”"),
        (robot(**ON_A_MISSION | {"mode": "charging"}), 62, "Ella is charging (62 %)"),
        (robot(mode="charging", charge_below_pct=25, charge_until_pct=80), 62, "Ella is charging (62 %, free at 80 %)"),
        (robot(presence="offline"), 80, "Ella is offline since 29 Nov 10:31 UTC"),
        (robot(fault="hot motor"), 80, "Ella has a fault: hot motor"),
        (robot(), None, "Next: it is dispatched in a moment"),
    ],
)
def test_a_waiting_row_says_what_its_robot_is_at(at, battery, words):
    facts = robot_facts(at, battery)
    assert plain(fragments.mission(waiting(), facts).html) == f"Ella · Waiting 10:31 UTC: {words}"
    anyone = waiting(robot=None, robot_name=None, waits=Waits(commands=[]))
    alone = words if words.startswith("Next") else f"No robot is free: {words}"
    assert plain(fragments.mission(anyone, None, [facts]).html) == f"any robot · Waiting 10:31 UTC: {alone}"


@pytest.mark.parametrize(
    ("row", "tone", "words"),
    [
        (mission(), "ok", "Ella · Executing: Drive to Dock A"),
        (mission(state="step_completed"), "ok", "Ella · Step completed: Drive to Dock A"),
        (mission(attempt=2), "ok", "Ella · Executing: Drive to Dock A (try 2)"),
        (mission(retry_for="timeout", retry_due_at=T0, attempt=1, failed_attempts=0, timeout_retries=2), "ok",
         "Ella · Waits to try its step again 10:31 UTC: try 2 of 3"),
        (mission(held_at=T0), "ok", "Ella · Waits: its robot is stopped since 10:31 UTC: Drive to Dock A"),
        (mission(paused_at=T0), "ok", "Ella · Paused 10:31 UTC: Drive to Dock A"),
        (mission(robot_presence="offline", robot_presence_since=T0), "bad",
         "Ella · Executing, robot offline since 10:31 UTC: Drive to Dock A"),
        (mission(stop_requested_at=T0, stop_requested_by="Ana"), "info", "Ella · Stopping…, 10:31 UTC: asked by Ana"),
        (mission(state="success", ended_at=T0), "ok", "Ella · Success, 10:31 UTC"),
        (mission(state="aborted", ended_at=T0, abort_reason="timeout", abort_detail="step 2"), "off",
         "Ella · Aborted, 10:31 UTC: timeout: step 2"),
        (mission(state="aborted", ended_at=T0, abort_reason="operator", stop_confirmed=False), "bad",
         "Ella · Aborted, stop not confirmed, 10:31 UTC: cancelled by a person"),
        (mission(state="pending", step=0), "info", "Ella · Dispatching… 10:31 UTC: Waiting for Ella to take it"),
        (mission(state="pending", step=0, delivered_at=T0), "info",
         "Ella · Dispatching… 10:31 UTC: Ella has it and has not accepted yet"),
        (waiting(queued_at=None), "ok", "Ella · Pending 10:31 UTC: Ready: it runs when somebody asks it to"),
        (waiting(), "ok", "Ella · Waiting 10:31 UTC: Next: it is dispatched in a moment"),
        (waiting(waits=Waits(ahead=1, behind="Night")), "ok",
         "Ella · Waiting 10:31 UTC: 2nd in Ella's queue, behind “Night”"),
        (waiting(waits=Waits(not_before=T0)), "ok",
         "Ella · Waiting 10:31 UTC: It may not start before 29 Nov 10:31 UTC"),
        (waiting(waits=Waits(after=[("First", "executing")])), "ok",
         "Ella · Waiting 10:31 UTC: It comes after “First”"),
        (waiting(waits=Waits(charger="Bay", charger_taken_by="Charge")), "ok",
         "Ella · Waiting 10:31 UTC: Bay is taken by “Charge”"),
        (waiting(waits=Waits(unapproved=True), queued_at=None), "ok", "Ella · Pending 10:31 UTC: It needs approval"),
        (waiting(waits=Waits(commands=["fly"]), robot=None, robot_name=None), "ok",
         "any robot · Waiting 10:31 UTC: No robot of its site can fly"),
        (waiting(robot_retired=True, robot="RB-404"), "ok", "Ella · Waiting 10:31 UTC: Ella is retired"),
    ],
)  # fmt: skip
def test_a_mission_row_says_its_state_and_why(row, tone, words):
    html = fragments.mission(row, ELLA if row.robot == "RB-001" else None).html
    (_, attributes), *_ = Reader(html).elements
    assert attributes["class"] == f"row {tone} {row.state}" and attributes["data-state"] == row.state
    assert plain(html) == words


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)' x=\"",
    "</article><script>alert(1)</script>",
    '<hx-partial hx-target="body">gone</hx-partial>',
    '<b id="robot-RB-002" hx-swap-oob="delete">',
    "{{ settings.SECRET_KEY }}{% now 'Y' %}",
    "<!-- <title>x</title> <head></head>",
    "🤖🔥 ثلاثة روبوتات ‮abc‬",
    "line\r\nbreaks\ttabs \\ \u2028 \u2029",
    "&lt;b&gt; &amp;",
    "x" * 65536,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_of_others_is_text(text):
    held = hold(why=text, by=text)
    rows = [
        robot(name=text, fault=text),
        robot(name=text, holds=[held], next_title=text),
        robot(name=text, **ON_A_MISSION | {"mission_title": text, "mission_params": {"place": text}}),
        robot(name=text, mission_stop_requested_by=text, mission_stop_requested_at=T0),
    ]
    made = [whole(row, Snapshot(at=5, posed_at=5, place=text, battery=5)) for row in rows]
    vitals = [fragments.vitals(rows[0], Snapshot(at=5, posed_at=5, place=text))]
    lines = [
        mission(title=text, robot_name=text, params={"place": text}),
        mission(state="aborted", ended_at=T0, abort_reason="operator", abort_detail=text),
        waiting(waits=Waits(behind=text, ahead=1, after=[(text, "pending")], charger=text, charger_taken_by=text)),
        waiting(waits=Waits(behind=text, ahead=1)),
        mission(stop_requested_at=T0, stop_requested_by=text),
    ]
    facts = robot_facts(rows[0], 80.0)
    for fragment in [*made, *vitals, *(fragments.mission(line, facts) for line in lines)]:
        reader = Reader(fragment.html)
        assert (reader.roots, reader.depth) == (1, 0)
        names = {tag for tag, _ in reader.elements}
        assert names <= {"article", "header", "svg", "use", "h3", "bdi", "span", "p", "b", "time", "div", "progress",
                         "footer", "button", "a", "li", "input"}  # fmt: skip
        assert not {a for _, attributes in reader.elements for a in attributes if a.startswith(("on", "style"))}
        assert [i for i, (_, attributes) in enumerate(reader.elements) if "hx-swap-oob" in attributes] == [0]
        assert not re.search(r"<(hx-|head[\s>]|title|script|img)", fragment.html)
        assert msgspec.json.decode(f'"{fragment.json}"') == fragment.html
        assert len(fragment.html) < 20_000
    if len(text) < 160:
        assert " ".join(text.split()) in " ".join(Reader(made[0].html).text.split())


def test_a_fragment_holds_nothing_per_user_and_one_stable_id():
    html = card(robot(holds=[hold()], **ON_A_MISSION))
    assert "csrf" not in html
    ids = [attributes["id"] for _, attributes in Reader(html).elements if attributes.get("id")]
    assert ids[0] == "robot-RB-001" and len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("row", "offered"),
    [
        (robot(), {"stop"}),
        (robot(presence="offline"), {"stop"}),
        (robot(holds=[hold(confirmed_at=None)]), {"stop", "release"}),
        (robot(holds=[hold()], **ON_A_MISSION | {"mission_paused_at": T0}), {"stop", "release"}),
        (robot(**ON_A_MISSION), {"stop", "pause"}),
        (robot(**ON_A_MISSION | {"mission_paused_at": T0}), {"stop", "resume"}),
        (robot(**ON_A_MISSION | {"mission_state": "pending"}), {"stop"}),
        (robot(**ON_A_MISSION | {"mission_stop_requested_at": T0}), {"stop"}),
    ],
)
def test_what_a_card_offers_and_stop_always(row, offered):
    html = card(row)
    buttons = [attributes for tag, attributes in Reader(html).elements if tag == "button"]
    assert {b["class"].split()[1] for b in buttons} == offered
    assert not any("disabled" in b for b in buttons)
    assert {b["class"].split()[1] for b in buttons if b.get("data-ask")} == {"release"} & offered
    asks = {b["class"].split()[1]: b["formaction"] for b in buttons}
    assert asks["stop"] == "/fleet/robots/RB-001/stop"
    assert asks.get("resume", "").endswith(f"/resume?version={row.mission_version}") is ("resume" in offered)


def test_only_what_starts_motion_is_marked_so():
    html = card(robot(holds=[hold()], **ON_A_MISSION)) + card(robot(**ON_A_MISSION | {"mission_paused_at": T0}))
    marked = {
        attributes["class"].split()[1]
        for tag, attributes in Reader(html).elements
        if tag == "button" and "starts" in attributes["class"].split()
    }
    assert marked == {"release", "resume"}


def test_values_carry_their_age_and_change_nothing_else():
    early = Snapshot(at=5000, posed_at=4000, x=1.25, y=2.0, speed=0.84, battery=63.6, place="")
    html = card(robot(), early)
    assert '<span class="battery live" data-at="5000">' in html and "64 %" in html
    assert 'class="where live" data-at="4000"' in html and "1.2, 2.0 m" in html and "0.8 m/s" in html


def test_worst_comes_first():
    rows = [
        robot(name="off", presence="offline"),
        robot(name="idle"),
        robot(name="running", mode="running"),
        robot(name="soon", presence="suspect"),
        robot(name="now", fault="x"),
        robot(name="asked", **ON_A_MISSION | {"mission_state": "pending"}),
    ]
    ranked = sorted((whole(r) for r in rows), key=lambda f: f.rank)
    order = [re.search('data-name="(.*?)"', f.html)[1] for f in ranked]
    assert order == ["now", "soon", "asked", "running", "idle", "off"]
    lines = {
        "wrong": mission(robot_presence="offline", robot_presence_since=T0),
        "runs": mission(),
        "later": waiting(created_at=T0 + timedelta(minutes=1)),
        "before": waiting(created_at=T0),
        "over": mission(state="success", ended_at=T0),
    }
    assert sorted(lines, key=lambda name: fragments.mission(lines[name]).rank) == list(lines)


def test_what_is_tried_again_counts_down():
    """The browser makes "in 4 s" of the moment."""
    row = robot(**ON_A_MISSION | {"mission_retry_for": "failure", "mission_retry_due_at": T0})
    again = mission(retry_for="failure", retry_due_at=T0, attempt=1, failed_attempts=1, failure_retries=2)
    for html in (card(row), fragments.mission(again).html):
        assert [a["data-as"] for tag, a in Reader(html).elements if tag == "time"] == ["in"]
    paused = card(robot(**vars_of(row) | {"mode": "paused", "mission_paused_at": T0}))
    assert plain(paused) == "Paused 10:31 UTC"


def vars_of(row: RobotRow) -> dict:
    return {name: getattr(row, name) for name in row.__struct_fields__}


@pytest.mark.parametrize(("suspect_after_s", "old"), [(9, None), (15, None), (35, "35000")])
def test_a_robot_that_says_little_does_not_look_old_while_all_is_well(suspect_after_s, old):
    """VDA 5050 robots that stand still say how they are every 30 s."""
    shown = fragments.vitals(robot(suspect_after_s=suspect_after_s), Snapshot(at=5, posed_at=5, battery=50.0)).html
    spans = [a for _, a in Reader(shown).elements if "live" in (a.get("class") or "")]
    assert [a.get("data-old") for a in spans] == [old, old]


def test_the_counters_of_missions_lead_to_their_lists():
    hrefs = [a["href"] for tag, a in Reader(fragments.counts(None, Counter(), Counter()).html).elements if tag == "a"]
    assert hrefs == [f"/admin/missions/mission/?shown={name}" for name in ("waiting", "running", "done", "wrong")]
    here = Reader(fragments.counts(frozenset({3}), Counter(), Counter()).html).elements
    assert {a["href"].partition("&")[2] for tag, a in here if tag == "a"} == {"site__id__exact=3"}


def test_counts_fill_one_bar():
    html = fragments.counts(None, Counter(bad=1, idle=2, off=1), Counter(waiting=3)).html
    bars = [attributes for tag, attributes in Reader(html).elements if tag == "rect"]
    assert [(b["class"], b["x"], b["width"]) for b in bars] == [
        ("bad", "0.0", "250.0"), ("idle", "250.0", "500.0"), ("off", "750.0", "250.0"),
    ]  # fmt: skip
    assert "3 waiting" in " ".join(Reader(html).text.split())
    assert "1 Offline or unknown" in " ".join(Reader(html).text.split())  # no verdict on its link: no "Offline"
    assert "not confirmed" not in html
    html = fragments.counts(None, Counter(), Counter(aborted=1, unconfirmed=2)).html
    assert "1 aborted in 24 h2 aborted in 24 h, stop not confirmed" in " ".join(Reader(html).text.split())


def test_every_shape_is_in_the_sprite():
    sprite = (settings.BASE_DIR / "templates/fleet/_icons.html").read_text()
    shapes = {said.icon for mode, said in MODES.items() if mode != "unknown"} | {"ring", "warn", "bad", "off", "done"}
    assert {s for s in shapes if f'id="i-{s}"' not in sprite} == set()
    assert {n for n in range(6) if f'id="i-battery-{n}"' not in sprite} == set()


def test_vendored_files_are_unchanged():
    folder = Path(settings.BASE_DIR, "static/vendor")
    listed = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert listed.keys() | {"SHA256SUMS", "README.md"} == {path.name for path in folder.iterdir()}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in listed} == listed


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (robot(), None),
        (robot(holds=[hold("maintenance")]), None),
        (robot(holds=[hold()]), "stands"),
        (robot(holds=[hold()], presence="offline"), "stands"),
        (robot(holds=[hold(confirmed_at=None)]), "asked"),
        (robot(holds=[hold(confirmed_at=None, unconfirmed_at=T0)]), "late"),
        (robot(holds=[hold(confirmed_at=None, unconfirmed_at=T0)], presence="offline"), "offline"),
    ],
)
def test_the_card_carries_how_far_a_stop_is(row, state):
    [(_, article), *_] = Reader(card(row)).elements
    assert article.get("data-stop") == state
    assert article.get("data-stop-at") == (None if state is None else T0.isoformat(timespec="milliseconds"))


def test_who_may_still_be_moving_comes_first():
    stands = fragments.shell(robot(holds=[hold()]), low=False)
    for given in ({"holds": [hold(confirmed_at=None, unconfirmed_at=T0)]},
                  {"holds": [hold(confirmed_at=None)], "presence": "offline"}):  # fmt: skip
        assert fragments.shell(robot(name="Zoe", **given), low=False).rank < stands.rank

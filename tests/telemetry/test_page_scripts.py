"""What the pages' scripts do that needs no browser: words of time and names, order, rows that are dragged, when a link is made anew."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from tests.tools import tool

SCRIPTS = Path(settings.BASE_DIR) / "static" / "live"
STAGE = Path(__file__).with_name("page_scripts.mjs")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """run(program) → what its last line, an expression, comes to. The stage's names are there, and `script(name)` loads one."""
    node, folder = tool("node"), tmp_path_factory.mktemp("scripts")
    shutil.copytree(SCRIPTS, folder / "live")
    (folder / "package.json").write_text('{"type": "module"}')  # the older Nodes ask for it
    shutil.copy(STAGE, folder)

    def program(text: str):
        *lines, last = text.strip().splitlines()
        begin = (
            'import { later, there, Thing, waits } from "./page_scripts.mjs";\n'
            "const script = (name) => import(`./live/${name}.js`);\n"
        )
        (folder / "test.mjs").write_text("\n".join([begin, *lines, f"console.log(JSON.stringify({last}))"]))
        done = subprocess.run([node, "test.mjs"], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return program


def test_a_span_of_time_in_words(run):
    said = run("""
        const { span } = await script("times");
        [-5, 0, 59_400, 59_600, 3_599_000, 3_600_000, 5_400_000, 86_399_000, 86_400_000, 200_000_000].map(span)
    """)
    assert said == ["0 s", "0 s", "59 s", "1 min", "59 min", "1 h 0 min", "1 h 30 min", "23 h 59 min", "1 d", "2 d"]


def test_ages_and_countdowns_in_words(run):
    said = run("""
        const { tick } = await script("ages");
        const time = (kind, s) => new Thing({ dataset: { [kind]: "" }, dateTime: new Date(Date.now() + s * 1000).toISOString() });
        document.cards = [
          ...[-3600 * 48, -3600, -3599, -60, -59.9, 30].map((s) => time("ago", s)),
          ...[5.2, 119, 120, 7300, 0, -30, -3700].map((s) => time("until", s)),
          new Thing({ dataset: { ago: "" }, dateTime: "no date", textContent: "as it was" }),
        ];
        tick();
        document.cards.map((element) => element.textContent)
    """)
    assert said == [
        "2 days ago", "1 hour ago", "59 minutes ago", "1 minute ago", "59 s ago", "0 s ago",
        "in 6 s", "in 119 s", "in 2 minutes", "in 2 hours", "in 0 s", "due 30 s ago", "due 1 hour ago", "as it was",
    ]  # fmt: skip


def test_values_and_moments_are_told_by_the_clock_of_the_server(run):
    said = run("""
        const { format, learnClock } = await script("times");
        const value = (ago, old) => new Thing({ dataset: { at: String(Date.now() - ago), old } });
        const values = [value(6000), value(6001), value(9999, "10000"), value(10_001, "10000")];
        const moment = ([as, ms]) => new Thing({ dataset: { as }, dateTime: new Date(Date.now() + ms).toISOString() });
        const moments = [["for", -90_000], ["in", 90_000], ["in", -1]].map(moment);
        const root = { querySelectorAll: (which) => (which.startsWith("time") ? moments : values) };
        const told = () => (format(root), [...moments, ...values.map((v) => v.querySelector(".old"))].map((e) => e.textContent));
        const before = [told(), values.map((v) => v.classList.contains("aged"))];
        learnClock(Date.now() - 60_000);
        [...before, told(), values.map((v) => v.classList.contains("aged"))]
    """)
    assert said == [
        ["1 min", "in 1 min", "now", "", "6 s ago", "", "10 s ago"], [False, True, False, True],
        ["30 s", "in 2 min", "in 1 min", "", "", "", ""], [False] * 4,
    ]  # fmt: skip


def test_robots_in_a_sentence_are_eight_and_a_number(run):
    said = run("""
        const { names } = await script("cards");
        there("robot-R1", { dataset: { name: "Ella" } });
        const ids = (n) => Array.from({ length: n }, (_, i) => `R${i + 1}`);
        [names(ids(1)), names(ids(8)), names(ids(9))]
    """)
    eight = "Ella, " + ", ".join(f"R{n}" for n in range(2, 9))
    assert said == ["Ella", eight, f"{eight} and 1 more"]


def test_the_worst_card_and_the_newest_mission_come_first(run):
    said = run("""
        const { arrange } = await script("order");
        const put = (home, ...cards) => there(home).append(...cards.map(([id, dataset]) => new Thing({ id, dataset })));
        put("robots", ["b", { rank: "10", name: "Ella" }], ["c", { rank: "9", name: "Finn" }], ["a", { rank: "10", name: "Ella" }],
            ["d", { rank: "9", name: "Dora" }]);
        put("missions", ["old", { rank: "1", created: "2026-11-29" }], ["new", { rank: "1", created: "2026-11-30" }],
            ["first", { rank: "0", created: "2026-11-01" }]);
        arrange();
        ["robots", "missions"].map((home) => document.getElementById(home).children.map((card) => card.id))
    """)
    assert said == [["d", "c", "a", "b"], ["first", "new", "old"]]


def test_usual_times_are_those_of_the_robot_or_the_longest_of_those_that_can(run):
    said = run("""
        const { usualTimes } = await script("step_policy");
        const one = { site: 1, can: ["wait"], step_timeouts: { wait: 40 }, timeout_s: 100 };
        const two = { site: 1, can: ["wait", "pick"], step_timeouts: { drop: 500 }, timeout_s: 300 };
        const far = { site: 2, can: ["pick"], step_timeouts: { pick: 900 }, timeout_s: 999 };
        const choices = { robots: { one, two, far }, types: { wait: { timeout_s: 30 }, pick: { timeout_s: 60 }, drop: { timeout_s: 70 } } };
        const at = (robot, site) => usualTimes(choices, robot, site);
        [at("one", "1").steps("wait"), at("two", "1").steps("wait"), at("", "1").steps("wait"), at("", "1").steps("pick"), at("", "1").steps("drop"), at("one", "1").mission(), at("", "1").mission(), at("", "2").mission(), at("", "").mission()]
    """)
    assert said == [40, 30, 40, 60, 70, 100, 300, 999, 600]


def test_a_row_is_dragged_past_the_middle_of_those_it_passes(run):
    said = run("""
        const { watchOrder } = await script("reorder");
        const rows = [];
        const row = (id) => Object.assign(new Thing({ id }), {
          getBoundingClientRect() { return { top: rows.indexOf(this) * 100, height: 100 }; },
          compareDocumentPosition(other) { return rows.indexOf(other) > rows.indexOf(this) ? 4 : 2; },
          before(moved) { rows.splice(rows.indexOf(moved), 1); rows.splice(rows.indexOf(this), 0, moved); },
          after(moved) { rows.splice(rows.indexOf(moved), 1); rows.splice(rows.indexOf(this) + 1, 0, moved); },
        });
        rows.push(...["a", "b", "c", "d"].map(row));
        const list = new Thing();
        const dropped = [];
        watchOrder(list, () => rows.slice(), { step() {}, dropped: (row) => dropped.push(row.id) });
        const handle = (row) => ({ closest: (what) => (what === "li" ? row : handle(row)), setPointerCapture() {} });
        const order = () => rows.map((row) => row.id).join("");
        const seen = [];
        const drag = (id, ...ys) => {
          const target = handle(rows.find((row) => row.id === id));
          list.on("pointerdown", { target, button: 0 });
          for (const clientY of ys) { list.on("pointermove", { target, clientY }); seen.push(order()); }
          list.on("pointerup");
        };
        drag("c", 151, 149, 51, 49);
        drag("a", 249, 251, 399);
        list.on("pointermove", { clientY: 0 });
        [seen, order(), dropped]
    """)
    assert said == [["abcd", "acbd", "acbd", "cabd", "cabd", "cbad", "cbda"], "cbda", ["c", "a"]]


def test_the_alerts_close_by_escape_and_by_a_click_elsewhere(run):
    said = run("""
        const { startAlarms } = await script("alarms");
        const alarms = there("alarms", { open: true });
        startAlarms();
        const seen = [];
        document.on("keydown", { key: "a" });
        document.on("click", { target: alarms });
        seen.push(alarms.open);
        document.on("keydown", { key: "Escape" });
        seen.push(alarms.open, document.activeElement === alarms.querySelector("summary"));
        document.activeElement = null;
        document.on("keydown", { key: "Escape" });
        seen.push(document.activeElement === null);
        alarms.open = true;
        document.on("click", { target: new Thing() });
        [...seen, alarms.open]
    """)
    assert said == [True, False, True, True, False]


LINK = """
    const { reconnect, startLink } = await script("link");
    for (const id of ["link-state", "link-news", "wire", "told"]) there(id);
    let tries = 0;
    window.htmx = { swap: () => (tries += 1) };
    const hear = (said) => document.body.on("htmx:ws:before:message:incoming", { detail: { message: { data: JSON.stringify(said) } } });
    startLink();
    const seen = [];
    const after = (ms) => { later(ms); seen.push(tries); };
"""


def test_a_link_over_which_nothing_comes_is_made_anew_after_four_beats(run):
    said = run(f"""{LINK}
        after(12_000);
        after(1000);
        after(12_000);
        hear({{ beat: Date.now(), trouble: "", slow: false }});
        after(12_000);
        document.visibilityState = "hidden";
        after(60_000);
        document.visibilityState = "visible";
        document.on("visibilitychange");
        after(0);
        seen
    """)
    assert said == [0, 1, 1, 1, 1, 2]


def test_a_link_is_not_made_anew_twice_in_a_second(run):
    said = run(f"""{LINK}
        window.on("online");
        window.on("online");
        after(999);
        reconnect();
        after(1);
        reconnect();
        after(0);
        document.body.on("htmx:ws:close", {{ detail: {{ code: 4401 }} }});
        later(5000);
        reconnect();
        after(0);
        [seen, document.getElementById("told").textContent]
    """)
    assert said == [[1, 1, 2, 2], "You are signed out. Sign in again."]


@pytest.mark.parametrize(("robots", "wait_ms"), [(100, 0), (101, 250)])
def test_a_stop_of_many_is_counted_anew_four_times_a_second(run, robots, wait_ms):
    said = run(f"""
        const {{ showStopsSoon, startStops }} = await script("stops");
        const box = there("stops");
        const ids = Array.from({{ length: {robots} }}, (_, i) => `R${{i}}`);
        for (const id of ids) there(`stopped-${{id}}`).append(new Thing());
        sessionStorage.setItem("drover.stops", JSON.stringify({{ where: "Hall 1", at: Date.now(), ids, errors: {{}}, seen: {{}} }}));
        startStops();
        const before = waits();
        there("robot-R0", {{ dataset: {{ name: "Ella", stop: "stands" }} }}).dataset.stopAt = new Date().toISOString();
        for (let frame = 0; frame < 20; frame += 1) showStopsSoon();
        const more = waits().slice(before.length);
        const sums = [box.querySelector(".sum").textContent];
        later({wait_ms});
        const left = waits().length - before.length;
        showStopsSoon();
        [more, ...sums, box.querySelector(".sum").textContent, left, waits().length - before.length]
    """)
    assert said == [[wait_ms], "There is no robot here to stop.", "1 standing", 0, 1]

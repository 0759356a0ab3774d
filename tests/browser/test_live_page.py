"""The fleet page in a real Chromium, with a real daphne: pushed, honest about its age (I7), and kind to its users."""

import signal
from datetime import UTC, datetime

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from fleet.models import Hold
from fleet.robots import actions as robots
from fleet.robots import stopping
from missions import actions, drawing_up, facts
from tests import varied_fleet
from tests.actors import STEPS, SYSTEM, tell, user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_live_redis")]


@pytest.fixture
def fleet(sign_in, supervisor, robot, other_robot):
    """The page of a supervisor who watches two robots, live, with all its requests and sockets listed."""
    return opened(sign_in(supervisor))


def opened(page: Page) -> Page:
    page.requests, page.sockets = [], []
    page.on("request", lambda request: page.requests.append(f"{request.method} {request.url}"))
    page.on("websocket", lambda socket: page.sockets.append(socket))
    page.goto("/fleet/")
    is_live(page)
    return page


def is_live(page: Page) -> None:
    expect(page.locator("#link-state")).to_have_attribute("data-state", "live")


def rename(robot, name: str) -> None:
    robots.edit_robot(robot.pk, name=name, site=robot.site_id, brand=robot.brand_id, by=SYSTEM)


def card(page: Page, robot_id: str = "RB-001"):
    return page.locator(f"[id='robot-{robot_id}']")


def order(page: Page) -> list[str]:
    return page.locator("#robots > .card").evaluate_all("cards => cards.map(card => card.id)")


def test_changes_arrive_without_reload_poll_or_second_socket(fleet, robot, other_robot, mission, supervisor):
    expect(fleet.locator(f"#mission-{mission.pk}")).to_contain_text("Pending")
    before = len(fleet.requests)
    other = fleet.locator("#robot-RB-002")
    other.evaluate("card => { card.mark = 'the same node'; }")
    actions.dispatch_mission(mission.pk, by=SYSTEM)
    mission.refresh_from_db(fields=["dispatched_at", "robot_id"])
    row = fleet.locator(f"#mission-{mission.pk}")
    expect(row).to_contain_text("Waiting for Ella to take it")
    tell(mission, facts.Delivered(), facts.Accepted(1))
    expect(row).to_have_attribute("data-state", "executing")
    for step in (1, 2, 3):
        expect(row.locator(".step")).to_have_text(f"{step}/3")
        expect(card(fleet).locator(".step")).to_have_text(f"{step}/3")
        tell(mission, facts.StepCompleted(1, step, 1))
    tell(mission, facts.Finished(1))
    expect(row).to_have_attribute("data-state", "success")
    expect(row).to_contain_text("Success")
    expect(row).to_have_count(0)  # it stays a while, then it leaves
    assert other.evaluate("card => card.mark") == "the same node"
    assert len(fleet.sockets) == 1 and fleet.requests[before:] == []


def test_live_facts_arrive_and_leave_the_card_alone(fleet, robot):
    card(fleet).evaluate("card => { card.mark = 1; card.querySelector('.says').mark = 2; }")
    varied_fleet.live("RB-001", timezone.now(), x=1.0, y=2.5, speed=0.7, battery=63.0)
    expect(card(fleet)).to_contain_text("63 %")
    expect(card(fleet)).to_contain_text("1.0, 2.5 m")
    assert card(fleet).evaluate("card => [card.mark, card.querySelector('.says').mark]") == [1, 2]


def test_robots_and_missions_come_and_go(fleet, site, brand, robot):
    robots.enrol_robot(id="A.new_one-3", name="Newcomer", site=site, brand=brand, by=SYSTEM)
    expect(card(fleet, "A.new_one-3")).to_contain_text("Newcomer")
    earlier = drawing_up.draft_mission(title="Before", site=site, robot=robot, steps=STEPS, by=SYSTEM)
    drafted = drawing_up.draft_mission(title="Just drawn up", site=site, robot=robot, steps=STEPS, by=SYSTEM)
    expect(fleet.locator(f"#mission-{drafted}")).to_contain_text("Just drawn up")
    expect(fleet.locator("#missions > li").nth(0)).to_have_id(f"mission-{drafted}")  # the newest first
    expect(fleet.locator("#missions > li").nth(1)).to_have_id(f"mission-{earlier}")
    robots.retire_robot("A.new_one-3", by=SYSTEM)
    expect(card(fleet, "A.new_one-3")).to_have_count(0)
    expect(card(fleet)).to_have_count(1)


def test_hostile_text_is_shown_as_text_while_others_update(fleet, robot, other_robot):
    for text in (
        "<img src=x onerror=\"document.title='owned'\">",
        "</article><script>document.title='owned'</script>",
        "\"'><b id=robot-RB-002 hx-swap-oob=delete>",
        "<hx-partial hx-target=body>gone</hx-partial>",
        "🤖 ‮مرحبا",
    ):
        rename(robot, text)
        expect(card(fleet).locator("h3")).to_have_text(text)
        rename(other_robot, f"beside {text}"[:100])
        expect(card(fleet, "RB-002").locator("h3")).to_have_text(f"beside {text}"[:100])
    fleet.locator("#robot-RB-001").evaluate("card => { card.mark = 1; }")
    varied_fleet.Fleet.fault(Words(), "RB-001", "<b>" + "x" * 65_000)
    expect(card(fleet).locator(".says")).to_contain_text("Fault")
    assert fleet.locator("#board b b, #board img, #board script").count() == 0
    assert fleet.title() == "Fleet · Drover"


class Words(varied_fleet.Fleet):
    """Only the robot's words, without making a site."""

    def __init__(self) -> None:
        self.now, self.seq = timezone.now(), 100


def test_typed_text_focus_and_selection_survive_pushes(fleet, robot, other_robot):
    find = fleet.locator("#find")
    find.fill("bru")
    expect(card(fleet)).to_be_hidden()
    find.evaluate("input => input.setSelectionRange(1, 2)")
    for number in range(5):
        rename(robot, f"Ella {number}")
        rename(other_robot, f"Bruno {number}")
        expect(card(fleet, "RB-002").locator("h3")).to_have_text(f"Bruno {number}")
    assert find.input_value() == "bru"
    assert find.evaluate("i => [document.activeElement === i, i.selectionStart, i.selectionEnd]") == [True, 1, 2]
    expect(card(fleet)).to_be_hidden()  # the search still holds for a card that was pushed
    fleet.locator("#stop-RB-002").focus()
    stopping.stop_robot("RB-002", by=SYSTEM)
    expect(card(fleet, "RB-002")).to_contain_text("Stopping…")
    assert fleet.evaluate("document.activeElement.id") == "stop-RB-002"


def test_a_search_that_finds_nothing_says_so_and_enter_leads_to_what_it_finds(fleet, robot):
    nothing = fleet.get_by_text("No robot fits")
    assert not nothing.is_visible()
    fleet.locator("#find").fill("zzz")
    nothing.wait_for()
    fleet.keyboard.press("Escape")
    nothing.wait_for(state="hidden")
    Words().fault("RB-002", "wheel stuck")
    need_you = fleet.locator(".filter[data-filter='bad']")
    need_you.click()  # it can be pressed as soon as it counts one
    expect(card(fleet, "RB-002")).to_be_visible()
    expect(card(fleet)).to_be_hidden()
    need_you.click()
    expect(card(fleet)).to_be_visible()
    fleet.locator("#find").fill("RB-001")
    fleet.keyboard.press("Enter")  # with the keyboard alone: to what was found, where its keys work
    assert fleet.evaluate("document.activeElement.id") == "robot-RB-001"


def test_stop_is_one_click_and_release_asks_first(fleet, robot):
    fleet.expected += ["ERR_FAILED"]
    fleet.route("**/RB-001/stop", lambda route: route.abort(), times=1)  # it is sent again by itself
    card(fleet).hover()
    fleet.locator("#stop-RB-001").click()
    expect(card(fleet).locator(".says")).to_contain_text("Stopping… asked by Ana")
    expect(fleet.locator("#told")).to_have_text("Stopping RB-001.")
    Words().stands("RB-001")
    expect(card(fleet).locator(".says")).to_contain_text("Stopped by Ana")
    fleet.locator("#release-RB-001").click()
    expect(fleet.locator("#ask")).to_contain_text("Release Ella? It may get work and move again.")
    fleet.keyboard.press("Escape")
    assert Hold.objects.get().released_at is None
    fleet.locator("#release-RB-001").click()
    fleet.locator("#ask button[value=yes]").click()
    expect(card(fleet).locator(".says")).not_to_contain_text("Stopped")
    assert Hold.objects.get().released_by == "Ana"


def test_on_a_touch_screen_stop_is_pressed_and_held(sign_in, supervisor, robot):
    page = opened(sign_in(supervisor, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True))
    stop = page.locator("#stop-RB-001")
    expect(stop).to_be_visible()
    stop.tap()
    expect(page.locator("#told")).to_have_text("Press and hold to stop.")
    assert not Hold.objects.exists()
    box = stop.bounding_box()
    finger = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    touch = page.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [finger]})
    expect(card(page).locator(".says")).to_contain_text("Stopping…")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert Hold.objects.count() == 1


def test_an_auditor_sees_everything_and_is_offered_nothing(sign_in, auditor, robot):
    page = opened(sign_in(auditor))
    card(page).hover()
    expect(page.locator("#stop-RB-001")).to_be_hidden()
    expect(page.locator("#open-RB-001")).to_be_visible()
    rename(robot, "Seen")
    expect(card(page)).to_contain_text("Seen")


def test_it_comes_back_by_itself_after_the_server_was_gone(fleet, web, robot):
    fleet.expected += ["ERR_CONNECTION_REFUSED", "WebSocket connection to", "htmx:ws:error"]
    web.stop(signal.SIGKILL)
    rename(robot, "Changed meanwhile")
    robots.retire_robot("RB-002", by=SYSTEM)
    fleet.evaluate("""() => {
        const rest = Object.assign(document.createElement('p'), { id: 'rest', textContent: '7 more robots come in a moment' });
        document.getElementById('robots').after(rest);
    }""")
    expect(fleet.locator("#link-state")).to_have_attribute("data-state", "stale")
    expect(fleet.locator("#link-state")).to_contain_text("Stale")
    assert "stale" in fleet.evaluate("document.body.className")
    expect(fleet.locator("#stop-RB-001")).to_be_enabled()
    fleet.evaluate("""() => {
        const button = Object.assign(document.createElement('button'), { type: 'button', className: 'act starts', textContent: 'Go' });
        document.body.append(button);
        button.click();
        button.remove();
    }""")
    expect(fleet.locator("#told")).to_contain_text("What you see is old.")  # nothing is set in motion by it
    assert card(fleet).locator("h3").text_content() == "Ella"
    web.start()
    expect(card(fleet)).to_contain_text("Changed meanwhile")
    is_live(fleet)
    expect(card(fleet, "RB-002")).to_have_count(0)  # it went while nobody could say so
    expect(fleet.locator("#rest")).to_have_count(0)
    rename(robot, "And live again")
    expect(card(fleet)).to_contain_text("And live again")
    assert not any("/fleet/" in line for line in fleet.requests[1:])


def test_a_server_that_ends_in_order_is_found_again(fleet, web, robot):
    fleet.expected += ["ERR_CONNECTION_REFUSED", "WebSocket connection to", "htmx:ws:error"]
    web.stop()
    web.start()
    rename(robot, "After the restart")
    expect(card(fleet)).to_contain_text("After the restart")
    is_live(fleet)


def test_coming_online_does_not_wait_for_the_next_try(fleet, web, robot):
    fleet.expected += ["ERR_CONNECTION_REFUSED", "WebSocket connection to", "htmx:ws:error"]
    before = len(fleet.sockets)
    fleet.evaluate("window.dispatchEvent(new Event('online'))")
    rename(robot, "Over the new link")
    expect(card(fleet)).to_contain_text("Over the new link")
    assert len(fleet.sockets) == before + 1
    is_live(fleet)


def test_no_frame_is_lost_while_a_module_is_slow_to_load(sign_in, supervisor, robot):
    page = sign_in(supervisor)
    waiting = []
    page.route("**/live/times.js", lambda route: waiting.append(route))
    page.goto("/fleet/", wait_until="commit")
    expect(page.locator("#board")).to_be_visible()
    page.wait_for_timeout(1_500)  # longer than htmx would need to open the socket
    waiting[0].continue_()
    is_live(page)
    rename(robot, "Not lost")
    expect(card(page)).to_contain_text("Not lost")


def test_values_that_grow_old_say_so_and_the_worst_comes_first_in_a_pause(fleet, robot):
    card(fleet, "RB-002").focus()
    assert order(fleet) == ["robot-RB-002", "robot-RB-001"]
    Words().fault("RB-001", "wheel stuck")
    varied_fleet.live("RB-001", datetime.now(UTC).replace(year=2020), x=1.0, y=2.5, speed=0.7, battery=63.0)
    expect(card(fleet).locator(".where")).to_have_class("where live aged")
    expect(card(fleet).locator(".old")).to_contain_text("d ago")
    varied_fleet.live("RB-001", timezone.now(), x=1.0, y=2.5, speed=0.7, battery=63.0)
    expect(card(fleet).locator(".where")).to_have_class("where live")
    expect(card(fleet).locator(".old")).to_have_text("")
    expect(card(fleet).locator(".old")).to_contain_text("ago")  # nothing comes any more
    expect(card(fleet).locator(".says")).to_contain_text("Fault")
    assert order(fleet) == ["robot-RB-002", "robot-RB-001"], "nothing moves while somebody is in it"
    card(fleet, "RB-002").blur()
    expect(fleet.locator("#robots > .card").first).to_have_id("robot-RB-001")  # the worst first


def test_beats_of_a_server_without_its_database_do_not_look_live(fleet):
    """The line is up and says so; what is shown may be old all the same."""
    seen = fleet.evaluate("""() => {
        const was = performance.now.bind(performance);
        performance.now = () => was() + 60_000;
        const data = JSON.stringify({ beat: Date.now(), trouble: 'The database does not answer', slow: false });
        document.body.dispatchEvent(new CustomEvent('htmx:ws:before:message:incoming', { detail: { message: { data } } }));
        const { dataset, title } = document.getElementById('link-state');
        return [dataset.state, title, document.body.classList.contains('stale')];
    }""")
    assert seen == ["stale", "The database does not answer", True]
    is_live(fleet)  # with the next beat, which knows of no trouble
    sent, state, ahead_h, spans = fleet.evaluate("""async () => {
        const { serverNow, span } = await import('/static/live/times.js');
        const sent = [];
        const connection = { socket: { readyState: WebSocket.OPEN, send: (text) => sent.push(JSON.parse(text)) } };
        const tell = (name, detail) => document.body.dispatchEvent(new CustomEvent(`htmx:ws:${name}`, { detail }));
        const hear = (message) => tell('before:message:incoming', { connection, message: { data: JSON.stringify(message) } });
        for (const n of [71, 72]) {
            hear({ n, put: [], gone: [] });
            tell('error', { connection });
        }
        hear({ beat: Date.now() + 7_200_000, trouble: '', slow: true });
        const ahead_h = (serverNow() - Date.now()) / 3_600_000;
        const spans = [-5, 59, 60, 3599, 3600, 86_399, 2 * 86_400].map((s) => span(s * 1000));
        return [sent, document.getElementById('link-state').dataset.state, ahead_h, spans];
    }""")
    assert sent == [{"ack": 71, "again": True}, {"ack": 72, "again": False}], "a whole frame instead, but not in a loop"
    assert (state, round(ahead_h)) == ("slow", 2)
    assert spans == ["0 s", "59 s", "1 min", "59 min", "1 h 0 min", "23 h 59 min", "2 d"]
    is_live(fleet)


def test_who_is_signed_out_is_told_and_not_reconnected(fleet, supervisor):
    supervisor.set_password("another one")
    supervisor.save()
    expect(fleet.locator("#link-state")).to_contain_text("Signed out")
    expect(fleet.locator("#told")).to_contain_text("Sign in again")
    sockets = len(fleet.sockets)
    fleet.wait_for_timeout(2_000)
    assert len(fleet.sockets) == sockets


def test_sign_in_by_hand_leads_to_the_fleet(chromium, web, robot, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    user("Iva", "auditor")
    context = chromium.new_context(base_url=web.url)
    page = context.new_page()
    page.goto("/")
    page.get_by_label("User name").fill("Iva")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{web.url}/fleet/")
    expect(card(page)).to_contain_text("Ella")
    context.close()


def test_nothing_overflows_and_every_state_is_there(sign_in, admin_person):
    varied_fleet.build(timezone.now())
    page = opened(sign_in(admin_person))
    assert page.locator(".card").count() == 12
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        heights = page.locator(".card").evaluate_all("cards => [...new Set(cards.map(c => c.offsetHeight))]")
        assert len(heights) == 1, width
    ranks = page.locator(".card").evaluate_all("cards => cards.map(c => +c.dataset.rank)")
    assert ranks == sorted(ranks)

"""The board: what is dirty, what is sent to whom, and that memory and frames stay bounded. No I/O, no clock."""

import msgspec
import pytest

from missions.queue import reasons
from telemetry.live import hub
from telemetry.live.board import LINGER_S, Board, Dirty
from telemetry.live.loading import Loaded, Versions, Waits
from telemetry.live.viewer import Viewer
from telemetry.snapshots import Snapshot
from tests.telemetry.test_fragments import T0, mission, plain, robot, waiting

M1, M2, M3 = (f"6a1f0a52-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))


def put(board, robots=(), missions=(), snapshots=None, now=0.0, dirty=None):
    rows = Loaded({r.id: r for r in robots}, {m.id: m for m in missions})
    named = Dirty(False, set(rows.robots), set(rows.missions), set(snapshots or ()))
    board.put(dirty or named, rows, snapshots or {}, now)


def frame(board, viewer) -> dict:
    assert viewer.ready
    return msgspec.json.decode(board.frame(viewer))


@pytest.fixture
def board():
    board = Board()
    assert board.take().all  # at first nothing is known
    put(
        board,
        [robot(), robot(id="RB-002", name="Bo", site=2)],
        [mission(id=M1)],
        dirty=Dirty(True, set(), set(), set()),
    )
    return board


def watch(board, view=None) -> Viewer:
    viewer = Viewer(view)
    board.admit(viewer, view)
    first = frame(board, viewer)
    assert first["whole"] and first["n"] == 1
    viewer.ack(1)
    return viewer


def test_the_first_frame_is_the_whole_board(board):
    viewer = Viewer()
    board.admit(viewer, viewer.view)
    first = frame(board, viewer)
    assert first["put"] == ["counts", f"mission-{M1}", "robot-RB-002", "robot-RB-001"]  # by name within a rank
    assert first["gone"] == [] and first["content"].count("<article") == 2
    assert not viewer.ready


def test_only_what_became_different_is_sent(board):
    viewer = watch(board)
    put(board, [robot(), robot(id="RB-002", name="Bo", site=2, fault="hot")])
    second = frame(board, viewer)
    assert set(second["put"]) == {"counts", "robot-RB-002"} and not second["whole"]
    put(board, [robot(version=9)])  # a newer version that looks the same
    assert not viewer.ready


def test_live_facts_send_only_the_vitals(board):
    viewer = watch(board)
    put(board, snapshots={"RB-001": Snapshot(at=1, battery=80), "RB-404": Snapshot(at=1)})
    only = frame(board, viewer)
    assert only["put"] == ["vitals-RB-001"] and "<article" not in only["content"] and "80 %" in only["content"]
    viewer.ack(viewer.n)
    put(board, snapshots={"RB-001": Snapshot(at=2, battery=8)})  # low battery: the card says so
    card = frame(board, viewer)
    assert set(card["put"]) == {"robot-RB-001", "counts"} and "8 %" in card["content"]


def test_a_card_brings_its_vitals_along(board):
    viewer = watch(board)
    put(board, snapshots={"RB-001": Snapshot(at=1, battery=80)})
    put(board, [robot(mode="charging")])
    both = frame(board, viewer)
    assert set(both["put"]) == {"robot-RB-001", "counts"} and "80 %" in both["content"]


def test_at_most_two_frames_are_unacknowledged_and_meanwhile_changes_merge(board):
    viewer = watch(board)
    for number in range(1, 50):
        put(board, [robot(name=f"Ella {number}")])
        if viewer.ready:
            last = frame(board, viewer)
    assert viewer.n == 3 and set(viewer.pending) == {"robot-RB-001"}
    assert "Ella 2" in last["content"]
    viewer.ack(2)
    merged = frame(board, viewer)
    assert merged["put"] == ["robot-RB-001"] and "Ella 49" in merged["content"]


@pytest.mark.parametrize(("acked", "counts"), [(1, False), (0, False), (-5, False), (99, False), (2, True)])
def test_an_ack_counts_only_for_a_frame_that_was_sent(board, acked, counts):
    viewer = watch(board)
    put(board, [robot(name="a")])
    frame(board, viewer)
    viewer.ack(acked)
    assert viewer.acked == (2 if counts else 1)


def test_a_view_of_one_site_gets_that_site_only(board):
    viewer = Viewer(frozenset({2}))
    board.viewers.add(viewer)
    put(board)
    first = frame(board, viewer)
    assert first["put"] == ["counts", "robot-RB-002"]
    viewer.ack(1)
    put(board, [robot(name="elsewhere")], snapshots={"RB-001": Snapshot(at=1, battery=80)})
    assert not viewer.ready
    put(board, [robot(site=2)])  # it moves in
    assert "robot-RB-001" in frame(board, viewer)["put"]
    viewer.ack(2)
    put(board, [robot(site=1)])  # and out again
    assert frame(board, viewer)["gone"] == ["robot-RB-001"]


def test_a_mission_comes_changes_and_goes(board):
    viewer = watch(board)
    put(board, missions=[mission(id=M2, title="New")])
    assert f"mission-{M2}" in frame(board, viewer)["put"]
    viewer.ack(viewer.n)
    put(board, missions=[mission(id=M2, state="success", ended_at=T0)], now=100.0)
    ended = frame(board, viewer)
    assert f"mission-{M2}" in ended["put"] and "Success" in ended["content"]
    viewer.ack(viewer.n)
    board.forget_ended(100.0 + LINGER_S - 0.1)
    assert not viewer.ready
    board.forget_ended(100.0 + LINGER_S)
    assert frame(board, viewer)["gone"] == [f"mission-{M2}"]
    assert M2 not in board.missions and M2 not in board.lingering


def test_a_mission_that_ended_lingers_through_a_load_of_everything(board):
    watch(board)
    put(board, missions=[mission(id=M1, state="success", ended_at=T0)])
    put(board, [robot()], dirty=Dirty(True, set(), set(), set()))
    assert M1 in board.missions
    board.forget_ended(LINGER_S)
    assert M1 not in board.missions


def test_a_mission_that_nobody_saw_open_does_not_appear(board):
    viewer = watch(board)
    put(board, missions=[mission(id=M2, state="aborted", abort_reason="operator", ended_at=T0)])
    assert not viewer.ready


def test_what_is_no_longer_there_goes(board):
    viewer = watch(board)
    put(board, snapshots={"RB-002": Snapshot(at=1), "RB-404": Snapshot(at=1)})
    board.put(Dirty(False, {"RB-002", "RB-404"}, {M1, M2}, set()), Loaded({}, {}), {}, 0.0)
    gone = frame(board, viewer)
    assert set(gone["gone"]) == {"robot-RB-002", f"mission-{M1}"}
    assert board.shells.keys() == {"RB-001"} and board.vitals.keys() == {"vitals-RB-001"}
    assert board.snapshots == {}


def test_one_that_comes_and_goes_between_frames_is_never_mentioned(board):
    viewer = watch(board)
    put(board, missions=[mission(id=M2)])
    board.put(Dirty(False, set(), {M2}, set()), Loaded({}, {}), {}, 0.0)
    said = frame(board, viewer)
    assert said["gone"] == [] and f"mission-{M2}" not in said["put"]


def test_signals_merge_and_scopes_keep_apart():
    board = Board()
    board.take()
    board.signal(
        [["robot", "A", "live", 1], ["robot", "A", "live", 2], ["robot", "B", "row", 1], ["mission", M1, "row", 1]]
    )
    board.signal([["robot", "A", "live", 3], ["volcano", "C", "row", 1]])
    assert board.take() == Dirty(False, {"B"}, {M1}, {"A"})
    assert not board.take()


def test_what_could_not_be_loaded_is_still_dirty():
    board = Board()
    first = board.take()
    board.signal([["robot", "A", "row", 1]])
    board.give_back(first)
    assert board.take() == Dirty(True, {"A"}, set(), set())


@pytest.mark.parametrize(
    ("robots", "missions", "dirty"),
    [
        ({"RB-001": 3, "RB-002": 3}, {M1: 4}, Dirty(False, set(), set(), set())),
        ({"RB-001": 4, "RB-002": 3}, {M1: 4}, Dirty(False, {"RB-001"}, set(), set())),
        ({"RB-001": 2, "RB-002": 3}, {M1: 4}, Dirty(False, set(), set(), set())),  # read before our last load
        ({"RB-001": 3}, {M1: 4}, Dirty(False, {"RB-002"}, set(), set())),
        ({"RB-001": 3, "RB-002": 3, "RB-003": 1}, {}, Dirty(False, {"RB-003"}, {M1}, set())),
        ({"RB-001": 3, "RB-002": 3}, {M1: 5, M2: 1}, Dirty(False, set(), {M1, M2}, set())),
    ],
)
def test_versions_show_what_was_missed(board, robots, missions, dirty):
    board.compare(Versions(robots, missions, {}))
    assert board.take() == dirty


def test_a_mission_that_has_ended_is_not_missed_for_ever(board):
    put(board, missions=[mission(id=M1, state="success", ended_at=T0)])
    board.compare(Versions({"RB-001": 3, "RB-002": 3}, {}, {(1, "success"): 1}))
    assert not board.take()


def test_counts_of_ended_missions_reach_the_viewers(board):
    viewers = {12: watch(board), 7: watch(board, frozenset({1})), 5: watch(board, frozenset({2, 9}))}
    board.compare(Versions({"RB-001": 3, "RB-002": 3}, {M1: 4}, {(1, "success"): 7, (2, "success"): 5}))
    for number, viewer in viewers.items():
        told = frame(board, viewer)
        assert told["put"] == ["counts"] and f"<b>{number}</b> done in 24 h" in told["content"]


def test_counters_of_a_view_are_kept_while_somebody_looks(board):
    viewer = watch(board, frozenset({2}))
    assert "counts@2" in board.fragments
    board.viewers.remove(viewer)
    put(board)
    assert "counts@2" not in board.fragments


def test_a_viewer_who_loses_a_site_gets_everything_anew_without_it(board):
    viewer = watch(board, frozenset({1, 2}))
    board.admit(viewer, frozenset({2}))
    narrowed = frame(board, viewer)
    assert narrowed["whole"] and narrowed["put"] == ["counts", "robot-RB-002"]
    viewer.ack(viewer.n)
    put(board, [robot(name="unseen")], snapshots={"RB-001": Snapshot(at=1, battery=80)})
    assert not viewer.ready


def test_again_means_a_whole_frame(board):
    viewer = watch(board)
    viewer.snapshot_due = True
    put(board, [robot(name="meanwhile")])
    again = frame(board, viewer)
    assert again["whole"] and "meanwhile" in again["content"] and not viewer.pending


def test_an_ack_leaves_a_snapshot_due_that_was_due():
    """A viewer who lost a site, or comes from before an outage, confirms an older frame meanwhile."""
    socket = hub.Socket(None, None, "session", None)
    home = hub.Hub()
    home.acked(socket, 0)
    assert socket.snapshot_due
    socket.snapshot_due = False
    home.acked(socket, 0)
    assert not socket.snapshot_due
    home.acked(socket, 0, again=True)
    assert socket.snapshot_due


def test_one_card_that_cannot_be_rendered_takes_no_other_down(board, caplog):
    viewer = watch(board)
    put(board, [robot(mode="levitating"), robot(id="RB-002", name="Fine", site=2)], [mission(state="lost")])
    frame_of_the_others = frame(board, viewer)
    assert frame_of_the_others["put"] == ["robot-RB-002"] and "Fine" in frame_of_the_others["content"]
    assert "cannot render RB-001" in caplog.text and f"cannot render {M1}" in caplog.text
    assert "Ella" in board.fragments["robot-RB-001"].html
    caplog.clear()
    opened = Board()
    rows = (robot(mode="levitating"), robot(id="RB-002", name="Fine"))
    opened.open(Loaded({r.id: r for r in rows}, {M1: mission(state="lost")}), {}, None, 9)
    assert list(opened.fragments) == ["robot-RB-002"]
    assert "cannot render RB-001" in caplog.text and f"cannot render {M1}" in caplog.text


def waits(board, mission_id=M2) -> str:
    html = board.fragments[f"mission-{mission_id}"].html
    return plain(html).partition(": ")[2]


def test_a_waiting_mission_says_how_full_its_robots_battery_is(board):
    low = {"charge_below_pct": 25, "charge_until_pct": 80, "mode": "charging"}
    put(board, [robot(**low)], [waiting(id=M2)], {"RB-001": Snapshot(at=1, battery=61.6)})
    assert waits(board) == "Ella is charging (62 %, free at 80 %)"
    viewer = watch(board)
    put(board, snapshots={"RB-001": Snapshot(at=2, battery=62.4)})
    assert f"mission-{M2}" not in viewer.pending
    put(board, snapshots={"RB-001": Snapshot(at=3, battery=63.0)})
    assert f"mission-{M2}" in viewer.pending and "63 %" in waits(board)


def test_what_waits_for_any_robot_follows_all_of_them_within_the_next_check(board):
    anyone = {"robot": None, "robot_name": None, "waits": Waits()}
    put(board, [robot(), robot(id="RB-002", name="Bruno", presence="offline")])
    put(board, missions=[waiting(id=M2, **anyone)])
    assert waits(board) == "Next: it is dispatched in a moment"
    put(board, [robot(presence="offline")])
    board.compare(Versions({"RB-001": 3, "RB-002": 3}, {M1: 4, M2: 4}, {}))
    assert waits(board).startswith("No robot is free: Ella is offline")
    put(board, missions=[waiting(id=M3, priority=9, title="Sooner", **anyone)])
    board.compare(Versions({"RB-001": 3, "RB-002": 3}, {M1: 4, M2: 4, M3: 4}, {}))
    assert waits(board).endswith("2nd in the queue for any robot, behind “Sooner”")


def test_what_waits_for_a_time_is_read_again_until_that_has_come(board):
    put(board, missions=[waiting(id=M2, waits=Waits(not_before=T0))])
    board.take()
    board.compare(Versions({"RB-001": 3, "RB-002": 3}, {M1: 4, M2: 4}, {}))
    assert board.take() == Dirty(False, set(), {M2}, set())
    put(board, missions=[waiting(id=M2)])
    board.compare(Versions({"RB-001": 3, "RB-002": 3}, {M1: 4, M2: 4}, {}))
    assert not board.take()


def many(board, count: int) -> None:
    put(board, [robot(id=f"RB-{n:04}", name=f"No {n}") for n in range(count)])


@pytest.fixture
def small_frames(monkeypatch) -> int:
    monkeypatch.setattr("telemetry.live.viewer.FRAME", 10_000)
    return 10_000


def test_a_large_snapshot_comes_in_parts_that_a_slow_link_can_carry(board, small_frames):
    """One frame of megabytes took longer than a page waits for a sign of life: it began anew, for ever."""
    many(board, 60)
    viewer = Viewer()
    board.admit(viewer, None)
    got: list[str] = []
    parts = []
    while viewer.ready:
        text = board.frame(viewer)
        assert len(text) < small_frames * 1.5
        parts.append(msgspec.json.decode(text))
        got += parts[-1]["put"]
        viewer.ack(viewer.n)
        if len(parts) < 3:  # what is still to come may change meanwhile
            put(board, [robot(id="RB-0059", name=f"changed {len(parts)}")])
    assert len(parts) > 3 and [p["whole"] for p in parts] == [True] + [False] * (len(parts) - 1)
    ends = [p["more"] for p in parts].index(False)
    assert {f"robot-RB-{n:04}" for n in range(60)} <= set(got)
    assert "RB-0059" in parts[ends]["content"] or any("RB-0059" in p["content"] for p in parts[:ends])
    assert all(p["more"] for p in parts[:ends]) and not any(p["more"] for p in parts[ends:])


def test_who_reads_slowly_gets_first_what_changed_first(board, small_frames):
    many(board, 60)
    viewer = watch_all(board)
    for first in (0, 20, 40):
        put(board, [robot(id=f"RB-{n:04}", name=f"Renamed {n}") for n in range(first, first + 20)])
    got = [id for id in frame(board, viewer)["put"] if id.startswith("robot-")]
    assert 5 < len(got) < 20 and max(got) < "robot-RB-0020"
    assert viewer.pending and not viewer.unsent


def watch_all(board) -> Viewer:
    viewer = Viewer()
    board.admit(viewer, None)
    while viewer.ready:
        board.frame(viewer)
        viewer.ack(viewer.n)
    return viewer


def test_many_missions_for_any_robot_ask_each_robot_once(board, monkeypatch):
    asked = []
    obstacle = reasons.robot_obstacle
    monkeypatch.setattr(reasons, "robot_obstacle", lambda *a, **k: asked.append(a) or obstacle(*a, **k))
    many(board, 50)
    unnamed = [waiting(id=f"6a1f0a52-0000-4000-8000-{n:012}", robot=None, title=f"M{n}") for n in range(60)]
    asked.clear()
    put(board, missions=unnamed)
    board.compare(Versions(dict.fromkeys(board.robots, 3), dict.fromkeys(board.missions, 4), {}))
    assert len(asked) <= 2 * len(board.robots), "every mission has asked every robot"

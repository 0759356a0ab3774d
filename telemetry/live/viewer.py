"""One socket as the board sees it: what its browser shows, what has changed since, and how far it is behind."""

from collections.abc import Mapping

import msgspec

from telemetry import metrics
from telemetry.live.fragments import EVERYWHERE, Fragment, View

UNACKED = 2  # frames on their way to one browser
FRAME = 128_000  # characters of one frame, and one fragment more: over a slow link each has to arrive within seconds


class Viewer:
    """`n` frames were sent and `acked` confirmed. `snapshot_due`: the next one replaces everything.

    `pending`: keys in the order in which they became different. `unsent`: those of the snapshot that are still to come.
    """

    def __init__(self, view: View = EVERYWHERE) -> None:
        self.view = view
        self.n = 0
        self.acked = 0
        self.shown: set[str] = set()
        self.pending: dict[str, None] = {}
        self.unsent: set[str] = set()
        self.snapshot_due = True

    def look_at(self, view: View) -> None:
        """From now on it may see this, and what it shows is replaced by it."""
        if view != self.view:
            self.view, self.snapshot_due = view, True

    def ack(self, n: int) -> None:
        if self.acked < n <= self.n:
            self.acked = n

    @property
    def ready(self) -> bool:
        return (self.snapshot_due or bool(self.pending)) and self.n - self.acked < UNACKED

    def frame(self, fragments: Mapping[str, Fragment], vitals: Mapping[str, Fragment]) -> str:
        """The next one: the newest of what changed, or the begin of a snapshot that replaces everything.

        What does not fit comes with the next ones; `more` says that the snapshot goes on.
        """
        if whole := self.snapshot_due:
            self.pending = {key: None for key, _ in in_order(fragments, self.view)}
            self.unsent, self.shown, self.snapshot_due = set(self.pending), set(), False
        put: list[Fragment] = []
        gone: list[str] = []
        room, done = FRAME, []
        for key in self.pending:
            if room <= 0:
                break
            done.append(key)
            fragment = fragments.get(key)
            if key in vitals:
                card = key.replace("vitals", "robot", 1)
                if card not in self.shown or card in self.pending:
                    continue  # a card brings its vitals along
                fragment = vitals[key]
            elif fragment is not None and fragment.shown_in(self.view):
                self.shown.add(key)
            else:
                if key in self.shown:
                    self.shown.discard(key)
                    gone.append(key)
                continue
            put.append(fragment)
            room -= len(fragment.json)
        for key in done:
            del self.pending[key]
        self.unsent.difference_update(done)
        self.n += 1
        metrics.FRAGMENTS.inc(len(put))
        head = {
            "n": self.n,
            "whole": whole,
            "more": bool(self.unsent),
            "put": [f.dom_id for f in put],
            "gone": gone,
        }
        return f'{msgspec.json.encode(head)[:-1].decode()},"content":"{"".join(f.json for f in put)}"}}'


def in_order(fragments: Mapping[str, Fragment], view: View) -> list[tuple[str, Fragment]]:
    """Everything that a view shows, the worst first."""
    found = [(key, f) for key, f in fragments.items() if f.shown_in(view)]
    return sorted(found, key=lambda kf: (kf[1].kind, *kf[1].rank))

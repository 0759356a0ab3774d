"""The tasks of the first day: who does each, and the most clicks it may take from the sign-in page to the result.

A click is a click, a choice, a text typed or a key; a command of a shell counts as one. Signing in is three of them.
`docs/status.md` holds the same table, and a test compares the two.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.run.copies import ROOT, STORES


class Task(NamedTuple):
    who: str
    clicks: int
    loads: int  # pages that the browser opens, the sign-in page among them


TASKS = {
    "Enrol a robot, copy its command line, see it connect": Task("admin", 12, 6),
    "Draw up and run “fetch from Dock A to Shelf 3”, see it succeed": Task("supervisor", 13, 5),
    "Find out why mission M waits": Task("supervisor", 3, 2),
    "Stop everything in hall 2 and release two": Task("supervisor of hall 2", 8, 2),
    "Take a robot out of service until Monday, with a reason": Task("supervisor", 8, 4),  # one less on a Sunday
    "Find who aborted yesterday's mission and why, export it": Task("auditor", 7, 5),
    "Create a mission from another system: issue a token, run the example": Task("integrator", 12, 5),
    "Restore last night's backup": Task("on call", 2, 0),
    "Cancel a running mission with a reason; the robot confirms": Task("supervisor", 7, 4),
    "Run only the unfinished steps of an aborted mission again": Task("supervisor", 9, 7),
    "Approve a mission that somebody else drew up, and run it": Task("supervisor", 8, 7),
    "Make a template, and a mission from it": Task("supervisor", 16, 9),
    "Add a supervisor for one site, who sees only that": Task("admin", 12, 6),
    "Take access away; the open page closes": Task("admin", 8, 6),
    "Import robots from CSV, one row of it wrong": Task("admin", 9, 7),
    "Upload a site map and see the places on it": Task("admin", 9, 7),
    "Acknowledge an alert and find it again": Task("supervisor", 6, 3),
    "Enrol a robot that knocked, and read its last messages": Task("admin", 13, 9),
    "Revoke a credential, issue another, retire the robot": Task("admin", 13, 10),
    "Change the password and sign out other devices": Task("supervisor", 9, 5),
    "A robot does not show up: find the cause": Task("on call", 3, 0),
    "Pause and resume from the live page": Task("supervisor", 5, 2),
}


class Shell:
    """A person at a shell: each command counts as a click."""

    def __init__(self, name: str, **environment: str) -> None:
        self.name, self.environment = name, environment
        self.clicks = 0
        self.loaded: list[str] = []

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        self.clicks += 1
        clean = {name: value for name, value in os.environ.items() if name not in STORES}
        return subprocess.run(
            ["bash", "-c", command], cwd=ROOT, env=clean | self.environment, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip


class Hand(Shell):
    """A person's hand at a page: it does what people do there, and counts."""

    def __init__(self, page: Any, name: str) -> None:
        super().__init__(name)
        self.page = page
        page.on("framenavigated", self._navigated)

    def _navigated(self, frame: Any) -> None:
        if frame == self.page.main_frame and frame.url != "about:blank":
            self.loaded.append(urlsplit(frame.url).path)

    def link(self, name: str, **more: Any) -> None:
        self.click(self.page.get_by_role("link", name=name, **more))

    def menu(self, name: str) -> None:
        """The row of links at the top of the admin pages."""
        self.click(self.page.get_by_role("navigation", name="Drover").get_by_role("link", name=name))

    def button(self, name: str, **more: Any) -> None:
        self.click(self.page.get_by_role("button", name=name, **more))

    def unfold(self, name: str) -> None:
        self.click(self.page.locator("summary", has_text=name))

    def click(self, what: Any) -> None:
        self.clicks += 1
        what.click()

    def fill(self, what: Any, text: str) -> None:
        self.clicks += 1
        (self.page.get_by_label(what, exact=True) if isinstance(what, str) else what).fill(text)

    def choose(self, what: Any, label: str) -> None:
        self.clicks += 1
        (self.page.get_by_label(what, exact=True) if isinstance(what, str) else what).select_option(label=label)

    def press(self, key: str) -> None:
        self.clicks += 1
        self.page.keyboard.press(key)

    def attach(self, what: Any, name: str, content: bytes) -> None:
        self.clicks += 1
        kind = "image/png" if name.endswith(".png") else "text/csv"
        what.set_input_files([{"name": name, "mimeType": kind, "buffer": content}])

    def signs_in(self, password: str) -> None:
        self.page.goto("/login/")
        self.fill("User name", self.name)
        self.fill("Password", password)
        self.press("Enter")
        self.page.wait_for_url("**/fleet/")


@contextmanager
def counted(name: str, hand: Any) -> Iterator[Any]:
    """The task of this name, done by this hand: it fails when it takes more than the table allows."""
    task = TASKS[name]
    yield hand
    print(f"{name}: {hand.clicks} clicks, {len(hand.loaded)} pages")
    assert hand.clicks <= task.clicks, f"{name} takes {hand.clicks} clicks; it may take {task.clicks}"
    assert len(hand.loaded) <= task.loads, f"{name} opens {len(hand.loaded)} pages: {hand.loaded}"

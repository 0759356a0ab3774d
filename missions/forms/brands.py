"""The form of a brand: what its robots can do, how long Drover waits for their word, and what it does then."""

from typing import Any, NamedTuple

from django import forms

from fleet.brands import setting_fields
from fleet.models import Brand, OfflinePolicy
from fleet.ports import drivers
from missions.command_types import MAX_TIMEOUT_S, TYPES

DAY_S, WEEK_S = 86_400, 7 * 86_400
STEP_TIME = "step_timeout-"  # before the command type: its input


class Time(NamedTuple):
    """A time in seconds (or, without, a number). `help` says what happens when it has passed."""

    column: str
    label: str
    help: str
    least: int = 1
    most: int = DAY_S


SILENCE = (
    Time("suspect_after_s", "Suspect after (s)", "Silent this long, a robot is marked as not heard of lately. Nothing else happens. Usually three heartbeats.", most=WEEK_S),
    Time("offline_after_s", "Offline after (s)", "Silent this long, it counts as offline: it gets no new work, and its mission waits for it.", most=WEEK_S),
    Time("abandon_after_s", "Abandon after (s)", "Offline this long with a mission, the next line decides what becomes of it.", 0, WEEK_S),
)  # fmt: skip
WAITS = (
    Time("undelivered_s", "Say undelivered after (s)", "An assignment that the robot has not got by then is said to wait for its link, again and again. It stays assigned."),
    Time("accept_s", "Accept within (s)", "From the delivery of an assignment to the robot's word. Then the assignment is sent again."),
    Time("accept_tries", "Accept: tries", "Sent so often without a word, the mission is stopped and aborted as undeliverable.", most=100),
    Time("finish_s", "Finish within (s)", "From the end of the last step to the robot's word that it has finished. Then it is asked."),
    Time("answer_s", "Answer within (s)", "When the robot is asked what became of a mission or a step. Then Drover decides without its answer."),
    Time("stop_s", "Stop within (s)", "From asking a robot to end a mission to its word that it has. Then the mission is aborted as “stop not confirmed”, the robot is held, and people are told that it may still be moving."),
    Time("paused_long_s", "Paused for long (s)", "A mission that stays paused this long, or a robot that stays stopped with one, is an alert. Nothing else happens."),
    Time("mission_timeout_s", "Whole mission (s)", "For new missions that say nothing else. From acceptance; then the robot is asked, stopped, and the mission aborted."),
)  # fmt: skip
GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "", ("name", "driver", "capabilities")),
    (
        "When they are silent",
        "Silence is no word of any kind, by Drover's clock.",
        (*(t.column for t in SILENCE), "offline_policy", "stops_after_silence_s"),
    ),
    (
        "How long Drover waits for their word",
        "Pauses and stops suspend the times of a mission.",
        tuple(t.column for t in WAITS),
    ),
    (
        "Time for one try of a step",
        "Where these robots need more or less than usual. Then the robot is asked, and the step's own policy decides. "
        "Missions that exist are not changed.",
        tuple(f"{STEP_TIME}{name}" for name in TYPES),
    ),
    ("What their word is worth", "", ("strict_sequence", "idle_cancel")),
    ("Charging", "", ("charge_below_pct", "charge_until_pct")),
)
COLUMNS = (
    "name", "driver", "capabilities", *(t.column for t in (*SILENCE, *WAITS)), "offline_policy", "stops_after_silence_s",
    "strict_sequence", "idle_cancel", "charge_below_pct", "charge_until_pct",
)  # fmt: skip


def _whole(label: str, help: str, least: int, most: int, unit: str, **more: Any) -> forms.IntegerField:
    """A whole number whose bounds are said in words."""
    wrong = f"A whole number from {least} to {most}{unit}."
    errors = {"invalid": wrong, "min_value": wrong, "max_value": wrong}
    return forms.IntegerField(
        label=label, help_text=help, min_value=least, max_value=most, error_messages=errors, **more
    )


def _usual(column: str, driver: drivers.Driver | None = None) -> Any:
    if driver is not None and column in driver.timing:
        return driver.timing[column]
    if driver is not None and column == "strict_sequence":
        return driver.strict_sequence
    return Brand._meta.get_field(column).get_default()


class Group(NamedTuple):
    """Fields that belong together. `driver`: shown only while that one is chosen."""

    heading: str
    text: str
    fields: list[Any]
    driver: str = ""


class BrandForm(forms.Form):
    """`groups` has its fields as they belong together. Those of all drivers are there, of which the chosen one's count."""

    name = forms.CharField(max_length=200, help_text="Make and model, e.g. Haulmate 3.")
    driver = forms.ChoiceField(
        help_text="How these robots speak. A new brand begins with the times that are usual for its driver.",
    )
    capabilities = forms.MultipleChoiceField(
        label="Can do", choices=[(t.name, t.label) for t in TYPES.values()], widget=forms.CheckboxSelectMultiple,
        help_text="Missions for these robots may use only these commands. Missions that exist are not changed.",
    )  # fmt: skip
    offline_policy = forms.ChoiceField(
        label="Then", required=False, choices=OfflinePolicy.choices, initial=_usual("offline_policy"),
        help_text="What becomes of the mission of a robot that was abandoned. Handing over happens by itself only if the robot never got the mission, or "
        "stops by itself (below) and carries nothing; otherwise it is proposed, with one button. A mission may say otherwise.",
    )  # fmt: skip
    stops_after_silence_s = _whole(
        "Stops by itself after (s)",
        "These robots stop driving when they have heard nothing for so long. Empty: they do not.",
        1, DAY_S, " seconds (one day)", required=False,
    )  # fmt: skip
    strict_sequence = forms.BooleanField(
        label="Strict sequence", required=False,
        help_text="They say what they do in the order in which they do it. A step whose word was lost is then taken as done "
        "when a later one is (never a pick or a drop, and never a failure). Otherwise the robot is asked.",
    )  # fmt: skip
    idle_cancel = forms.BooleanField(
        label="Cancel when idle", required=False, initial=_usual("idle_cancel"),
        help_text="An idle robot may be told to end a mission. Without it, an idle robot's own word is enough.",
    )  # fmt: skip
    charge_below_pct = _whole(
        "Charge below (%)", "An idle robot below this is sent to a free charger of its site. Empty: robots are never sent.",
        1, 99, " per cent", required=False,
    )  # fmt: skip
    charge_until_pct = _whole(
        "Charge until (%)", "It charges to this before it takes other work.", 2, 100, " per cent", initial=80
    )

    def __init__(self, *args: Any, brand: Brand | None = None, driver: str = "", **kwargs: Any) -> None:
        """`driver`: chosen before the form is shown, for a brand that is to be made."""
        super().__init__(*args, **kwargs)
        self.drivers, self.kept = dict(drivers.known()), dict(brand.profile) if brand is not None else {}
        if brand is not None and brand.driver not in self.drivers:  # its package is not installed any more
            self.drivers[brand.driver] = drivers.named(brand.driver)._replace(label=f"{brand.driver} (not installed)")
        choice: Any = self.fields["driver"]
        choice.choices = [(d.name, d.label) for d in self.drivers.values()]
        chosen = self.drivers.get(brand.driver) if brand is not None else None
        if brand is None:
            chosen = self.drivers.get(driver) or self.drivers.get(_usual("driver"))
            self.initial = {"driver": chosen.name if chosen else "", **self.initial}
            self.initial |= {c: _usual(c, chosen) for c in (*(t.column for t in (*SILENCE, *WAITS)), "strict_sequence")}
        for time in (*SILENCE, *WAITS):
            unit = (
                ""
                if time.column == "accept_tries"
                else " seconds (a week)"
                if time.most == WEEK_S
                else " seconds (one day)"
            )
            self.fields[time.column] = _whole(
                time.label, f"{time.help} Usually {_usual(time.column, chosen)}.", time.least, time.most, unit, required=False,
                initial=_usual(time.column),
            )  # fmt: skip
        for known_driver in self.drivers.values():
            mine = brand is not None and brand.driver == known_driver.name
            self.fields |= setting_fields.fields(known_driver, brand.profile if mine and brand else {})
        for known in TYPES.values():
            longer = " and the wait itself" if known.name == "wait" else ""
            self.fields[f"{STEP_TIME}{known.name}"] = _whole(
                f"{known.label} (s)", f"Empty: {known.timeout_s} s{longer}.", 1, MAX_TIMEOUT_S, " seconds (one day)",
                required=False, widget=forms.NumberInput(attrs={"placeholder": str(known.timeout_s)}),
            )  # fmt: skip

    def groups(self) -> list[Group]:
        found = [Group(heading, text, [self[name] for name in names]) for heading, text, names in GROUPS]
        text = "How these robots are not as usual. A robot may have its own on top."
        own = [
            Group(f"Settings of {d.label}", text, [self[setting_fields.name_of(d, s)] for s in d.settings], d.name)
            for d in self.drivers.values()
            if d.settings
        ]
        return [found[0], *own, *found[1:]]

    def timings(self) -> dict[str, dict[str, Any]]:
        """Driver → what a brand of it begins with, for the page."""
        columns = [*(t.column for t in (*SILENCE, *WAITS)), "strict_sequence"]
        return {d.name: {c: _usual(c, d) for c in columns} for d in self.drivers.values()}

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        driver = self.drivers.get(said.get("driver", ""))
        for time in (*SILENCE, *WAITS):
            if said.get(time.column) is None and time.column not in self.errors:
                said[time.column] = _usual(time.column, driver)  # emptied: as usual
        others = tuple(f"setting-{name}-" for name in self.drivers if driver is None or name != driver.name)
        for name in [name for name in self.errors if name.startswith(others)]:
            del self._errors[name]  # of a driver that is not chosen
        if driver is not None:
            kept = self.kept if driver.name not in drivers.known() else {}  # nobody can tell what they mean
            said["profile"] = kept or setting_fields.profile_of(self, driver)
        said["offline_policy"] = said.get("offline_policy") or _usual("offline_policy")
        said["step_timeouts"] = {
            name: said.pop(f"{STEP_TIME}{name}") for name in TYPES if said.get(f"{STEP_TIME}{name}")
        }
        suspect, offline = said.get("suspect_after_s"), said.get("offline_after_s")
        if suspect and offline and offline < suspect:
            self.add_error(
                "offline_after_s", f"A robot is suspect ({suspect} s) before it is offline: at least {suspect}."
            )
        below, until = said.get("charge_below_pct"), said.get("charge_until_pct")
        if below and until and until <= below:
            self.add_error("charge_until_pct", f"It is sent to charge below {below} %: charge to more than that.")
        return said

    def columns(self) -> dict[str, Any]:
        """What is to be stored."""
        return {name: self.cleaned_data[name] for name in (*COLUMNS, "step_timeouts", "profile")}


def filled_in(brand: Brand) -> dict[str, Any]:
    """Initial values for a brand that exists."""
    times = {f"{STEP_TIME}{name}": seconds for name, seconds in brand.step_timeouts.items()}
    return {column: getattr(brand, column) for column in COLUMNS} | times


def waits_in_words(brand: Brand) -> list[tuple[str, str]]:
    """How long Drover waits for the word of these robots, and what then: one line each, for the brand's page."""
    policy = {
        OfflinePolicy.ABORT: "its mission is stopped and ends as aborted",
        OfflinePolicy.WAIT: "its mission waits for it, and people are told",
        OfflinePolicy.HAND_OVER: "its mission goes to another robot, by itself if that is safe, else a person is asked",
    }[OfflinePolicy(brand.offline_policy)]
    steps = [f"{TYPES[name].label} {seconds} s" for name, seconds in brand.step_timeouts.items() if name in TYPES]
    stops = (
        f"after {brand.stops_after_silence_s} s without a word" if brand.stops_after_silence_s else "not by themselves"
    )
    return [
        ("Suspect", f"after {brand.suspect_after_s} s of silence: marked, nothing else happens"),
        ("Offline", f"after {brand.offline_after_s} s of silence: no new work, its mission waits"),
        ("Abandoned", f"after {brand.abandon_after_s} s offline: {policy}"),
        ("They stop", stops),
        ("Undelivered", f"after {brand.undelivered_s} s without the assignment: people are told"),
        ("Accepts", f"within {brand.accept_s} s; sent {brand.accept_tries} times, then the mission is aborted as undeliverable"),
        ("A step", f"has the time of its command, except {', '.join(steps)}" if steps else "has the time of its command"),
        ("Finishes", f"within {brand.finish_s} s of the last step, then it is asked"),
        ("A mission", f"has {brand.mission_timeout_s} s, unless it says otherwise"),
        ("Answers", f"within {brand.answer_s} s, then Drover decides without"),
        ("Stops a mission", f"within {brand.stop_s} s; then “stop not confirmed”, and the robot is held"),
        ("Paused", f"for {brand.paused_long_s} s: people are told"),
        (
            "A lost word",
            "is taken as done when a later one comes" if brand.strict_sequence else "is asked for, whatever comes later",
        ),
        ("Cancel when idle", "may be sent" if brand.idle_cancel else "is not sent"),
    ]  # fmt: skip

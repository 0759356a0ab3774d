"""Drivers as people see them: their settings as fields, what is wrong with a value in words, which addresses are any."""

from typing import Annotated, ClassVar, Literal

import pytest
from msgspec import Meta, Struct, field

from fleet.ports import drivers
from telemetry import driver_choice
from telemetry.drivers.contract import Timing

Level = Annotated[str, Meta(pattern=r"\A[a-z]+\Z", title="Prefix", description="Before every topic.")]


class Profile(Struct, forbid_unknown_fields=True):
    prefix: Level = "uagv"
    version: Literal["2.0.0", "2.1.0"] = "2.0.0"
    pause: bool = True
    ahead: Annotated[int, Meta(ge=1, le=9)] = 2
    deviation_m: Annotated[float, Meta(gt=0)] = 0.5
    silent_s: int | None = None
    tools: list[str] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    more: dict[str, dict[str, int]] = field(default_factory=dict)


class Pigeon:
    contract: ClassVar[int] = 1
    name: ClassVar[str] = "pigeon"
    label: ClassVar[str] = "Pigeons"
    transport: ClassVar[Literal["mqtt", "socket"]] = "mqtt"
    address: ClassVar[str] = "its ring"
    profile = Profile
    timing: ClassVar[Timing] = Timing(suspect_after_s=30)
    strict_sequence: ClassVar[bool] = True

    def topics(self, robot):
        return [(f"{robot.profile.prefix}/{robot.address}/coo", 0)]

    def whose(self, topic):
        _, address, part = topic.split("/", 2)
        return (address, part) if part == "coo" else None


PIGEON = Pigeon()


def test_settings_become_fields():
    shown = driver_choice._shown(PIGEON)
    assert [(s.name, s.kind, s.default, s.choices, s.optional) for s in shown.settings] == [
        ("prefix", "text", "uagv", (), False), ("version", "choice", "2.0.0", ("2.0.0", "2.1.0"), False),
        ("pause", "yes_no", True, (), False), ("ahead", "whole", 2, (), False),
        ("deviation_m", "number", 0.5, (), False), ("silent_s", "whole", None, (), True), ("tools", "list", [], (), False),
        ("words", "map", {}, (), False), ("more", "json", {}, (), False),
    ]  # fmt: skip
    assert (shown.settings[0].label, shown.settings[0].help) == ("Prefix", "Before every topic.")
    assert shown.settings[4].label == "Deviation m"
    assert (shown.timing["suspect_after_s"], shown.strict_sequence, shown.address) == (
        30, True, "its ring",
    )  # fmt: skip


@pytest.mark.parametrize(("profile", "said"), [
    ({}, {}),
    ({"ahead": 0}, {"ahead": "At least 1."}),
    ({"ahead": 10}, {"ahead": "At most 9."}),
    ({"deviation_m": 0}, {"deviation_m": "More than 0."}),
    ({"prefix": "A/B"}, {"prefix": "It is not of the form that it needs to have."}),
    ({"nonsense": 1}, {"nonsense": "There is no such setting."}),
    ({"pause": "perhaps"}, {"pause": "Expected `bool`, got `str`"}),
    ({"more": {"a": {"b": "c"}}}, {"more": "Expected `int`, got `str`"}),
    ({"version": "9"}, {"version": "Invalid enum value '9'"}),
])  # fmt: skip
def test_what_is_wrong_is_said_at_its_setting(profile, said):
    assert driver_choice.wrong(PIGEON, profile) == said


@pytest.mark.parametrize(("address", "good"), [
    ("berta", True), ("", True), ("be/rta", False), ("+", False), ("be#", False), ("a/coo", False),
])  # fmt: skip
def test_an_address_is_one_if_its_topics_are_its_own(address, good):
    assert bool(driver_choice.wrong_address(PIGEON, "berta", address, {})) is not good


def test_a_driver_that_falls_over_at_an_address_refuses_it():
    class Broken(Pigeon):
        def topics(self, robot):
            raise RuntimeError("boom")

    assert driver_choice.wrong_address(Broken(), "x", "y", {}).startswith("“y” is none.")


def test_every_installed_driver_can_be_shown_and_its_usual_settings_are_right():
    known = drivers.known()
    assert next(iter(known)) == "native" and "vda5050" in known
    for driver in known.values():
        assert driver.wrong({s.name: s.default for s in driver.settings}) == {}
        assert driver.label and all(s.label for s in driver.settings)
    assert not known["native"].address and known["vda5050"].address


@pytest.mark.parametrize(("address", "good"), [
    ("KIT/0001", True), ("Otto & Söhne/7 b", True), ("KIT", False), ("KIT/1/2", False), ("/1", False), ("KIT/", False),
    ("KIT/+", False), ("#/1", False), ("", False),
])  # fmt: skip
def test_addresses_of_vda_5050(address, good):
    assert bool(drivers.named("vda5050").wrong_address("RB-001", address, {})) is not good

"""A fresh clone can be installed: no pinned package asks for another version of one that is pinned."""

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FILES = ("requirements.txt", "requirements-dev.txt")


def _pins() -> list[Requirement]:
    lines = [line.partition("#")[0].strip() for file in FILES for line in (ROOT / file).read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("-")]


PINS = _pins()
VERSIONS = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in PINS}


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_a_pinned_package_wants_of_the_others_what_is_pinned(pin: Requirement) -> None:
    try:
        wanted = [Requirement(line) for line in requires(pin.name) or ()]
    except PackageNotFoundError:
        assert pin.marker and not pin.marker.evaluate(), f"{pin.name} is not installed"
        return
    extras = pin.extras or {""}
    for other in wanted:
        version = VERSIONS.get(canonicalize_name(other.name))
        if version and (not other.marker or any(other.marker.evaluate({"extra": extra}) for extra in extras)):
            assert other.specifier.contains(version, prereleases=True), f"{pin.name} wants {other}, pinned is {version}"


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_each_line_is_an_exact_pin(pin: Requirement) -> None:
    assert re.fullmatch(r"==[0-9][0-9a-z.]*", str(pin.specifier))

"""Drivers are found by name, the built-in ones and those of packages; a broken package costs only its own driver."""

import logging
import sys
from pathlib import Path

import pytest

from telemetry.drivers import registry
from telemetry.drivers.native import Native
from telemetry.drivers.registry import Unusable

GOOD = "class D(Native):\n    contract, name = 1, 'acme'\ndriver = D()\n"


pytestmark = pytest.mark.usefixtures("drivers_anew")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Puts an installed distribution in place, as pip leaves it behind."""

    def install(source: str, *, driver: str = "acme", module: str = "acme_driver", name: str = "drover-acme") -> None:
        (tmp_path / f"{module}.py").write_text(f"from telemetry.drivers.native import Native\n{source}")
        about = tmp_path / f"{name.replace('-', '_')}-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text(f"[drover.drivers]\n{driver} = {module}:driver\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield install
    for module in set(sys.modules) - before:
        if Path(getattr(sys.modules[module], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[module]


def test_the_native_driver_is_there():
    assert isinstance(registry.get("native"), Native)
    assert "native" in registry.names()


def test_a_package_brings_its_driver(package):
    package(GOOD)
    assert registry.get("acme").name == "acme"
    assert "acme" in registry.names()


BROKEN = {
    "import fails": ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "no such object": ("", "AttributeError"),
    "a class": (GOOD + "driver = D", "names a class"),
    "another version": (GOOD + "D.contract = 99", "is not written for version 1 of the contract"),
    "no version": ("class driver: pass\ndriver = driver()", "no attribute 'contract'"),
    "another name": (GOOD + "D.name = 'acne'", "another than its entry point's"),
    "no name": (GOOD + "D.name = 7", "expected string"),
    "no label": (GOOD + "D.label = ''", "`label`"),
    "transport": (GOOD + "D.transport = 'pigeon'", "`transport`"),
    "address": (GOOD + "D.address = None", "`address`"),
    "profile": (GOOD + "D.profile = dict", "`profile` is no msgspec.Struct"),
    "profile needs": (
        GOOD + "import msgspec\nclass P(msgspec.Struct):\n    x: int\nD.profile = P",
        "`profile` has a field without a default",
    ),
    "timing": (GOOD + "D.timing = 5", "`timing`"),
    "strict": (GOOD + "D.strict_sequence = None", "`strict_sequence`"),
    "newest": (GOOD + "D.newest = ['state']", "`newest`"),
    "method": (GOOD + "D.whose = 'topic'", "no function"),
}


@pytest.mark.parametrize(("source", "why"), BROKEN.values(), ids=BROKEN)
def test_a_package_that_cannot_be_used_is_named_and_costs_only_itself(package, source, why, caplog):
    package(source)
    with caplog.at_level(logging.ERROR):
        assert "acme" not in registry.names()
    assert isinstance(registry.get("native"), Native)
    with pytest.raises(Unusable) as error:
        registry.get("acme")
    for part in ("'acme'", "acme_driver:driver", "drover-acme 1.2", why, "restart"):
        assert part in str(error.value)
    assert str(error.value) in caplog.text
    assert registry.why_not("acme") == str(error.value)


def test_a_name_that_two_packages_offer_is_nobodys(package):
    package(GOOD)
    package(GOOD, module="acme_too", name="drover-acme-too")
    with pytest.raises(Unusable, match=r"offered twice, by drover-acme 1\.2 and drover-acme-too 1\.2"):
        registry.get("acme")


def test_no_package_replaces_a_built_in_driver(package, caplog):
    package(GOOD.replace("acme", "native"), driver="native")
    assert type(registry.get("native")) is Native
    assert "The driver native of drover-acme 1.2 is not used" in caplog.text


def test_an_unknown_driver_is_refused_with_what_there_is():
    with pytest.raises(Unusable, match=r"no driver 'teleport' here, only .*native"):
        registry.get("teleport")


def test_settings_are_the_brands_with_the_robots_laid_over():
    import msgspec

    class Profile(msgspec.Struct):
        topic: str = "a"
        speed: int = 1

    class Fake(Native):
        profile = Profile

    assert registry.settings(Fake(), {"topic": "b", "speed": 2}, {"speed": 3}) == Profile("b", 3)
    with pytest.raises(ValueError, match="speed: Expected `int`"):
        registry.settings(Fake(), {}, {"speed": "fast"})

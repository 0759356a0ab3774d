"""The example of docs/writing-a-driver.md is a package: it is built, installed apart, found, and passes the kit."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.drivers import kit
from tests.telemetry.test_driver_imports import foreign_imports

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "drover-trundle"
DOC = (ROOT / "docs" / "writing-a-driver.md").read_text()
FILES = ("pyproject.toml", "drover_trundle.py", "trundle_cart.py", "test_trundle.py")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where pip has installed it: a directory of its own, as any other package's."""
    built, target = (tmp_path_factory.mktemp(name) for name in ("source", "site"))
    shutil.copytree(EXAMPLE, built / "drover-trundle")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
           "--no-build-isolation", "--no-compile", "--target", target, built / "drover-trundle"]  # fmt: skip
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


def run(installed, code: str, *args: str) -> str:
    """In a process that has Drover and the installed package on its path, and nothing else of the example."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *args], env=env, cwd=installed, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_installed_package_is_found_by_its_entry_point(installed):
    code = """
import sys
from telemetry.drivers import registry
driver = registry.get("trundle")
print(driver.label, "trundle" in registry.names(), sys.modules["drover_trundle"].__file__, "django" in sys.modules, sep="|")
"""
    label, named, file, django = run(installed, code).strip().split("|")
    assert (label, named, django) == ("Trundle carts", "True", "False")
    assert Path(file) == installed / "drover_trundle.py"


def test_without_the_package_there_is_no_such_driver(tmp_path):
    code = (
        "from telemetry.drivers import registry\ntry: registry.get('trundle')\nexcept registry.Unusable as e: print(e)"
    )
    assert "There is no driver 'trundle' here" in run(tmp_path, code)


def test_the_installed_package_passes_the_kit(installed, tmp_path):
    for name in ("trundle_cart.py", "test_trundle.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    code = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    quiet = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:django",
        "-p",
        "no:asyncio",
        "--rootdir",
        str(tmp_path),
        "-c",
        os.devnull,
    )
    told = run(installed, code, *quiet, str(tmp_path))
    assert f"{len(kit.SCENARIOS)} passed" in told


def test_it_is_short_and_imports_only_the_contract():
    source = (EXAMPLE / "drover_trundle.py").read_text()
    assert len([line for line in source.splitlines() if line.strip()]) < 100
    tree = ast.parse(source)
    assert not foreign_imports(tree)
    ours = [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("telemetry")
    ]
    assert ours == ["telemetry.drivers.contract"]


@pytest.mark.parametrize("name", FILES)
def test_the_document_shows_the_file_as_it_is(name):
    [shown] = re.findall(rf"^\*\*{re.escape(name)}\*\*\n\n```\w+\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)
    assert shown == (EXAMPLE / name).read_text()


def test_the_document_knows_every_scenario():
    table = DOC[DOC.index("| scenario | what is asked |") :]
    named = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `")))
    assert named == [scenario.__name__ for scenario in kit.SCENARIOS]


def test_the_document_knows_every_effect_and_call():
    from typing import get_args

    from telemetry.drivers.contract import Conversation, Effect

    for effect in get_args(Effect):
        assert f"| `{effect.__name__}" in DOC
    for call in (name for name in vars(Conversation) if not name.startswith("_")):
        assert f"| `{call}(" in DOC

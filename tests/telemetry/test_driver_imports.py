"""Drivers stand apart: they import the contract, not Drover, and nobody outside asks which driver or brand a robot has."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.drivers import registry
from telemetry.simulator.demo import BRANDS

ROOT = Path(__file__).parents[2]
DRIVERS = ROOT / "telemetry" / "drivers"
# I/O, threads, clocks and chance are not a driver's; `telemetry.protocol` and `telemetry.frames` are the native one's
NEVER = {"asyncio", "http", "os", "pathlib", "random", "socket", "sqlite3", "subprocess", "threading", "time", "urllib"}
NEVER_CALLED = {"now", "utcnow", "today", "uuid1", "uuid4", "open", "print", "eval", "exec"}
NAMES = {*registry.BUILT_IN, *BRANDS}
ABOUT_BRANDS = {"driver", "brand", "brand_name", "manufacturer", "vendor"}


def foreign_imports(tree: ast.AST, also: tuple[str, ...] = ()) -> set[str]:
    """What a driver's module may not import. `also`: prefixes of what it may."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module}.{name.name}" for name in node.names}
    fine = ("telemetry.drivers.", *also)
    allowed = {"msgspec", *sys.stdlib_module_names} - NEVER
    return {name for name in found if not f"{name}.".startswith(fine) and name.split(".")[0] not in allowed}


def calls(tree: ast.AST) -> set[str]:
    found = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {f.attr if isinstance(f, ast.Attribute) else f.id for f in found if isinstance(f, ast.Attribute | ast.Name)}


MODULES = sorted(DRIVERS.rglob("*.py"))


@pytest.mark.parametrize("file", MODULES, ids=[str(f.relative_to(DRIVERS)) for f in MODULES])
def test_a_driver_imports_the_contract_and_no_more_and_has_no_clock(file):
    tree = ast.parse(file.read_text())
    speaks = file == DRIVERS / "native.py" or file.parent == DRIVERS / "kit"  # the kit knows which words there are
    also = ("telemetry.protocol.", "telemetry.frames.") if speaks else ()
    assert not foreign_imports(tree, also)
    assert not calls(tree) & NEVER_CALLED


@pytest.mark.parametrize(
    "line", ["import django", "from telemetry.gateways import ws", "from . import contract", "from telemetry import protocol"]
)  # fmt: skip
def test_what_drivers_may_not_import_is_seen(line):
    assert foreign_imports(ast.parse(line))


def conditions_about_brands(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons (and cases) with a driver's or a brand's name, or of what holds one with any text: line, source."""
    aliases = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def text(node: ast.AST) -> str:
        value = aliases.get(node.id) if isinstance(node, ast.Name) else getattr(node, "value", None)
        return value if isinstance(value, str) else ""

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            several = [e for s in sides if isinstance(s, ast.Tuple | ast.List | ast.Set) for e in s.elts]
            texts = {text(side) for side in (*sides, *several)} - {""}
            asked = {
                a.attr if isinstance(a, ast.Attribute) else a.id
                for a in sides
                if isinstance(a, ast.Attribute | ast.Name)
            }
            if NAMES & texts or (asked & ABOUT_BRANDS and texts):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.MatchValue) and text(node.value) in NAMES:
            yield node.value.lineno, ast.unparse(node)
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") in ("startswith", "endswith")
            and NAMES & {text(argument) for argument in node.args}
        ):
            yield node.lineno, ast.unparse(node)


def test_no_template_asks_either():
    found = []
    for file in sorted((ROOT / "templates").rglob("*.html")):
        for condition in re.findall(r"{%\s*(?:el)?if\b.*?%}", file.read_text()):
            if any(f'"{name}"' in condition or f"'{name}'" in condition for name in NAMES):
                found.append(f"{file.relative_to(ROOT)}: {condition}")
    assert not found


def test_nobody_asks_which_driver_or_brand_a_robot_has():
    found = []
    for app in ("fleet", "missions", "telemetry"):
        for file in sorted((ROOT / app).rglob("*.py")):
            if file.is_relative_to(DRIVERS) or "migrations" in file.parts:
                continue
            found += [
                f"{file.relative_to(ROOT)}:{line} {text}"
                for line, text in conditions_about_brands(ast.parse(file.read_text()))
            ]
    assert not found, "what differs by brand belongs into its driver: " + "; ".join(found)


@pytest.mark.parametrize(
    "source",
    ["if robot.brand.driver == 'native': pass", "x = 1 if name in ('vda5050', 'b') else 2", "if brand == 'Acme': pass",
     "OWN = 'native'\nif d.name != OWN: pass", "match d:\n  case 'native': pass", "d.startswith('vda5050')", "if row.manufacturer != 'KIT': pass", "if n == 'Mule 300': pass"],
)  # fmt: skip
def test_such_a_question_is_seen(source):
    assert list(conditions_about_brands(ast.parse(source)))

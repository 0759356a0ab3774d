"""What README, CHANGELOG and docs quote is there: pages and headings, make targets, commands with options, settings, files, names."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.urls import Resolver404, resolve

ROOT = Path(settings.BASE_DIR)
PAGES = {
    str(page.relative_to(ROOT)): page.read_text() for page in [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md"))]
}
ROOMS = ("fleet", "missions", "telemetry", "tests", "bench", "deploy", "docs", "templates", "static", r"\.ci")
MADE_BY_PEOPLE = {"deploy/.env"}
MAKEFILE = (ROOT / "Makefile").read_text()
READERS = [
    path
    for room in ("fleet", "missions", "telemetry", "tests", "deploy", "docs/examples")
    for path in (ROOT / room).rglob("*")
    if path.suffix in (".py", ".yaml", ".env") and path != Path(__file__)
]
READ = "\n".join(path.read_text() for path in READERS)


def code(text: str) -> list[str]:
    """What stands in backticks, and each line of a block without its comment."""
    block = re.compile(r"^ *```\w*\n(.*?)^ *```", re.M | re.S)
    lines = "".join(block.findall(text)).replace("\\\n", " ").splitlines()
    return re.findall(r"`([^`\n]+)`", block.sub("", text)) + [re.sub(r"(^| )# .*", "", line) for line in lines]


def quoted(pattern: str) -> list[tuple[str, str]]:
    """(page, what was found) in the code of all pages."""
    return [(page, it) for page, text in PAGES.items() for line in code(text) for it in re.findall(pattern, line)]


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [(page, link) for page, text in PAGES.items() for link in re.findall(r"\]\(([^)\s]+)\)", text)]


def leads_somewhere(page: str, link: str) -> bool:
    if link.startswith("/"):
        try:
            return bool(resolve(link))
        except Resolver404:
            return False
    path, _, heading = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page
    return target.exists() and (not heading or heading in anchors(target))


def test_links_lead_somewhere():
    assert ("README.md", "docs/operations.md") in LINKS
    wrong = [
        (page, link) for page, link in LINKS if not link.startswith("https://") and not leads_somewhere(page, link)
    ]
    assert not wrong


def test_make_knows_its_targets_and_variables():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
    variables = set(re.findall(r"\$\((?:or \$\()?([A-Z]+)\)", MAKEFILE))
    words = [
        (page, word)
        for page, line in quoted(r"(?:^|[;&(]|\w=\S* )make((?: [^\s;&]+)+)")
        for word in line.split()
        if re.match(r"[a-z-]+$|[A-Z_]+=", word)
    ]
    assert ("README.md", "run") in words
    known = [*targets, *(f"{name}=" for name in variables)]
    wrong = [(page, w) for page, w in words if re.sub(r"=.*", "=", w) not in known and w.partition("=")[0] not in READ]
    assert not wrong


COMMANDS = quoted(r"manage\.py (\w+[^|#;&`]*)")


def test_commands_and_their_options_are_there():
    wrong = []
    for page, line in COMMANDS:
        name, *words = line.split()
        if name not in get_commands():
            wrong.append((page, line))
            continue
        app = get_commands()[name]
        command = load_command_class(app, name) if isinstance(app, str) else app
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        if options - command.create_parser("manage.py", name)._option_string_actions.keys():
            wrong.append((page, line))
    assert not wrong


def test_every_command_of_ours_is_told_of():
    ours = {name for name, app in get_commands().items() if app in ("fleet", "missions", "telemetry")}
    assert len(ours) > 10
    assert ours - {line.split()[0] for _, line in COMMANDS} == {"run"}, "that is `make run`"


def test_environment_variables_are_read_by_something():
    named = quoted(r"\b((?:DROVER|METRICS|EMAIL|MQTT|REDIS|DATABASE|LOG|ALERT|WEBHOOK)_[A-Z_]*[A-Z])\b(?!_?…)")
    assert ("README.md", "DROVER_PORT") in named
    assert not {(page, name) for page, name in named if not re.search(rf"\b{name}\b", READ)}


TOLD = re.compile(r'"(DROVER_\w+)"(?=\]? ?[:=] ?\S)')  # a key that is given a value


def test_what_the_product_is_told_by_the_environment_stands_in_the_settings():
    """A name that is set for the settings and that they do not read tells nobody anything."""
    read = (ROOT / "fleet" / "settings.py").read_text()
    code = [path for room in ("fleet", "missions", "telemetry", "bench") for path in (ROOT / room).rglob("*.py")]
    told = {(str(path.relative_to(ROOT)), name) for path in code for name in TOLD.findall(path.read_text())}
    assert ("fleet/management/commands/run.py", "DROVER_VAR") in told
    assert not {(path, name) for path, name in told if f'"{name}"' not in read}


def test_files_are_where_they_are_said_to_be():
    said = quoted(rf"(?:^|[ =(])((?:{'|'.join(ROOMS)})/[\w./*-]*)")
    assert ("docs/operations.md", "deploy/example.env") in said
    assert not {(page, path) for page, path in said if not any(ROOT.glob(path.rstrip("./")))} - {
        (page, path) for page in PAGES for path in MADE_BY_PEOPLE
    }


def is_there(name: str) -> bool:
    """A module, or something in one."""
    module, _, attribute = name.rpartition(".")
    try:
        return bool(find_spec(name)) or hasattr(import_module(module), attribute)
    except ModuleNotFoundError:
        return hasattr(import_module(module), attribute) if find_spec(module.partition(".")[0]) else False


def test_python_names_are_there():
    """Such as `fleet.access.at_sites`."""
    said = quoted(r"(?<![\w./@-])((?:fleet|missions|telemetry|tests|bench)(?:\.\w+)+)\b(?!:)")
    names = {(page, name) for page, name in said if not re.search(r"\.(example|org|py|md)\b", name)}
    assert ("docs/writing-a-driver.md", "telemetry.drivers.contract") in names
    assert not {(page, name) for page, name in names if not is_there(name)}


INVARIANTS = re.findall(r"^\| (I\d+) \|.*\| ([^|]+) \|$", PAGES["docs/invariants.md"], re.M)


def words_of(test: str) -> str:
    """The docstrings of a test's file and of the test itself; of all tests in it, where a file is named."""
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    made = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [n for n in made if n.name == name or (not name and n.name.startswith("test_"))]
    assert tests or "TestCase" in ast.unparse(tree), f"there is no {test}"
    return " ".join(ast.get_docstring(n) or "" for n in [tree, *tests])


def test_every_invariant_has_tests_that_are_there_and_carry_its_number():
    assert [number for number, _ in INVARIANTS] == [f"I{n}" for n in range(1, 14)]
    for number, tests in INVARIANTS:
        named = re.findall(r"`(tests/[^`]+)`", tests)
        assert named, f"{number} has no test"
        silent = [test for test in named if not re.search(rf"\b{number}\b", words_of(test))]
        assert not silent, f"{number} is not in the words of these"

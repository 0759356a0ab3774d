"""`python -m tests.sabotage [word …]`: each defect in a copy of the tree; its test must turn red by an assertion.

The untouched copy stays green. Words choose defects whose names contain one of them. Exit code 1 if a defect passes, or
if it cannot be made because the code has changed: then tests/sabotage/defects.py has to follow.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from xml.etree import ElementTree

from fleet.running.throwaway import stores
from tests.sabotage.defects import DEFECTS, Defect

ROOT = Path(__file__).resolve().parents[2]
LANES = 2
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "var", ".mypy_cache", ".pytest_cache", ".hypothesis", "node_modules")
OWN = re.compile(r"^(tests/\S+\.py):\d+: (AssertionError|Failed)$", re.MULTILINE)


class Lane:
    """Stores of its own and one database, made once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o755)  # PostgreSQL may run as another user
        self.folder, self._stores = folder, stores(folder / "stores", fsync=False)
        (folder / "static").mkdir()
        self.environment = {
            **os.environ, **self._stores.__enter__(), "STATIC_ROOT": str(folder / "static"),
            "DROVER_TEST_SERVICES": str(folder), "PYTHONPATH": "", "DJANGO_SETTINGS_MODULE": "fleet.settings",
        }  # fmt: skip

    def close(self) -> None:
        self._stores.__exit__(None, None, None)

    def run(self, tree: Path, *tests: str) -> dict[str, tuple[str, str]]:
        """Test id → (passed, failed or error; what it says)."""
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "--reuse-db", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run(
            [*command, *tests], cwd=tree, env=self.environment, capture_output=True, text=True, timeout=180
        )
        if not report.exists():
            return dict.fromkeys(tests, ("error", done.stdout[-2000:] + done.stderr[-2000:]))
        return read(report, tests, done.stdout[-2000:])


def read(report: Path, tests: tuple[str, ...], said: str) -> dict[str, tuple[str, str]]:
    found = dict.fromkeys(tests, ("error", f"it did not run\n{said}"))
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  (our own pytest wrote it)
        path = case.get("classname", "").replace(".", "/") + ".py"
        test = f"{path}::{case.get('name')}"
        if test in found:
            error, failure = case.find("error"), case.find("failure")
            worst = error if error is not None else failure
            state = "passed" if worst is None else "error" if error is not None else "failed"
            found[test] = (state, "" if worst is None else worst.text or "")
    return found


def sabotage(tree: Path, defect: Defect) -> str:
    """Make the defect; why it cannot be made, if it cannot."""
    path = tree / defect.file
    if not path.exists():
        return f"{defect.file} is not there any more"
    text = path.read_text()
    for old, new in defect.edits:
        if text.count(old) != 1:
            return f"this stands {text.count(old)} times in {defect.file}, not once: {old.strip()}"
        text = text.replace(old, new)
    path.write_text(text)
    return ""


def verdict(lane: Lane, base: Path, defect: Defect) -> str:
    """Empty when the defect was noticed as it has to be."""
    tree = lane.folder / "copy"
    shutil.copytree(base, tree, symlinks=True)
    try:
        if why := sabotage(tree, defect):
            return f"{why}. Bring tests/sabotage/defects.py up to date."
        state, text = lane.run(tree, defect.test)[defect.test]
    finally:
        shutil.rmtree(tree)
    if state == "passed":
        return f"nobody noticed: {defect.test} passes"
    if state == "error" or not OWN.findall(text):  # also one of what tests share: a stage that looks after each word
        return f"{defect.test} did not turn red by an assertion of the tests:\n{text[-1500:]}"
    return ""


def main(words: list[str]) -> int:
    chosen = [d for d in DEFECTS if not words or any(word in d.name for word in words)]
    began, wrong = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="drover-sabotage-") as name, ThreadPoolExecutor(LANES) as pool:
        folder = Path(name)
        folder.chmod(0o755)
        base = folder / "untouched"
        shutil.copytree(ROOT, base, ignore=LEFT_OUT, symlinks=True)
        free: Queue[Lane] = Queue()
        lanes = list(pool.map(Lane, (folder / f"lane{n}" for n in range(LANES))))
        try:
            for lane in lanes:
                free.put(lane)
            wrong += untouched(lanes[0], base, chosen)

            def one(defect: Defect) -> str:
                lane = free.get()
                try:
                    return verdict(lane, base, defect)
                finally:
                    free.put(lane)

            for defect, why in zip(chosen, pool.map(one, chosen), strict=True):
                print(f"{'NOT NOTICED' if why else 'noticed':12} {defect.name}", flush=True)
                wrong += [f"{defect.name}: {why}"] if why else []
        finally:
            for lane in lanes:
                lane.close()
    print(f"{len(chosen)} defects, {len(wrong)} complaints, {time.monotonic() - began:.0f} s")
    print(*wrong, sep="\n\n")
    return 1 if wrong else 0


def untouched(lane: Lane, base: Path, chosen: list[Defect]) -> list[str]:
    results = lane.run(base, *sorted({d.test for d in chosen}))
    wrong = [f"{test} is not green without any defect: {state}\n{text}" for test, (state, text) in results.items()
             if state != "passed"]  # fmt: skip
    print(f"{'NOT GREEN' if wrong else 'green':12} untouched copy, {len(results)} tests", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

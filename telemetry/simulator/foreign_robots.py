"""Robots that others wrote, for the demo and for tests: vda-5050-lib's virtual ones, in `foreign/`.

Their packages come from npm, with the versions and hashes of the lock file, into a folder of the site.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "foreign"
MANUFACTURER = "coatyio"
_PINS = ("package.json", "package-lock.json")
_INSTALL_S = 180

# they pick and drop nothing unless they are told from what and which kind
HANDLING = {"stationType": "floor", "loadType": "EPAL"}
PROFILE: dict[str, Any] = {"parameters": {"pick": HANDLING, "drop": HANDLING}}
CAPABILITIES = ["navigate", "pick", "drop", "wait", "charge"]


def install(npm: str, folder: Path) -> None:
    """Their packages, unless they are there. Raises `RuntimeError` with npm's own words."""
    folder.mkdir(parents=True, exist_ok=True)
    if _is_installed(folder):
        return
    for name in _PINS:
        shutil.copyfile(HERE / name, folder / name)
    done = subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, timeout=_INSTALL_S
    )
    if done.returncode:
        raise RuntimeError(f"npm could not install vda-5050-lib: {(done.stderr or done.stdout).strip()[-500:]}")
    shutil.copyfile(HERE / "package-lock.json", folder / "installed.json")


def _is_installed(folder: Path) -> bool:
    installed = folder / "installed.json"  # written last: what was cut short is installed anew
    return installed.exists() and installed.read_bytes() == (HERE / "package-lock.json").read_bytes()


def command(node: str, config: dict[str, Any]) -> list[str]:
    """Arguments of a process of them. `config`: see robot.js."""
    return [node, str(HERE / "robot.js"), json.dumps(config)]


def environment(folder: Path) -> dict[str, str]:
    """What that process needs to find its packages."""
    return {**os.environ, "NODE_PATH": str(folder / "node_modules")}

"""docs/api.md word for word, and its example, by a program that an admin gave a token, on a running copy."""

import os
import re
import subprocess
import sys
from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

from tests.run.copies import ROOT, Copy
from tests.tools import tool

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def running(kept_folder):
    copy = Copy(kept_folder / "var", DROVER_SPEED_UP="10")
    try:
        yield copy.until_ready()
    finally:
        copy.stop()


@pytest.fixture(scope="module")
def token(running: Copy) -> str:
    """Issued by the supervisor in admin, as docs/api.md says."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))

    def post(path: str, **data: object) -> str:
        page = browser.open(running.url + path).read().decode()
        csrf = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        form = urlencode({"csrfmiddlewaretoken": csrf[1], **data}, doseq=True).encode()
        return browser.open(Request(running.url + path, form, {"Referer": running.url})).read().decode()

    post("login/", username="supervisor", password=running.password("supervisor"))
    scopes = ["missions:read", "missions:write", "robots:read", "robots:stop", "robots:release"]
    page = post("admin/fleet/apitoken/add/", label="warehouse", scopes=scopes)
    return re.search(r"drover_api_[\w-]+", page)[0]


def environment(running: Copy, token: str) -> dict[str, str]:
    return {**os.environ, "DROVER_URL": running.url.rstrip("/"), "DROVER_TOKEN": token}


def test_the_example_follows_its_mission_to_the_end(running, token):
    ran = subprocess.run(
        [sys.executable, "docs/examples/follow_mission.py", "1", "Shelf 3", "Dock A"], cwd=ROOT,
        env=environment(running, token), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == "success 2/2"


def test_every_example_of_the_docs_runs_as_it_stands(running, token):
    for name in ("bash", "curl", "jq"):
        tool(name)
    text = (ROOT / "docs/api.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    blocks[0] = re.sub(r"^export .*\n", "", blocks[0])  # the line that differs at every site
    script = "\n".join(f"echo '== {n}'\n{block}" for n, block in enumerate(blocks))
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=environment(running, token), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    sites, created, policy, followed, listed, steered, stopped, refused = ran.stdout.split("== ")[1:]
    assert (
        '"timeout_retries": 2' in policy and '"timeout_then": "skip"' in policy and '"offline_policy": "wait"' in policy
    )
    assert "North Hall" in sites
    assert '"state": "pending"' in created
    assert "warehouse for supervisor: Drawn up" in followed
    assert "Fetch pallet 7" in listed
    assert '"origin_kind": "rerun"' in steered
    assert "aisle blocked" in stopped
    assert "steps.0.params.place" in refused

"""Takes the README's picture of the fleet page from a running `make run`: .venv/bin/python docs/screenshot.py

Reads DROVER_PORT and DROVER_VAR like `make run`. Needs requirements-dev.txt and a Chromium on PATH.
"""

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
SIZE = {"width": 1280, "height": 800}


def main() -> None:
    var = Path(os.environ.get("DROVER_VAR", ROOT / "var"))
    url = f"http://127.0.0.1:{os.environ.get('DROVER_PORT', '8000')}"
    secrets = dict(line.split("=", 1) for line in (var / "secrets").read_text().splitlines())
    chromium = next(
        filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")))
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(base_url=url, viewport=SIZE, color_scheme="light")
        page.set_default_timeout(120_000)  # on a busy machine as well
        page.goto("/login/")
        page.get_by_label("User name").fill("supervisor")
        page.get_by_label("Password").fill(secrets["SUPERVISOR_PASSWORD"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector("#link-state[data-state=live]")
        page.wait_for_timeout(3000)  # the board settles
        page.screenshot(path=ROOT / "docs" / "fleet.png")
        browser.close()


if __name__ == "__main__":
    main()

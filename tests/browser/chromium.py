"""The browser and the accessibility checker; a test that needs a missing one is skipped."""

import fcntl
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FOLDER = Path(__file__).parents[2] / ".cache/browser"
AXE = "axe-core@4.11.0"
NPM_SECONDS = 120.0


def chromium() -> str:
    """The path of Chromium. Skips if it is not installed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium on the PATH (Debian: apt-get install chromium)")
    return found


@cache
def axe() -> str:
    """The script that checks a page for accessibility, from npm, kept between runs. Skips if npm is unreachable."""
    if shutil.which("npm") is None:
        pytest.skip("axe-core comes from npm, which is not on the PATH")
    FOLDER.mkdir(parents=True, exist_ok=True)
    script = FOLDER / "node_modules/axe-core/axe.min.js"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel runs install once
        if not script.exists():
            (FOLDER / "package.json").write_text(json.dumps({"private": True}))
            command = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", AXE)
            done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=NPM_SECONDS, check=False)
            if done.returncode:
                pytest.skip(f"npm cannot install {AXE} here: {done.stderr.strip().partition(chr(10))[0]}")
    return script.read_text(encoding="utf-8")

"""The agents, installed from npm once and kept in `.cache/clients` between runs, in the versions of `package.json`."""

import fcntl
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.waiting import DEADLINE

PINNED = Path(__file__).parent / "package.json"
FOLDER = Path(__file__).parents[2] / ".cache/clients"

INSTALL_SECONDS = 300.0
VERSION_SECONDS = DEADLINE

NPM = (
    *("npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"),
    "--fetch-retries=1",  # with npm's own patience, a run without a network would wait for minutes
)

SCRIPTS = ("@anthropic-ai/claude-code/install.cjs", "opencode-ai/postinstall.mjs")
"""What puts each program in its place. npm runs them or not, by its version; so it never does, and we always do."""

PROGRAMS = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "opencode": "opencode-ai"}


_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")


def installed() -> Path:
    """The folder of the agents' programs. Skips where there is no npm, or nothing to install from."""
    missing = [name for name in ("npm", "node", "git") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"the agents need {', '.join(missing)} on the PATH")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once install once
        programs = FOLDER / "node_modules/.bin"
        if not _is_complete(programs):
            _install()
            assert _is_complete(programs), f"npm installed other versions than {PINNED} names: {_versions(programs)}"
    return programs


def _install() -> None:
    shutil.copy(PINNED, FOLDER / PINNED.name)
    try:
        done = subprocess.run(NPM, cwd=FOLDER, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install the agents within {INSTALL_SECONDS:g} s")
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().partition("\n")[0]
        pytest.skip(f"npm cannot install the agents here: {reason}")
    for script in SCRIPTS:
        place = FOLDER / "node_modules" / script
        subprocess.run(["node", place], cwd=place.parent, capture_output=True, check=True, timeout=INSTALL_SECONDS)


def _is_complete(programs: Path) -> bool:
    pinned = json.loads(PINNED.read_text())["dependencies"]
    return _versions(programs) == {name: pinned[package] for name, package in PROGRAMS.items()}


def _versions(programs: Path) -> dict[str, str]:
    """What each program says that it is; those that are not there, or cannot run, are left out."""
    versions = {}
    for name in PROGRAMS:
        try:
            said = subprocess.run(
                [programs / name, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS
            )
        except OSError:
            continue
        found = _VERSION.search(said.stdout)
        versions[name] = found.group() if found else ""
    return versions

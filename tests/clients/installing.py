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
EARLIER = Path(__file__).parent / "earlier/package.json"
CACHE = Path(__file__).parents[2] / ".cache"
FOLDERS = {PINNED: CACHE / "clients", EARLIER: CACHE / "clients-earlier"}
"""Where the programs are kept that each of these names."""

INSTALL_SECONDS = 300.0
VERSION_SECONDS = DEADLINE

NPM = (
    *("npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"),
    "--fetch-retries=1",  # with npm's default retries, a run without a network would wait for minutes
)

SCRIPTS = ("@anthropic-ai/claude-code/install.cjs", "opencode-ai/postinstall.mjs")
"""What puts each program in its place. npm runs them or not, by its version; so it never does, and we always do."""

PROGRAMS = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "opencode": "opencode-ai"}


_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")


def installed(pinned: Path = PINNED) -> Path:
    """The folder of the programs that ``pinned`` names. Skips without npm or without a source to install from."""
    missing = [name for name in ("npm", "node", "git") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"the agents need {', '.join(missing)} on the PATH")
    folder = FOLDERS[pinned]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel runs install once
        programs = folder / "node_modules/.bin"
        if not (stamp := folder / "verified").exists() or stamp.read_text() != pinned.read_text():
            if not _is_complete(programs, pinned):
                _install(folder, pinned)
            assert _is_complete(programs, pinned), f"npm installed others than {pinned} names: {_versions(programs)}"
            stamp.write_text(pinned.read_text())  # asking them again would take seconds in each run
    return programs


def _install(folder: Path, pinned: Path) -> None:
    shutil.copy(pinned, folder / pinned.name)
    try:
        done = subprocess.run(NPM, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install the agents within {INSTALL_SECONDS:g} s")
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().partition("\n")[0]
        pytest.skip(f"npm cannot install the agents here: {reason}")
    for script in SCRIPTS:
        place = folder / "node_modules" / script
        if place.exists():
            subprocess.run(["node", place], cwd=place.parent, capture_output=True, check=True, timeout=INSTALL_SECONDS)


def _is_complete(programs: Path, pinned: Path) -> bool:
    wanted = json.loads(pinned.read_text())["dependencies"]
    return _versions(programs) == {name: wanted[package] for name, package in PROGRAMS.items() if package in wanted}


def _versions(programs: Path) -> dict[str, str]:
    """The version that each program reports; missing or broken programs are omitted."""
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

"""The project of a folder, from git's files. A request names the folder, so only regular files are read, and no program
runs.

A repository is named by ``git config mnemosyne.project NAME``, else by its remote ``origin``, else by the folder of the
main worktree, which all worktrees share. A folder without git is its own project.
"""

import configparser
import re
from pathlib import Path

from mnemosyne.regular_files import read_text

_LONGEST = 1_000_000
"""The limit of bytes of a file."""

_SCP = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/\s]*@)?([^:/\s]+)(?::\d+)?/(.+)", re.IGNORECASE)


def find_project(folder: Path) -> str:
    """The name of the project of a folder, which need not exist."""
    for place in (folder, *folder.parents):
        try:
            common = _find_common_folder(place / ".git")
        except OSError:
            return str(folder)
        if common is not None:
            return _find_name(common) or str(common.parent if common.name == ".git" else common)
    return str(folder)


def _find_common_folder(git: Path) -> Path | None:
    """Git's folder that all worktrees share, or None."""
    if git.is_dir():
        return git.resolve()
    if not git.is_file():
        return None
    named = read_text(git, _LONGEST).partition("gitdir:")[2].strip()
    own = (git.parent / named).resolve()
    common = own / "commondir"
    return (own / read_text(common, _LONGEST).strip()).resolve() if common.is_file() else own


def _find_name(common: Path) -> str | None:
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(read_text(common / "config", _LONGEST))
        given = (parser.get("mnemosyne", "project", fallback="") or "").strip('" ')
        return given or name_remote(parser.get('remote "origin"', "url", fallback="") or "")
    except (OSError, configparser.Error):
        return None


def name_remote(url: str) -> str | None:
    """The name of the project that a git remote holds, such as ``github.com/ada/app``: without scheme, user, port and
    ``.git``, so that it is the same over ssh and https. None for a remote that is a folder.
    """
    found = _URL.fullmatch(url.strip()) or _SCP.fullmatch(url.strip())
    if found is None or url.strip().startswith(("/", ".", "file:")):
        return None
    path = found[2].strip("/").removesuffix(".git")
    return f"{found[1].casefold()}/{path}" if path else None

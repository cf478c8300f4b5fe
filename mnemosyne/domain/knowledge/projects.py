"""Name a project so that its clones, worktrees and moved folders share one name."""

import re

_SCP = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/\s]*@)?([^:/\s]+)(?::\d+)?/(.+)", re.IGNORECASE)


def name_remote(url: str) -> str | None:
    """The name of the project that a git remote holds, such as ``github.com/ada/app``: without scheme, user, port and
    ``.git``, so that it is the same over ssh and https. None for a remote that is a folder.
    """
    found = _URL.fullmatch(url.strip()) or _SCP.fullmatch(url.strip())
    if found is None or url.strip().startswith(("/", ".", "file:")):
        return None
    path = found[2].strip("/").removesuffix(".git")
    return f"{found[1].casefold()}/{path}" if path else None

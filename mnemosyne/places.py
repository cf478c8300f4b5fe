"""Where things lie when nobody says otherwise. A command asks before it imports anything else."""

import os
from collections.abc import Mapping


def default_data_dir(environ: Mapping[str, str]) -> str:
    """Where state lives when nobody says otherwise: the system's place for root, the XDG one for people."""
    if os.geteuid() == 0:
        return "/var/lib/mnemosyne"
    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # "All paths set in these environment variables must be absolute" (XDG, basics)
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/share")
    return os.path.join(os.path.abspath(base), "mnemosyne")

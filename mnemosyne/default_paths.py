"""Default locations. Commands read them before they import other modules."""

import os
from collections.abc import Mapping


def default_data_dir(environ: Mapping[str, str]) -> str:
    """The default data directory: the system's location for root, the XDG location for other users."""
    if os.geteuid() == 0:
        return "/var/lib/mnemosyne"
    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # "All paths set in these environment variables must be absolute" (XDG, basics)
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/share")
    return os.path.join(os.path.abspath(base), "mnemosyne")

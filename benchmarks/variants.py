"""The servers that are compared."""

import sys
from pathlib import Path

from benchmarks.harness import Variant

DIRECT, BARE, UNLOGGED, OURS = "direct", "bare h11 relay", "mnemosyne without its log", "mnemosyne"


def data_dir(own: Path) -> Path:
    """Where the whole server keeps its log."""
    return own / "data"


VARIANTS = (
    Variant(DIRECT),
    Variant(BARE, lambda url, _: (sys.executable, "-m", "benchmarks.bare_relay", url)),
    Variant(UNLOGGED, lambda url, own: (sys.executable, "-m", "benchmarks.unlogged_server", url, str(own / "data"))),
    Variant(
        OURS,
        lambda url, own: (
            *(sys.executable, "-m", "mnemosyne", "serve"),
            *("--port", "0", "--data-dir", str(data_dir(own)), "--upstream", url),
        ),
    ),
)

"""The servers that are compared."""

import sys
from pathlib import Path

from benchmarks.harness import Variant

DIRECT, BARE, UNLOGGED, OURS = "direct", "bare h11 relay", "mnemosyne without its log", "mnemosyne"
MANAGING, LITELLM = "mnemosyne, managing", "LiteLLM"


def data_dir(own: Path) -> Path:
    """Where the whole server keeps its log."""
    return own / "data"


def _serve(url: str, own: Path, *options: str) -> tuple[str, ...]:
    serve = (sys.executable, "-m", "mnemosyne", "serve")
    return (*serve, "--port", "0", "--data-dir", str(data_dir(own)), "--upstream", url, *options)


VARIANTS = (
    Variant(DIRECT),
    Variant(BARE, lambda url, _: (sys.executable, "-m", "benchmarks.bare_relay", url)),
    Variant(UNLOGGED, lambda url, _: (sys.executable, "-m", "benchmarks.unlogged_server", url)),
    Variant(OURS, _serve),
)

PEERS = (
    Variant(DIRECT),
    Variant(BARE, lambda url, _: (sys.executable, "-m", "benchmarks.bare_relay", url)),
    Variant(LITELLM, lambda url, own: (sys.executable, "-m", "benchmarks.litellm_server", url, str(own))),
    Variant(OURS, _serve),
    Variant(MANAGING, lambda url, own: _serve(url, own, "--manage")),
)

"""The servers that are compared."""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Variant

DIRECT, BARE, UNLOGGED, OURS = "direct", "bare h11 relay", "mnemosyne without its log", "mnemosyne"
MANAGING, TWO, LITELLM = "mnemosyne, managing", "mnemosyne, managing, 2 processes", "LiteLLM"


def _run(module: str, *arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", module, *arguments)


def _serve(url: str, own: Path, *options: str) -> Sequence[str]:
    return _run("mnemosyne", "serve", "--port", "0", "--data-dir", str(own / "data"), "--upstream", url, *options)


_VARIANTS = (
    Variant(DIRECT),
    Variant(BARE, lambda url, _: _run("benchmarks.bare_relay", url)),
    Variant(UNLOGGED, lambda url, _: _run("benchmarks.unlogged_server", url)),
    Variant(LITELLM, lambda url, own: _run("benchmarks.litellm_server", url, str(own))),
    Variant(OURS, _serve),
    Variant(MANAGING, lambda url, own: _serve(url, own, "--manage")),
    Variant(TWO, lambda url, own: _serve(url, own, "--manage", "--processes", "2")),
)


def choose(*names: str) -> Sequence[Variant]:
    """The variants of these names."""
    return [each for each in _VARIANTS if each.name in names]

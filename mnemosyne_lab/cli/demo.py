"""``mnemosyne demo``: see it manage a session, without a key and without a network."""

import os
import sys
from pathlib import Path

import click

from mnemosyne.cli.printing import is_plain


@click.command()
@click.option("--fast", is_flag=True, help="Without pauses.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep the log in DIR, to look around.")
@click.option("--no-open", is_flag=True, help="Do not open the session's page in a browser at the end.")
@click.pass_context
def demo(ctx: click.Context, /, fast: bool, keep: Path | None, no_open: bool) -> None:
    """Watch Mnemosyne manage the context of a small coding agent, in a minute.

    \b
      mnemosyne demo
      mnemosyne demo --no-open --keep /tmp/demo

    Files are read, evicted when that pays, asked about, restored and read again; then both bills are shown, and the
    session's page opens. The proxy, the planner and the database are the real ones, with default settings. The model is
    a script on this machine, so the demo needs no key and no network. It works in a temporary directory and does
    not touch your log, settings or files. Ctrl-C ends it at any time and leaves nothing behind.
    """
    from mnemosyne_lab.demo.play import Options, may_open, run_demo
    from mnemosyne_lab.demo.stage import Terminal

    _forget_settings()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no box lines still shows the words
    console = Terminal(highlight=False, color_system=None if is_plain() else "auto")
    opens = may_open(console) and not no_open
    ctx.exit(run_demo(Options(console, console.is_terminal and not fast, keep, opens)))


def _forget_settings() -> None:
    """The user's own settings must not lead the demo to the user's own log."""
    for name in [name for name in os.environ if name.startswith("MNEMOSYNE_")]:
        del os.environ[name]

"""``mnemosyne demo``: see it work, without a key and without a network."""

import os
import sys
from pathlib import Path

import click

from mnemosyne.cli.printing import is_plain


@click.command()
@click.option("--fast", is_flag=True, help="Without pauses.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep the log in DIR, to look around.")
@click.pass_context
def demo(ctx: click.Context, /, fast: bool, keep: Path | None) -> None:
    """Watch a small agent repair a date parser through Mnemosyne, and look at the record.

    \b
      mnemosyne demo

    The proxy, the database and the commands are real; a script on this machine plays the model, so it needs no key and
    no network. It works in a temporary directory and touches none of your files.
    """
    from mnemosyne_lab.demo.play import Options, run_demo
    from mnemosyne_lab.demo.stage import Terminal

    _forget_settings()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no box lines still shows the words
    console = Terminal(highlight=False, color_system=None if is_plain() else "auto")

    def run(arguments: list[str]) -> int:
        code = ctx.find_root().command.main(arguments, prog_name="mnemosyne", standalone_mode=False)
        return code if isinstance(code, int) else 0

    ctx.exit(run_demo(Options(console=console, paced=console.is_terminal and not fast, keep=keep, run=run)))


def _forget_settings() -> None:
    """The user's own settings must not lead the demo to the user's own log."""
    for name in [name for name in os.environ if name.startswith("MNEMOSYNE_")]:
        del os.environ[name]

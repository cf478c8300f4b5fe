"""``mnemosyne rename`` and ``mnemosyne close``: a session's name and end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mnemosyne.cli.log_access import log_of, prints, session_argument
from mnemosyne.cli.memory import call_operation
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import log_options
from mnemosyne.services.memory_operations import BY_NAME


def _print(answer: Mapping[str, Any]) -> None:
    say(f"session {answer['id']}: {answer['what']}")


def _edit(options: dict[str, Any], **given: Any) -> Mapping[str, Any]:
    log_of(dict(options))
    done: Mapping[str, Any] = call_operation(BY_NAME["editSession"], {**options, "folder": Path()}, given)
    return done


@click.command()
@session_argument
@click.argument("title")
@log_options()
@prints(lambda answer: answer, _print)
def rename(session: str, title: str, **options: Any) -> Mapping[str, Any]:
    """Name a session in lists and on pages; an empty TITLE restores the automatic name.

    \b
      mnemosyne rename 319a "Tariffs of the invoices"
      mnemosyne rename 319a ""
    """
    return _edit(options, id=session, title=title)


@click.command()
@session_argument
@click.option("--undo", is_flag=True, help="Reopen the session.")
@log_options()
@prints(lambda answer: answer, _print)
def close(session: str, undo: bool, **options: Any) -> Mapping[str, Any]:
    """Close a session: its status becomes completed, or abandoned if its last prompt is unfinished. Its next turn opens
    it again. A session that is not closed ends after a day without a turn.

    \b
      mnemosyne close 319a
    """
    return _edit(options, id=session, closed=not undo)

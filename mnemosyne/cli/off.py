"""``mnemosyne off``: the end of managing, at once."""

from typing import TYPE_CHECKING

import click

from mnemosyne.cli.reading import log_of, log_options, with_log
from mnemosyne.cli.settings import configuration

if TYPE_CHECKING:
    from mnemosyne.storage import Storage


@click.command(short_help="Stop managing a session, or all.")
@click.argument("session", required=False)
@click.option("--undo", is_flag=True, help="Let new conversations be managed again.")
@log_options()
def off(session: str | None, undo: bool, **options: object) -> None:
    """Stop managing a session, or all: their requests go upstream as their client sends them.

    It holds from each conversation's next request on, with one exception: where the model thinks in the old way, with a
    budget, it holds from the next prompt on. Thinking of before is left out, because the provider bound it to what it
    was sent. A conversation that was stopped stays so; `--undo` is for those that begin later.
    """
    from mnemosyne.data_dir import bypassed_sessions, prepare_data_dir, write_bypassed_sessions

    config = configuration(options) if session is None else log_of(options)
    name = "*" if session is None else with_log(config, lambda storage: _id(storage, session))
    prepare_data_dir(config.data_dir)
    there = bypassed_sessions(config.data_dir)
    write_bypassed_sessions(config.data_dir, there - {name} if undo else there | {name})
    whose = "all sessions" if session is None else f"session {name}"
    click.echo(f"{whose}: {'new conversations may be managed again' if undo else 'no longer managed'}")


async def _id(storage: "Storage", session: str) -> str:
    from mnemosyne.archive.sessions import find

    return str(await find(storage, session))

"""``mnemosyne off``: the end of managing, at once."""

from typing import TYPE_CHECKING

import click

from mnemosyne.cli.reading import log_of, log_options, with_log
from mnemosyne.errors import NotFound

if TYPE_CHECKING:
    from mnemosyne.app.storage import Storage


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
    from mnemosyne.data_dir import bypassed_sessions, write_bypassed_sessions

    config = log_of(options)
    if not config.data_dir.is_dir():
        raise NotFound(
            f"There is no data directory {config.data_dir}, so no server looks there. Name it by --data-dir."
        )
    there = bypassed_sessions(config.data_dir)
    if session is None:
        name, said = ALL, f"all sessions: {'new conversations may be managed again' if undo else 'no longer managed'}"
    else:
        name, was_managed = with_log(config, lambda storage: _found(storage, session))
        said = f"session {name}: {_undone(name, there) if undo else _stopped(was_managed)}"
    write_bypassed_sessions(config.data_dir, there - {name} if undo else there | {name})
    click.echo(said)


ALL = "*"


def _stopped(was_managed: bool) -> str:
    return "no longer managed" if was_managed else "it was not managed, and will not be"


def _undone(name: str, there: frozenset[str]) -> str:
    if ALL in there:
        return "all sessions are turned off, so it stays so; `mnemosyne off --undo` ends that"
    if name not in there:
        return "it was not turned off"
    return "what begins in it from now on, such as an agent's window, may be managed again; what was stopped stays so"


async def _found(storage: "Storage", session: str) -> tuple[str, bool]:
    """A session's id, and whether anything of it is managed."""
    from mnemosyne.domain.session.round_events import Mode
    from mnemosyne.services import memories, sessions

    stream, events = await sessions.events_of(storage, session)
    branches = memories.folded(events).branches.values()
    return str(stream), any(branch.mode is not Mode.OBSERVE for branch in branches)

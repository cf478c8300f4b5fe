"""``mnemosyne off``: the end of managing, at once."""

import secrets
import time

import click

from mnemosyne.app.storage import Storage
from mnemosyne.cli.printing import say
from mnemosyne.cli.reading import log_of, with_log
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.session.decide import SwitchManaging
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services import sessions, switching

WHY = "mnemosyne off"


@click.command()
@click.argument("session", required=False)
@click.option("--undo", is_flag=True, help="Let new conversations be managed again.")
@log_options()
def off(session: str | None, undo: bool, **options: object) -> None:
    """Stop managing a session, or all: their requests go upstream as their client sends them.

    It holds from each conversation's next request on, with one exception: where the model thinks in the old way, with a
    budget, it holds from the next prompt on. Thinking of before is left out, because the provider bound it to what it
    was sent. A conversation that was stopped stays so; `--undo` is for those that begin later.
    """
    config = log_of(options)
    command = SwitchManaging(at=time.time_ns() // 1000, on=undo, why=WHY)
    said = with_log(config, lambda storage: _switch(storage, session, config.tenant, command, secrets.token_hex(8)))
    say(said)


async def _switch(storage: Storage, session: str | None, tenant: str, command: SwitchManaging, id_: str) -> str:
    """Record it; a sentence about what that does."""
    if session is None:
        await switching.switch_all(storage, tenant, command, id_)
        return f"all sessions: {'new conversations may be managed again' if command.on else 'no longer managed'}"
    stream = await sessions.find(storage, session)
    before = await switching.switch_session(storage, stream, command, id_)
    if not command.on:
        was_managed = any(branch.mode is not Mode.OBSERVE for branch in before.branches.values())
        return f"session {stream}: {'no longer managed' if was_managed else 'it was not managed, and will not be'}"
    return f"session {stream}: {_render_undo(before.off, await switching.all_are_off(storage, tenant))}"


def _render_undo(was_off: bool, all_are_off: bool) -> str:
    if all_are_off:
        return "all sessions are turned off, so it stays so; `mnemosyne off --undo` ends that"
    if not was_off:
        return "it was not turned off"
    return "what begins in it from now on, such as an agent's window, may be managed again; what was stopped stays so"

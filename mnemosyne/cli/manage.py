"""``mnemosyne manage`` and ``mnemosyne off``: manage a session that is under way, or stop."""

import click

from mnemosyne.app.process import new_id, now
from mnemosyne.app.storage import Storage
from mnemosyne.cli.log_access import log_of, with_log
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.session.decide import StartManaging, SwitchManaging
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services import sessions, switching


@click.command()
@click.argument("session")
@log_options()
def manage(session: str, **options: object) -> None:
    """Manage a session that was only observed so far.

    \b
      mnemosyne manage 319a
      mnemosyne off 319a            observe it again

    Nothing changes until a compaction pays: the memory tools are added with it. A running server notices the switch
    with the next request or the one after. Conversations that were managed and stopped stay unmanaged.
    """
    config = log_of(options)
    command = StartManaging(at=now(), why="mnemosyne manage")
    say(with_log(config, lambda storage: _start(storage, session, config.tenant, command, new_id())))


async def _start(storage: Storage, session: str, tenant: str, command: StartManaging, id_: str) -> str:
    """Record the switch. Returns a sentence about its effect."""
    stream = await sessions.find(storage, session)
    before = await switching.switch_session(storage, stream, command, id_)
    if await switching.all_are_off(storage, tenant):
        return f"session {stream}: waits, because managing is off for all sessions; `mnemosyne off --undo` changes that"
    if any(branch.mode is Mode.BYPASS for branch in before.branches.values()):
        return f"session {stream}: only its new conversations are managed; one that was managed and stopped stays so"
    if before.branches and all(branch.mode is Mode.MANAGE for branch in before.branches.values()):
        return f"session {stream}: {'stays managed' if before.off else 'is managed already'}"
    return (
        f"session {stream}: {'was switched on already' if before.switched else 'managed from its next compaction on'}"
    )


@click.command()
@click.argument("session", required=False)
@click.option("--undo", is_flag=True, help="Allow new conversations to be managed again.")
@log_options()
def off(session: str | None, undo: bool, **options: object) -> None:
    """Stop managing a session, or all: the proxy then sends the client's requests unchanged.

    \b
      mnemosyne off 319a
      mnemosyne off                 all sessions
      mnemosyne off --undo          allow new conversations to be managed

    It takes effect with the next request; if the model thinks with a token budget, with the next prompt. A stopped
    conversation stays unmanaged.
    """
    config = log_of(options)
    command = SwitchManaging(at=now(), on=undo, why="mnemosyne off")
    say(with_log(config, lambda storage: _switch(storage, session, config.tenant, command, new_id())))


async def _switch(storage: Storage, session: str | None, tenant: str, command: SwitchManaging, id_: str) -> str:
    """Record the switch. Returns a sentence about its effect."""
    if session is None:
        await switching.switch_all(storage, tenant, command, id_)
        return f"all sessions: {'new conversations may be managed again' if command.on else 'no longer managed'}"
    stream = await sessions.find(storage, session)
    before = await switching.switch_session(storage, stream, command, id_)
    if not command.on:
        was_managed = any(branch.late or branch.mode is not Mode.OBSERVE for branch in before.branches.values())
        return f"session {stream}: {'no longer managed' if was_managed else 'was not managed, and will not be'}"
    return f"session {stream}: {_render_undo(before.off, await switching.all_are_off(storage, tenant))}"


def _render_undo(was_off: bool, all_are_off: bool) -> str:
    if all_are_off:
        return "stays unmanaged, because managing is off for all sessions; `mnemosyne off --undo` changes that"
    if not was_off:
        return "was not turned off"
    return "its new conversations, such as those of sub-agents, may be managed again; stopped ones stay unmanaged"

"""``mnemosyne manage``: manage a session that is under way."""

import click

from mnemosyne.app.process import new_id, now
from mnemosyne.app.storage import Storage
from mnemosyne.cli.log_access import log_of, with_log
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.session.decide import StartManaging
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
    return (
        f"session {stream}: {'was switched on already' if before.switched else 'managed from its next compaction on'}"
    )

"""``mnemosyne forget`` and ``mnemosyne retain``: erase stored content."""

import secrets
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import click

from mnemosyne.app.process import new_id, now
from mnemosyne.app.retaining import Retained, Rewrite, erase
from mnemosyne.app.retaining import retain as retain_now
from mnemosyne.app.storage import Storage
from mnemosyne.cli.log_access import has_log, json_option, log_of, render_emptiness, with_log
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.config import Config
from mnemosyne.domain.session.retention import TRASH_DAYS
from mnemosyne.errors import BadOption
from mnemosyne.figures import bytes_text, local_time, plural
from mnemosyne.services.forgetting import Forgotten, clean, describe
from mnemosyne.services.knowledge import WriteStamp, erase_all, list_learned
from mnemosyne.services.unstructuring import members

quick_option = click.option(
    "--quick",
    is_flag=True,
    help="Do not rewrite the database's files; erased bytes stay in them until the space is reused.",
)


@click.command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--all", "everything", is_flag=True, help="Erase all sessions and all saved facts of the tenant.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@quick_option
@log_options()
@json_option
def forget(session: str | None, everything: bool, yes: bool, quick: bool, as_json: bool, **options: object) -> None:
    """Erase the content of a session: every text, tool result and reply, and the text of its objects. This cannot be
    undone.

    \b
      mnemosyne forget 319a
      mnemosyne forget --all --yes

    Copies elsewhere stay: in learned facts and archives of another log (listed at the end), in other sessions, in the
    client's own files, and in backups, exports and reports.

    The log stays valid: hashes, sizes, times, counts and names remain. A damaged session that cannot be read is deleted
    completely. If a client continues the session, it sends its history again, and the proxy stores it again.

    The tables that held text are then rewritten, so that no bytes stay in the database's files. In a database of your
    own (dsn), you have to renew its journal, backups and replicas yourself.
    """
    if (session is None) is not everything:
        raise BadOption("Give either a SESSION or --all.")
    config = log_of(options)
    if session is None:
        _forget_tenant(config, yes=yes, quick=quick, as_json=as_json)
    else:
        _forget_session(config, session, yes=yes, quick=quick, as_json=as_json)


def _forget_session(config: Config, session: str, *, yes: bool, quick: bool, as_json: bool) -> None:
    stream, name = with_log(config, lambda storage: describe(storage, session))
    if not yes:
        click.confirm(f"Erase the content of session {stream} ({name})?", abort=True, err=True)

    async def forget_session(storage: Storage) -> tuple[list[str], _Erased]:
        learned = [entry.id for entry in await list_learned(storage, config.tenant, stream)]
        return learned, await _forget(storage, [stream], quick=quick)

    learned, ((done,), files, left) = with_log(config, forget_session)
    if as_json:
        counts = {"erased": done.erased, "recorded": done.recorded, "files": files, "entries": learned}
        print_json({"id": str(stream), **counts, "archives_left": left})
        return
    say(f"session {stream}: {plural(done.erased, 'piece')} of content erased")
    say(_NAMES_STAY)
    if learned:
        say(f"Facts learned from it stay: {', '.join(learned)}. `mnemosyne memory forget ENTRY --erase` erases one.")
    _print_outcome(files, left)


def _forget_tenant(config: Config, *, yes: bool, quick: bool, as_json: bool) -> None:
    streams = with_log(config, lambda storage: storage.events.streams())
    if not yes:
        question = f"Erase {plural(len(streams), 'session')} and all saved facts of tenant {config.tenant}?"
        click.confirm(question, abort=True, err=True)

    async def forget_tenant(storage: Storage) -> tuple[int, _Erased]:
        entries = await erase_all(storage, config.tenant, WriteStamp(now(), secrets.token_hex(4)))
        return entries, await _forget(storage, streams, quick=quick)

    entries, (done, files, left) = with_log(config, forget_tenant)
    pieces = sum(session.erased for session in done)
    if as_json:
        counts = {"tenant": config.tenant, "sessions": len(done), "erased": pieces, "entries": entries}
        print_json({**counts, "files": files, "archives_left": left})
        return
    sessions, facts = plural(len(done), "session"), plural(entries, "fact")
    say(f"tenant {config.tenant}: {plural(pieces, 'piece')} of content of {sessions} erased, and the text of {facts}")
    say(_NAMES_STAY)
    _print_outcome(files, left)


_NAMES_STAY = "Names of sessions, models and client programs, times, sizes and hashes stay in the log."

_Erased = tuple[Sequence[Forgotten], str, Sequence[str]]
"""The erased sessions; the state of the database's files: ``rewritten``, ``kept``, or ``kept: `` and the reason; and
the archives that stay because another log wrote them.
"""


async def _forget(storage: Storage, streams: Sequence[UUID], *, quick: bool) -> _Erased:
    done, left = await erase(storage, streams, now, new_id)
    return done, "kept" if quick else await clean_files(storage), left


def _print_outcome(files: str, archives_left: Sequence[str]) -> None:
    for file in archives_left:
        say(f"{file} was kept because another log wrote it. Delete it if that log no longer exists.", err=True)
    print_files(files)


async def clean_files(storage: Storage) -> str:
    """Rewrite the database's files with a progress bar. Returns the result of ``services.forgetting.clean``."""
    with progress_bar("rewriting tables") as show_progress:

        def report(done: int, total: int) -> None:
            if done == 0:
                purpose = f"Rewriting {bytes_text(total)}, so that no erased bytes stay in the database's files."
                say(f"{purpose} Servers delay recording meanwhile.", err=True)
            show_progress(done, total)

        return await clean(storage.files, report)


def print_files(files: str) -> None:
    """Report that erased bytes may remain, given the result of ``services.forgetting.clean``."""
    if files.startswith("kept: "):
        say(f"The content is erased, but its bytes may still be in the database's files: {files[6:]}", err=True)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only list the sessions.")
@quick_option
@log_options("retain_days", "retain_bytes", "tenant_quotas")
@json_option
def retain(dry_run: bool, quick: bool, as_json: bool, **options: object) -> None:
    """Forget the sessions that were not active for --retain-days, and then the oldest ones until the rest fits into
    --retain-bytes; then the same for each tenant in --tenant-quotas. What was in the trash for 30 days is also erased.

    \b
      mnemosyne retain --retain-days 90 --dry-run

    A server does this once a day. A session that was active within the last two hours is never forgotten.
    """
    config = configuration(options)
    retained = Retained(())
    if not has_log(config):
        say(render_emptiness(config), err=True)
    else:
        retained = with_log(config, partial(_retain, config, dry_run=dry_run, rewrite=None if quick else clean_files))
        if not (retained.victims or retained.entries):
            trash = f"no entry was in the trash for {TRASH_DAYS} days"
            say(f"Nothing to forget: no session inactive for two hours exceeds a limit, and {trash}.", err=True)
    if as_json:
        names = {"id": "candidate.session", "stored_bytes": "candidate.stored_bytes"}
        rows = [{"tenant": tenant, **members(victim, "reason", **names)} for tenant, victim in retained.victims]
        print_json({"dry_run": dry_run, **members(retained, "files archives_left entries"), "sessions": rows})
        return
    for tenant, victim in retained.victims:
        last = local_time(victim.candidate.last_active_at)
        verb = "would be forgotten" if dry_run else "forgotten"
        whose = f" of tenant {tenant}" if tenant != config.tenant else ""
        say(f"session {victim.candidate.session}{whose}, last active {last}: {verb}, {victim.reason}")
    if retained.entries:
        verb = "would be erased" if dry_run else "erased"
        say(f"{plural(retained.entries, 'entry')} in the trash for {TRASH_DAYS} days: {verb}")
    _print_outcome(retained.files, retained.archives_left)


async def _retain(config: Config, storage: Storage, *, dry_run: bool, rewrite: Rewrite | None) -> Retained:
    return await retain_now(config, storage.files.database, now, new_id, dry_run=dry_run, rewrite=rewrite)

"""``mnemosyne forget`` and ``mnemosyne retain``: the end of what is stored."""

import secrets
import time
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import attrs
import click
import trio

from mnemosyne.adapters.postgres.archived_contents import PostgresArchivedContents
from mnemosyne.app.retaining import Limit, limits_of
from mnemosyne.app.storage import Storage
from mnemosyne.cli.printing import bytes_text, local_time, print_json, progress_bar, say
from mnemosyne.cli.reading import has_log, json_option, log_of, render_emptiness, with_log
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.config import Config
from mnemosyne.domain.session.retention import Victim
from mnemosyne.errors import BadOption
from mnemosyne.figures import plural
from mnemosyne.services.archiving import find_archives
from mnemosyne.services.forgetting import Forgotten, choose_old, clean, describe, forget_all
from mnemosyne.services.knowledge import WriteStamp, erase_all, list_learned
from mnemosyne.services.unstructuring import members

quick_option = click.option(
    "--quick", is_flag=True, help="Leave erased bytes in the database's files until it uses their space again."
)


@click.command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="All sessions of the tenant, and all that is known beyond them."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@quick_option
@log_options()
@json_option
def forget(session: str | None, everything: bool, yes: bool, quick: bool, as_json: bool, **options: object) -> None:
    """Erase what was said in a session: every text, tool result and reply, and the words of its objects. It cannot be
    undone.

    With --all, erase that of every session of the tenant (--tenant), and the words of all entries of its memory beyond
    sessions.

    What was copied elsewhere stays: in entries of memory that were learned from the session, which are named then; in
    other sessions that said, read or were told the same; in what the client keeps itself; in backups, exports, reports,
    logs of `replay`, the files that `unarchive` left, and archives that another log wrote, which are named then.

    The log stays valid: hashes, sizes, times and counts remain, as do the names of the session, of models and of client
    programs, and `mnemosyne verify` says `forgotten`. Of a session that is damaged, so that it cannot be read, nothing
    remains. A client that
    goes on with the session sends its history again, and that is stored again. Afterwards the tables that held words
    are written anew, so that the bytes leave the database's files. That takes as long as the whole log is large; while
    it runs, a server waits with its recording, not with its turns. The journal of the database that Mnemosyne keeps
    itself is renewed, too. In a database of your own (`dsn`), its journal, its backups and its replicas are yours to
    renew.
    """
    if (session is None) is not everything:
        raise BadOption("Name a session, or give --all for everything of the tenant; not both.")
    config = log_of(options)
    if session is None:
        _forget_tenant(config, yes=yes, quick=quick, as_json=as_json)
    else:
        _forget_session(config, session, yes=yes, quick=quick, as_json=as_json)


def _forget_session(config: Config, session: str, *, yes: bool, quick: bool, as_json: bool) -> None:
    stream, name = with_log(config, lambda storage: describe(storage, session))
    if not yes:
        click.confirm(f"Erase everything that was said in session {stream} ({name})?", abort=True, err=True)

    async def forget_session(storage: Storage) -> tuple[list[str], _Erased]:
        learned = [each.id for each in await list_learned(storage, config.tenant, stream)]
        return learned, await _forget(storage, [stream], quick=quick)

    learned, erased = with_log(config, forget_session)
    (done,) = erased.sessions
    if as_json:
        told = {"erased": done.erased, "recorded": done.recorded, "files": erased.files, "entries": learned}
        print_json({"id": str(stream), **told, "archives_left": erased.archives_left})
        return
    say(f"session {stream}: {plural(done.erased, 'piece')} of content erased")
    say(_NAMES_STAY)
    if learned:
        say(f"Memory learned {', '.join(learned)} from it, which `mnemosyne memory forget ENTRY --erase` erases.")
    _print_outcome(erased)


def _forget_tenant(config: Config, *, yes: bool, quick: bool, as_json: bool) -> None:
    streams = with_log(config, lambda storage: storage.events.streams())
    if not yes:
        asked = f"Erase everything of tenant {config.tenant}: {plural(len(streams), 'session')}, and all that is known?"
        click.confirm(asked, abort=True, err=True)

    async def forget_tenant(storage: Storage) -> tuple[int, _Erased]:
        entries = await erase_all(storage, config.tenant, WriteStamp(_now(), secrets.token_hex(4)))
        return entries, await _forget(storage, streams, quick=quick)

    entries, erased = with_log(config, forget_tenant)
    pieces = sum(each.erased for each in erased.sessions)
    count = len(erased.sessions)
    if as_json:
        told = {"tenant": config.tenant, "sessions": count, "erased": pieces, "entries": entries}
        print_json({**told, "files": erased.files, "archives_left": erased.archives_left})
        return
    sessions, known = plural(count, "session"), plural(entries, "entry")
    say(f"tenant {config.tenant}: {plural(pieces, 'piece')} of content of {sessions} erased, and the words of {known}")
    say(_NAMES_STAY)
    _print_outcome(erased)


_NAMES_STAY = "Names of sessions, models and client programs, times, sizes and hashes stay in the log."


@attrs.frozen
class _Erased:
    """What happened to the sessions, and to the files: ``rewritten``, ``kept``, or ``kept: `` and why. Archives that
    another log wrote are left.
    """

    sessions: list[Forgotten]
    files: str
    archives_left: list[str]


async def _forget(storage: Storage, streams: Sequence[UUID], *, quick: bool) -> _Erased:
    archives = await find_archives(PostgresArchivedContents(storage.files.database), streams)
    done = await forget_all(storage, streams, _now, partial(secrets.token_hex, 8))
    left = [each for each in archives if await trio.Path(each).exists()]
    return _Erased(done, "kept" if quick else await clean_files(storage), left)


def _print_outcome(erased: _Erased) -> None:
    _print_archives(erased.archives_left)
    print_files(erased.files)


def _print_archives(files: Sequence[str]) -> None:
    for file in files:
        say(f"{file} stays: this log did not write it. Delete it if its own log is gone.", err=True)


async def clean_files(storage: Storage) -> str:
    """What became of the files, as ``services.forgetting.clean`` tells; whoever waits is told for what."""
    with progress_bar("writing all anew") as show_progress:

        def report(done: int, total: int) -> None:
            if done == 0:
                told = f"{bytes_text(total)} are written anew, so that nothing of it stays in the database's files."
                say(f"{told} Servers wait with their recording meanwhile.", err=True)
            show_progress(done, total)

        return await clean(storage.files, report)


def _now() -> int:
    return time.time_ns() // 1000


def print_files(files: str) -> None:
    """Say where erased bytes may be left, as ``services.forgetting.clean`` told."""
    if files.startswith("kept: "):
        say(f"Nobody can read it any more, but its bytes may still be in the database's files: {files[6:]}", err=True)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say which.")
@quick_option
@log_options("retain_days", "retain_bytes", "tenant_quotas")
@json_option
def retain(dry_run: bool, quick: bool, as_json: bool, **options: object) -> None:
    """Forget the sessions that were not active for --retain-days, and then the oldest ones, until what is left is not
    more than --retain-bytes. Then, of each tenant that --tenant-quotas names, the oldest ones beyond its quota.

    All are off unless you set them. Where the settings of a server hold them, it does this once a day by itself; this
    command does it at once. A session that was active within the last two hours is never forgotten.
    """
    config = configuration(options)
    limits = limits_of(config)
    chosen: dict[str, Sequence[Victim]] = {}
    if not limits:
        say("Nothing is to be forgotten: neither retain_days, retain_bytes nor tenant_quotas is set.", err=True)
    elif not has_log(config):
        say(render_emptiness(config), err=True)
    else:
        chosen = {each.tenant: victims for each in limits if (victims := _choose(config, each))}
        if not chosen:
            say("Nothing is to be forgotten: no session is that old, and all together are not too large.", err=True)
    files, left = "kept", list[str]()
    for number, (tenant, victims) in enumerate(chosen.items(), 1):
        if not dry_run:
            # What several tenants' sessions leave in the files is cleaned once, behind the last of them.
            erased = _forget_victims(config, tenant, victims, quick=quick or number < len(chosen))
            files, left = erased.files, left + erased.archives_left
    told = [(tenant, victim) for tenant, victims in chosen.items() for victim in victims]
    if as_json:
        names = {"id": "candidate.session", "stored_bytes": "candidate.stored_bytes"}
        rows = [{"tenant": tenant, **members(victim, "reason", **names)} for tenant, victim in told]
        print_json({"dry_run": dry_run, "files": files, "archives_left": left, "sessions": rows})
        return
    for tenant, victim in told:
        last = local_time(victim.candidate.last_active_at)
        verb = "would be forgotten" if dry_run else "forgotten"
        whose = f" of tenant {tenant}" if tenant != config.tenant else ""
        say(f"session {victim.candidate.session}{whose}, last active {last}: {verb}, {victim.reason}")
    _print_archives(left)
    print_files(files)


def _choose(config: Config, limit: Limit) -> Sequence[Victim]:
    """The sessions of a tenant that its limit does not leave room for."""
    return with_log(
        attrs.evolve(config, tenant=limit.tenant),
        lambda storage: choose_old(storage, now=_now(), days=limit.days, stored_bytes=limit.stored_bytes),
    )


def _forget_victims(config: Config, tenant: str, victims: Sequence[Victim], *, quick: bool) -> _Erased:
    streams = [victim.candidate.session for victim in victims]
    of_tenant = attrs.evolve(config, tenant=tenant)
    return with_log(of_tenant, lambda storage: _forget(storage, streams, quick=quick))

"""``mnemosyne upgrade-database``: migrate the log to another major version of PostgreSQL."""

import tempfile
from pathlib import Path

import attrs
import click
import trio

from mnemosyne.adapters.embedded.upgrading import Upgraded, upgrade
from mnemosyne.app.upgrading import Carried, carry_log
from mnemosyne.cli.backup import backup_progress, contents_text
from mnemosyne.cli.log_access import json_option, log_of
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import plural


@click.command()
@click.option(
    "--to-dsn", metavar="DSN", help="An empty database of the new PostgreSQL, if you use a database of your own."
)
@log_options()
@json_option
def upgrade_database(to_dsn: str | None, as_json: bool, **options: object) -> None:
    """Migrate the log to a newer major version of PostgreSQL, and check every turn there. Stop the servers first.

    \b
      mnemosyne upgrade-database
      mnemosyne upgrade-database --to-dsn postgresql://new/log

    The embedded database is replaced by one of the newest version in this installation; its old files stay in
    postgres.old-VERSION. With a database of your own (dsn), pass an empty one of the new PostgreSQL, and set dsn to it
    afterwards. If the migration fails, the old database is unchanged.
    """
    config = log_of(options)
    if (config.dsn is None) != (to_dsn is None):
        raise BadConfiguration(
            "--to-dsn is only for a database of your own (dsn)."
            if config.dsn is None
            else "Give an empty database of the new PostgreSQL with --to-dsn."
        )
    if to_dsn is not None:
        sentence = "The log is in the new database: set dsn to it. The old one is unchanged."
        _print_result(_carry(config, to_dsn), {"kept": None}, sentence, as_json)
        return
    upgraded, checked = _upgrade(config)
    if upgraded is not None and checked is not None:
        versions = {"before": upgraded.before, "after": upgraded.after, "kept": str(upgraded.kept)}
        sentence = (
            f"The database was migrated from PostgreSQL {upgraded.before} to {upgraded.after}."
            f" The old files are in {upgraded.kept}; remove them when you like."
        )
        _print_result(checked, versions, sentence, as_json)
    elif as_json:
        print_json({"before": None, "after": None})
    else:
        say("The database already has the newest version in this installation; nothing was changed.")


def _carry(config: Config, target: str) -> Carried:

    async def run() -> Carried:
        with tempfile.TemporaryDirectory(prefix="mnemosyne-") as folder, backup_progress("migrate") as progress:
            return await carry_log(config, target, Path(folder), now_us(), progress, progress_bar)

    return trio.run(run)


def _upgrade(config: Config) -> tuple[Upgraded | None, Carried | None]:
    carried: list[Carried] = []

    async def carry(old: str, new: str, folder: Path) -> None:
        with backup_progress("migrate") as progress:
            source = attrs.evolve(config, dsn=old)
            carried.append(await carry_log(source, new, folder, now_us(), progress, progress_bar))

    done = trio.run(upgrade, config.data_dir, carry)
    return done, carried[0] if carried else None


def _print_result(carried: Carried, more: dict[str, object], sentence: str, as_json: bool) -> None:
    turns = sum(session.turns for session in carried.sessions)
    if as_json:
        counts = {"events": carried.held.events, "contents": carried.held.contents}
        print_json({**more, **counts, "sessions": len(carried.sessions), "turns": turns})
        return
    say(f"{contents_text(carried.held)} migrated.")
    say(f"{plural(turns, 'turn')} of {plural(len(carried.sessions), 'session')} checked: all as they were recorded.")
    say(sentence)

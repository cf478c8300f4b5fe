"""``mnemosyne upgrade-database``: the log under another major version of PostgreSQL, in one step."""

import tempfile
from pathlib import Path

import attrs
import click
import trio

from mnemosyne.adapters.embedded.upgrading import Upgraded, upgrade
from mnemosyne.app.upgrading import Carried, carry_log
from mnemosyne.cli.backup import backup_progress, contents_text
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.reading import json_option, log_of
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import plural


@click.command()
@click.option("--to-dsn", metavar="DSN", help="An empty database of the new PostgreSQL, where the old one is your own.")
@log_options()
@json_option
def upgrade_database(to_dsn: str | None, as_json: bool, **options: object) -> None:
    """Carry the log to a newer major version of PostgreSQL, and check every turn there.

    The embedded database is replaced by one of the newest version that this installation brings; its old files stay
    beside it, in postgres.old-VERSION, until you remove them. With a database of your own (`dsn`), start the new
    PostgreSQL beside it and name an empty database of it with --to-dsn; then set `dsn` to that.

    End the servers first. What goes wrong, or ends it, leaves the old database as it is. Read models and the index are
    made anew by the next server.
    """
    config = log_of(options)
    if (config.dsn is None) != (to_dsn is None):
        raise BadConfiguration(
            "--to-dsn names the new database for one of your own (dsn)."
            if config.dsn is None
            else "Name an empty database of the new PostgreSQL with --to-dsn."
        )
    if to_dsn is not None:
        carried = _carry(config, to_dsn)
        _tell(
            carried,
            {"kept": None},
            "The log is in the new database: set dsn to it. The old one stays as it is.",
            as_json,
        )
        return
    upgraded, found = _upgrade(config)
    if upgraded is None or found is None:
        if as_json:
            print_json({"before": None, "after": None})
        else:
            say("The database is of the newest version that this installation brings; nothing was done.")
        return
    told = {"before": upgraded.before, "after": upgraded.after, "kept": str(upgraded.kept)}
    sentence = (
        f"PostgreSQL {upgraded.after} serves it now, {upgraded.before} did before."
        f" The old files are in {upgraded.kept}; remove them when you like."
    )
    _tell(found, told, sentence, as_json)


def _carry(config: Config, target: str) -> Carried:

    async def run() -> Carried:
        with tempfile.TemporaryDirectory(prefix="mnemosyne-") as folder, backup_progress("carry") as progress:
            return await carry_log(config, target, Path(folder), now_us(), progress, progress_bar)

    return trio.run(run)


def _upgrade(config: Config) -> tuple[Upgraded | None, Carried | None]:
    carried: list[Carried] = []

    async def carry(old: str, new: str, folder: Path) -> None:
        with backup_progress("carry") as progress:
            source = attrs.evolve(config, dsn=old)
            carried.append(await carry_log(source, new, folder, now_us(), progress, progress_bar))

    done = trio.run(upgrade, config.data_dir, carry)
    return done, carried[0] if carried else None


def _tell(carried: Carried, more: dict[str, object], sentence: str, as_json: bool) -> None:
    turns = sum(each.turns for each in carried.sessions)
    if as_json:
        held = {"events": carried.held.events, "contents": carried.held.contents}
        print_json({**more, **held, "sessions": len(carried.sessions), "turns": turns})
        return
    say(f"{contents_text(carried.held)} carried.")
    say(f"{plural(turns, 'turn')} of {plural(len(carried.sessions), 'session')} checked: all as they were recorded.")
    say(sentence)

"""Shared code of the commands that read the log: arguments, and opening it."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import trio

from mnemosyne.adapters.embedded.cluster import Cluster
from mnemosyne.app.process import now
from mnemosyne.app.storage import Storage, open_storage
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.settings import configuration
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration, BadOption, NotFound, alone
from mnemosyne.times import FIRST, parse_time

if TYPE_CHECKING:
    from mnemosyne.app.read_models import OpenReadModels

Result = TypeVar("Result")


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
session_argument = click.argument("session", metavar="SESSION")
branch_option = click.option("--branch", default="main", show_default=True, metavar="BRANCH", help="The branch.")


class _TurnName(click.ParamType[int | str]):
    """The number of a turn, or the name of a checkpoint."""

    name = "turn"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return click.IntRange(1).convert(value, param, ctx) if value[:1].isdecimal() else str(value)


def turn_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option ``--turn``; ``default`` is what it means if it is not given."""
    text = f"Number of a turn, or name of a checkpoint.  [default: {default}]"
    return click.option("--turn", type=_TurnName(), metavar="TURN", help=text)


project_option = click.option(
    "--project",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="DIR",
    help="A folder of the project.  [default: this one]",
)


class NothingRecorded(NotFound):
    """There is no log."""


def prints(
    data: Callable[[Any], object],
    show: Callable[[Any], None],
    *,
    empty: object = None,
    fails: Callable[[Any], bool] = lambda value: False,
) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Add --json to a command, and print what the command returns: as JSON made by ``data``, or by ``show``. The exit
    code is 1 if ``fails``. A command with ``empty`` works without a log: that is its JSON, or a sentence on stderr.
    """

    def decorate(command: Callable[..., object]) -> Callable[..., None]:
        @json_option
        @wraps(command)
        def run(as_json: bool, **options: object) -> None:
            try:
                value = command(**options)
            except NothingRecorded as error:
                if empty is None:
                    raise
                if as_json:
                    print_json(empty)
                else:
                    say(str(error), err=True)
                return
            if as_json:
                print_json(data(value))
            else:
                show(value)
            if fails(value):
                click.get_current_context().exit(1)

        return run

    return decorate


def log_of(options: dict[str, Any]) -> Config:
    """The settings of a command that needs an existing log. Raises NothingRecorded if there is none."""
    config = configuration(options)
    if not has_log(config):
        raise NothingRecorded(render_emptiness(config))
    return config


def render_emptiness(config: Config) -> str:
    """The message for a missing or empty log."""
    place, option = ("this database", "--dsn") if config.dsn is not None else (config.data_dir, "--data-dir")
    return f"Nothing has been recorded in {place} yet. Use {option} for another place, --tenant for another tenant."


def has_log(config: Config) -> bool:
    """Whether the database exists, without creating it. Raises BadConfiguration if the data directory is a file."""
    if config.dsn is None and config.data_dir.exists() and not config.data_dir.is_dir():
        raise BadConfiguration(f"The data directory {config.data_dir} is a file. Name another with --data-dir.")
    return config.dsn is not None or Cluster.at(config.data_dir).is_made


def with_log(config: Config, work: Callable[[Storage], Awaitable[Result]]) -> Result:
    """Open the log, do the work, close it. Exceptions of ``work`` are raised unwrapped."""

    async def run() -> Result:
        async with open_storage(config) as storage:
            return await work(storage)

    try:
        return trio.run(run)
    except ExceptionGroup as group:
        raise alone(group) from None


def with_read_models(config: Config, work: "Callable[[OpenReadModels], Awaitable[Result]]") -> Result:
    """Open the log with its read models, do the work, close it."""
    from mnemosyne.app.read_models import open_read_models  # imported late to keep hooks and status lines fast

    async def run() -> Result:
        async with open_read_models(config, partial(say, err=True), progress_bar) as models:
            return await work(models)

    return trio.run(run)


def time_of(text: str | None, option: str = "--since", *, is_end: bool = False) -> int:
    """The time that an option gives, in µs of UTC; 0 for None. Raises BadParameter."""
    try:
        return FIRST if text is None else parse_time(text, now(), is_end=is_end)
    except BadOption as error:
        raise click.BadParameter(str(error), param_hint=option) from None

"""Shared code of the commands that read the log: arguments, and opening it."""

import re
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click
import trio

from mnemosyne.adapters.embedded.cluster import Cluster
from mnemosyne.app.storage import Storage, open_storage
from mnemosyne.cli.printing import progress_bar, say
from mnemosyne.cli.settings import configuration
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration, NotFound, alone

if TYPE_CHECKING:
    from mnemosyne.app.read_models import OpenReadModels

Result = TypeVar("Result")


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
session_argument = click.argument("session", metavar="SESSION")
branch_option = click.option("--branch", default="main", show_default=True, metavar="BRANCH", help="The branch.")


def log_of(options: dict[str, object]) -> Config:
    """The settings of a command that needs an existing log. Raises NotFound if nothing was ever recorded."""
    config = configuration(options)
    require_log(config)
    return config


def require_log(config: Config) -> None:
    """Raises NotFound if nothing was ever recorded."""
    if not has_log(config):
        raise NotFound(render_emptiness(config))


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


_HOUR = 3600 * 10**6
_UNITS = {"h": _HOUR, "d": 24 * _HOUR, "w": 7 * 24 * _HOUR}
"""In µs."""


def start_of(text: str | None) -> int:
    """A start time in µs of UTC; 0 for None. Raises BadParameter."""
    if text is None:
        return 0
    if ago := re.fullmatch(r"(\d{1,5})([hdw])", text):
        return time.time_ns() // 1000 - int(ago[1]) * _UNITS[ago[2]]
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1e6)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is not a time; give a date such as 2026-11-21, or 12h, 7d, 2w.", param_hint="--since"
        ) from None

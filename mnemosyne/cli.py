"""The command line."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import trio

from mnemosyne import __version__
from mnemosyne.config import SETTINGS, Config, load
from mnemosyne.errors import MnemosyneError

F = TypeVar("F", bound=Callable[..., object])


class Commands(click.Group):
    """Turns errors raised on purpose into one sentence on stderr and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MnemosyneError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mnemosyne")
def main() -> None:
    """Manage a coding agent's context window the way an operating system manages memory."""


def setting_options(*names: str) -> Callable[[F], F]:
    """Add a command-line option for each named setting, and --config."""

    def decorate(command: F) -> F:
        command = click.option(
            "--config", "config_file", type=click.Path(path_type=Path), help="A TOML file with settings."
        )(command)
        for setting in reversed([setting for setting in SETTINGS if setting.name in names]):
            default = "" if setting.default is None else f"  [default: {setting.default}]"
            command = click.option(setting.option, setting.name, help=setting.meaning + default)(command)
        return command

    return decorate


def configuration(options: dict[str, object]) -> Config:
    """The settings in force for a command's options."""
    file = options.pop("config_file", None)
    return load(options, os.environ, config_file=file if isinstance(file, Path) else None)


@main.command()
@setting_options("host", "port", "upstream", "data_dir", "dsn", "allow_remote", "log_level")
def serve(**options: object) -> None:
    """Run the proxy.

    Point your agent at it with the line that it prints, or let `mnemosyne run -- claude` do that for you.
    """
    from mnemosyne.bootstrap import run_server, start_logging

    config = configuration(options)
    start_logging(config.log_level)
    trio.run(run_server, config, _announce)


def _announce(url: str) -> None:
    click.echo(f"mnemosyne listening on {url}")
    sys.stdout.flush()
    click.echo(f"Point your agent at it:  export ANTHROPIC_BASE_URL={url}", err=True)

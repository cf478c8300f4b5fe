"""Settings as options: every command that needs them takes all of them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from mnemosyne.cli.printing import say
from mnemosyne.config import SETTINGS, Config, Setting, load, models_path

F = TypeVar("F", bound=Callable[..., object])

CONFIG_HELP = "A TOML file with settings.  [default: config.toml in the data directory, if there is one]"


def setting_options(command: F) -> F:
    """Give a command an option for each setting, and --config."""
    file = click.Path(path_type=Path)
    command = click.option("--config", "config_file", type=file, metavar="FILE", help=CONFIG_HELP)(command)
    for setting in reversed(SETTINGS):
        command = _option(setting)(command)
    return command


def _option(setting: Setting) -> Callable[[F], F]:
    help_text = f"{setting.meaning}  [default: {setting.default_text}]"
    if setting.is_switch:
        names = f"{setting.option}/--no-{setting.option.removeprefix('--')}"
        return click.option(names, setting.name, default=None, help=help_text)
    return click.option(setting.option, setting.name, metavar=setting.placeholder, type=_type(setting), help=help_text)


def _type(setting: Setting) -> click.Path | None:
    """What a shell completes; the value itself is judged by ``config``, like one from anywhere else."""
    return {"DIR": click.Path(file_okay=False), "FILE": click.Path(dir_okay=False)}.get(setting.placeholder)


manage_option = click.option("--manage", is_flag=True, help="Short for --mode manage.")


def read_settings(options: dict[str, object], *, manage: bool = False) -> Config:
    """The settings in force for a command's options, as for ``configuration``; nothing is decided with them yet."""
    file = options.get("config_file")
    given = {**options, "mode": "manage"} if manage else options
    return load(given, os.environ, config_file=file if isinstance(file, Path) else None)


def configuration(options: dict[str, object], *, manage: bool = False, warns: bool = True) -> Config:
    """The settings in force for a command's options; ``manage`` is that of ``manage_option``. From here on the process
    knows the models of the user's file, if there is one. Removed settings in the file are reported on stderr, unless
    ``warns`` is False.
    """
    config = read_settings(options, manage=manage)
    if config.warning is not None and warns:
        say(f"Warning: {config.warning}", err=True)
    path = models_path(config)
    if path is not None:
        from mnemosyne.app.models_file import use_models

        use_models(path)
    return config

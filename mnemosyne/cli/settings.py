"""Settings as options of commands."""

import os
from collections.abc import Callable, Sequence, Set
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.exceptions import Exit

from mnemosyne.cli.group import RareOption, help_all_option
from mnemosyne.cli.printing import say
from mnemosyne.config import SETTINGS, Config, Setting, databases_of, load, models_path, plain
from mnemosyne.errors import Ambiguous, MnemosyneError, NotFound

F = TypeVar("F", bound=Callable[..., object])

CONFIG_HELP = "A TOML file with settings.  [default: config.toml in the data directory, if there is one]"


LOG = ("data_dir", "dsn", "tenant")
"""The settings that locate the log."""


def setting_options(*shown: str) -> Callable[[F], F]:
    """Add an option for each setting, and --config, to a command. --help shows those in ``shown``."""
    return _options(SETTINGS, shown, "the server's options")


def log_options(*more: str, of_first_shard: bool = False) -> Callable[[F], F]:
    """Add the settings that locate the log, the settings named in ``more``, and --config to a command. --help shows
    those in ``more``. The command runs on each shard, unless it is ``of_first_shard`` or ``dsn`` is an option.
    """
    settings = [setting for setting in SETTINGS if setting.name in (*LOG, *more)]
    add = _options(settings, more, "the options that locate the log")

    def decorate(command: F) -> F:
        names = {"config_file", *(setting.name for setting in settings)}
        return add(command if of_first_shard else cast("F", _on_each_shard(command, names)))

    return decorate


def _on_each_shard(command: Callable[..., object], names: Set[str]) -> Callable[..., object]:
    """Run a command, whose settings are the options ``names``, on each shard, or only on those with the sessions
    that it names. A shard that fails is reported, and does not keep the command from the others.
    """

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> object:
        settings = {name: value for name, value in options.items() if name in names}
        config = read_settings(settings)
        if config.sources["dsn"].startswith("option") or not config.shards or options.get("queries") is not None:
            return command(*arguments, **options)  # the queries of `mnemosyne search --file` need no log
        session = options.get("session") or options.get("from_log")
        if options.get("question", "") is None:
            session = None  # `mnemosyne search QUESTION`
        if session is not None:
            return command(*arguments, **{**options, "dsn": _holder_of(session, settings, config)})
        parts: dict[str, dict[str, Any]] = {dsn: {} for dsn in databases_of(config)}
        if wanted := options.get("sessions"):
            holders = {each: _holder_of(each, settings, config) for each in wanted}
            parts = {dsn: {"sessions": [w for w in wanted if holders[w] == dsn]} for dsn in holders.values()}
        absent: list[NotFound] = []
        failed = False
        for dsn, part in parts.items():
            try:
                command(*arguments, **{**options, **part, "dsn": dsn})
            except MnemosyneError as error:
                if isinstance(error, NotFound) and not wanted:
                    absent.append(error)
                    continue
                failed = True
                say(f"{plain(dsn)}: {error}", err=True)
            except Exit as end:
                failed = failed or end.exit_code != 0
        if len(absent) == len(parts):
            raise absent[0]
        return click.get_current_context().exit(1) if failed else None

    return run


def _holder_of(session: str, settings: dict[str, Any], config: Config) -> str:
    """The DSN of the one shard that has a session. Failing shards are reported, and could hold another session with
    the same beginning of an id. Raises NotFound and Ambiguous.
    """
    absent: list[NotFound] = []
    failed: list[str] = []
    holders: dict[str, bool] = {}
    for dsn in databases_of(config):
        try:
            holders[dsn] = _is_its_name({**settings, "dsn": dsn}, session)
        except Ambiguous:
            raise
        except NotFound as error:
            absent.append(error)
        except MnemosyneError as error:
            failed.append(plain(dsn))
            say(f"{plain(dsn)}: {error}", err=True)
    found = [dsn for dsn, is_name in holders.items() if is_name] or [*holders]
    if len(found) > 1:
        raise Ambiguous(
            f"{session!r} matches sessions in {' and '.join(map(plain, found))}. Give more of the id, or --dsn."
        )
    if failed and holders and not any(holders.values()):
        raise Ambiguous(f"{session!r} may match a session in {' and '.join(failed)}, too. Give the whole id, or --dsn.")
    if len(absent) == len(databases_of(config)):
        raise absent[0]
    return found[0] if found else click.get_current_context().exit(1)


def _is_its_name(options: dict[str, Any], wanted: str) -> bool:
    """Whether it is the id or the client's name, and not only a beginning, of the one session in the log that a person
    means. Raises NotFound.
    """
    from mnemosyne.cli.log_access import log_of, with_log  # imported late, as the latter imports this module
    from mnemosyne.domain.session.directory import stream_of
    from mnemosyne.services.sessions import find

    config = log_of(options)
    stream = with_log(config, lambda storage: find(storage, wanted))
    return stream == stream_of(config.tenant, wanted) or str(stream) == wanted.lower()


def _options(settings: Sequence[Setting], shown: Sequence[str], what: str) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        command = help_all_option(what)(command)
        file = click.Path(path_type=Path)
        add_file = click.option("--config", "config_file", cls=RareOption, type=file, metavar="FILE", help=CONFIG_HELP)
        command = add_file(command)
        for setting in reversed(settings):
            text = f"{setting.meaning}  [default: {setting.default_text}]"
            negation = f"/--no-{setting.option.removeprefix('--')}" if setting.is_switch else ""
            metavar = None if setting.is_switch else setting.kind.placeholder
            # The type is for shell completion only; ``config`` validates the values from all sources.
            path = _PATHS.get(setting.kind.placeholder)
            names = (setting.option + negation, setting.name)
            kind = click.Option if setting.name in shown else RareOption
            command = click.option(*names, cls=kind, metavar=metavar, type=path, default=None, help=text)(command)
        return command

    return decorate


_PATHS = {"DIR": click.Path(file_okay=False), "FILE": click.Path(dir_okay=False)}

manage_option = click.option("--manage", is_flag=True, help="Short for --mode manage.")


def read_settings(options: dict[str, object], *, manage: bool = False) -> Config:
    """The effective settings for a command's options, like ``configuration``, but without side effects."""
    file = options.get("config_file")
    given = {**options, "mode": "manage"} if manage else options
    return load(given, os.environ, config_file=file if isinstance(file, Path) else None)


def configuration(options: dict[str, object], *, manage: bool = False, warns: bool = True) -> Config:
    """The effective settings for a command's options; ``manage`` is the value of ``manage_option``. Loads the user's
    models file, if there is one. Reports removed settings in the file on stderr, unless ``warns`` is False.
    """
    config = read_settings(options, manage=manage)
    if config.warning is not None and warns:
        say(f"Warning: {config.warning}", err=True)
    path = models_path(config)
    if path is not None:
        from mnemosyne.app.settings import use_models

        use_models(path)
    return config

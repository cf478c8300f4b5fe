"""``mnemosyne config``: show every setting with its value and source; change the settings file and the models file
without changing comments and other values.
"""

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import click
import tomlkit

from mnemosyne.cli.group import Commands
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.settings import CONFIG_HELP, configuration, setting_options
from mnemosyne.config import (
    MODELS_NAME,
    SETTINGS,
    Config,
    Setting,
    explain_removal,
    find_file,
    load_text,
    models_path,
    parse_file,
    plain,
    render,
)
from mnemosyne.credentials import digest
from mnemosyne.data_dir import prepare_data_dir
from mnemosyne.domain.cost.catalogue import catalogue_of, load_shipped, overlay, read_tables
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.setting_values import parse_tenant

F = TypeVar("F", bound=Callable[..., object])


@click.group(cls=Commands, invoke_without_command=True)
@setting_options()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
@click.pass_context
def config(ctx: click.Context, /, as_json: bool, **options: object) -> None:
    """Show every setting: its value, the source of the value, and how to change it.

    \b
      mnemosyne config
      mnemosyne config set manage_window 120000

    Options override environment variables, which override the settings file.
    """
    ctx.obj = options
    if ctx.invoked_subcommand is not None:
        return
    settings = configuration(options)
    rows = [_row(setting, settings) for setting in SETTINGS]
    if as_json:
        print_json(rows)
        return
    say(f"# file: {settings.file or 'none'}")
    for row in rows:
        value = row["default_text"] if row["value"] is None else row["value"]
        say()
        say(f"{row['name']} = {plain(value)}  ({row['source']})")
        say(f"    {row['meaning']}")
        say(f"    {row['option']}, {row['variable']}, or {row['toml_key']} in the file; default: {row['default_text']}")


def _row(setting: Setting, settings: Config) -> dict[str, object]:
    value = getattr(settings, setting.name)
    return {
        "name": setting.name,
        "value": value if value is None or isinstance(value, bool | int) else plain(value),
        "source": settings.sources[setting.name],
        "meaning": setting.meaning,
        "default": setting.default,
        "default_text": setting.default_text,
        "toml_key": setting.name,
        "variable": setting.variable,
        "option": setting.option,
    }


def file_options(command: F) -> F:
    """Add the options that select the settings file to a command."""
    command = click.option("--data-dir", metavar="DIR", help="The data directory that contains the file.")(command)
    file = click.Path(path_type=Path)
    return click.option("--config", "config_file", type=file, metavar="FILE", help=CONFIG_HELP)(command)


@config.command(name="set")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY VALUE [KEY VALUE]...")
@file_options
@click.pass_obj
def set_command(outer: Mapping[str, object], /, pairs: tuple[str, ...], **options: object) -> None:
    """Change settings in the settings file, or create the file with them.

    \b
      mnemosyne config set port 8800
      mnemosyne config set helper openai helper_model qwen3:4b \\
        helper_url http://127.0.0.1:11434/v1

    Invalid values are not written; everything else in the file stays. Relative paths are resolved against the current
    directory.
    """
    if len(pairs) % 2:
        raise click.UsageError(f"The last KEY, {pairs[-1]!r}, has no VALUE.")
    values = {
        key.replace("-", "_"): parse_value(key, value) for key, value in zip(pairs[::2], pairs[1::2], strict=True)
    }
    settings, file = _change(_join(outer, options), values)
    for name, meant in values.items():
        say(f"{name} = {plain(meant)} was written to {file}; it applies to servers started from now on.")
        if not settings.sources[name].startswith("file"):
            say(f"Another value is in force here: {settings.sources[name]} overrides the file.", err=True)


@config.command(name="unset")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@file_options
@click.pass_obj
def unset_command(outer: Mapping[str, object], /, keys: tuple[str, ...], **options: object) -> None:
    """Remove settings from the settings file, so that their defaults apply.

    \b
      mnemosyne config unset helper helper_url helper_model

    Nothing is removed if the remaining settings are invalid; everything else in the file stays.
    """
    names = [key.replace("-", "_") for key in keys]
    _, file = _change(_join(outer, options), dict.fromkeys(names))
    say(f"{', '.join(names)} removed from {file}; this applies to servers started from now on.")


def _change(given: Mapping[str, object], values: Mapping[str, object]) -> tuple[Config, Path]:
    """Write the values to the settings file; None removes a setting. Return the settings and the file."""
    file = _file_of(given)
    text = _read(file)
    for name, value in values.items():
        text = set_value(text, file, name, value)
    settings = load_text(text, file, given, os.environ)
    _write(file, text)
    return settings, file


@config.command(name="price")
@click.argument("model")
@click.argument("given", metavar="INPUT")
@click.argument("output")
@click.argument("read")
@file_options
@click.pass_obj
def price(outer: Mapping[str, object], /, model: str, given: str, output: str, read: str, **options: object) -> None:
    """Set the price of a model, in dollars per million tokens of input, output and cache reads.

    \b
      mnemosyne config price gpt-6.2-astra 10 50 1

    The price is written to your models file (docs/configuration.md).
    """
    settings = configuration(_join(outer, options))
    file = models_path(settings) or settings.data_dir / MODELS_NAME
    prepare_data_dir(settings.data_dir)
    text = set_price(_read(file), file, model, given=given, output=output, read=read)
    _write(file, text)
    say(f"The price of {model} was written to {file}; it applies to servers started from now on.")


@config.command(name="tenant-key")
@click.argument("tenant")
@click.option("--variable", metavar="NAME", help="Read the credential from this environment variable.")
def tenant_key(tenant: str, variable: str | None) -> None:
    """Print the line for the table [tenant_keys] that assigns the requests with a credential to TENANT.

    \b
      mnemosyne config tenant-key team-a --variable ANTHROPIC_API_KEY

    The credential is the value that a client sends as `x-api-key`, or after `Bearer`. It is read from standard input
    and not stored: the line contains its SHA-256.
    """
    try:
        name = parse_tenant(tenant)
    except ValueError as reason:
        raise BadOption(f"TENANT: {reason}.") from None
    credential = read_credential(variable)
    say(
        "Add this line to the table [tenant_keys] at the end of the settings file, and restart the server:",
        err=True,
    )
    say(f"{digest(credential)} = {json.dumps(name, ensure_ascii=False)}")


def read_credential(variable: str | None) -> str:
    """Read a credential from an environment variable or from standard input. Raises BadOption if it is missing."""
    if variable:
        credential = os.environ.get(variable, "").strip()
    elif sys.stdin.isatty():
        credential = str(click.prompt("Credential", hide_input=True, err=True)).strip()
    else:
        credential = sys.stdin.buffer.read(LONGEST_CREDENTIAL).decode("ascii", "replace").strip()
    if not credential.isascii() or not credential.isprintable() or " " in credential or not credential:
        where = f"The environment variable {variable}" if variable else "Standard input"
        raise BadOption(f"{where} has no credential. Give one line without spaces, as it follows `Bearer`.")
    return credential


LONGEST_CREDENTIAL = 64 * 1024
"""Bytes; longer than any header."""


def _join(outer: Mapping[str, object], inner: Mapping[str, object]) -> dict[str, object]:
    """Merge the options of the group and of its command; the command's take precedence."""
    return {**outer, **{name: value for name, value in inner.items() if value is not None}}


def _file_of(options: Mapping[str, object]) -> Path:
    """The settings file to use. Creates the data directory if the file belongs there."""
    given = options.get("config_file")
    file, is_named = find_file(options, os.environ, given if isinstance(given, Path) else None)
    if not is_named:
        prepare_data_dir(file.parent)
    return file


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadConfiguration(f"The configuration file {file} cannot be read: {reason}.") from None


def _write(file: Path, text: str) -> None:
    """Replace a private file; an existing one keeps its permissions and its owner. Raises BadConfiguration."""
    try:
        before = file.stat() if file.exists() else None
        write_private(file, text)
        if before is not None:
            file.chmod(before.st_mode & 0o777)
            with suppress(PermissionError):
                os.chown(file, before.st_uid, before.st_gid)
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be written: {error.strerror or error}.") from None


def parse_value(key: str, typed: str) -> object:
    """Parse a typed value into the value to store in the file. Relative paths are resolved against the current
    directory. Raises BadOption for an unknown or removed setting, and for an invalid value.
    """
    key = key.replace("-", "_")
    setting = next((known for known in SETTINGS if known.name == key), None)
    if removal := explain_removal(key):
        raise BadOption(f"The setting {key!r} was removed: {removal}.")
    if setting is None:
        raise BadOption(f"There is no setting {key!r}; `mnemosyne config` lists all.")
    try:
        value = setting.kind.parse(typed)
    except ValueError as reason:
        raise BadOption(f"{setting.name} = {setting.show(typed)}: {reason}.") from None
    if isinstance(value, Path):
        return str(Path.cwd() / value)
    return value if isinstance(value, bool | int | float | str) else render(value)


def set_value(text: str, file: Path, key: str, value: object) -> str:
    """The text of ``file`` with this value, or without one if None, and no other change. Raises BadConfiguration if the
    file is invalid, if the value is a table, or if there is none to remove.
    """
    before = parse_file(text, file)
    document = tomlkit.parse(text)
    if value is not None:
        document[key] = value
    elif key in before:
        del document[key]
    else:
        raise BadOption(f"{file} has no setting {key!r}.")
    changed = tomlkit.dumps(document)
    after = {**before, key: value} if value is not None else {name: before[name] for name in before if name != key}
    if isinstance(before.get(key), Mapping) or tomllib.loads(changed) != after:
        raise BadConfiguration(f"{key} cannot be changed in {file} without changing other lines: edit the file.")
    return changed


def set_price(text: str, file: Path, model: str, *, given: str, output: str, read: str) -> str:
    """The text of ``file`` with these prices of a model, in dollars per million tokens. Raises BadConfiguration if the
    file is invalid, or if a price is not a number.
    """
    before = read_tables(text, str(file))
    for price in (given, output, read):
        if not re.fullmatch(r"\d+(\.\d+)?", price):
            raise BadConfiguration(f"{price!r} is not a price: give dollars per million tokens, such as 2.50.")
    row = f"{json.dumps(model, ensure_ascii=False)} = {{ input = {given}, output = {output}, read = {read} }}"
    wanted = read_tables(f"[prices]\n{row}\n", "of this command")
    catalogue_of(overlay(load_shipped(), wanted), "of this command")
    document = tomlkit.parse(text)
    document.setdefault("prices", tomlkit.table())[model] = tomlkit.parse(f"{row}\n")[model]
    changed = tomlkit.dumps(document)
    if tomllib.loads(changed, parse_float=Decimal) != {
        **before,
        "prices": {**before.get("prices", {}), **wanted["prices"]},
    }:
        raise BadConfiguration(
            f"The price of {model} cannot be set in {file} without changing other lines: edit the file."
        )
    return changed

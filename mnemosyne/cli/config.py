"""``mnemosyne config``: every setting, its value and where that came from."""

import json

import click

from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, setting_options
from mnemosyne.config import SETTINGS, Config, Setting, plain


@click.command(short_help="Show every setting and where its value comes from.")
@setting_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
def config(as_json: bool, **options: object) -> None:
    """Show every setting: its value, where that comes from, and how to change it.

    An option is stronger than the environment, the environment than the TOML file, the file than the default. Passwords
    are masked.
    """
    settings = configuration(options)
    rows = [_row(setting, settings) for setting in SETTINGS]
    if as_json:
        say(json.dumps(rows, indent=2))
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

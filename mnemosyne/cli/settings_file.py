"""The TOML file of settings as text: a new one that explains itself, and one in which a value is changed while comments
and everything else stay.
"""

import json
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from mnemosyne.config import SETTINGS, Setting, explain_removal, parse_file, render
from mnemosyne.errors import BadConfiguration, BadOption

WIDTH = 100

HEAD = """\
# Settings of Mnemosyne. Each line that is commented out holds the default; remove the # to change it.
# An option on the command line is stronger than an environment variable, and that than this file.
# `mnemosyne config` shows the values in force; `mnemosyne config set KEY VALUE` changes one here.
"""


def write_template() -> str:
    """A file that names every setting with its meaning and its default, and sets none."""
    return HEAD + "".join(map(_explain, SETTINGS))


def _explain(setting: Setting) -> str:
    meaning = setting.meaning
    if setting.default in (None, ()):
        meaning += f" Default: {setting.unset}."
        line = f"# {setting.name} = …"
    else:
        line = f"# {setting.name} = {_literal(setting.default)}"
    comment = textwrap.fill(meaning, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return f"\n{comment}\n{line}\n"


def parse_value(key: str, typed: str) -> object:
    """The value of a setting as it was typed, as it is to stand in a file. A relative path starts from here. Raises
    BadOption for a setting that there is not, and for a value that it cannot have.
    """
    key = key.replace("-", "_")
    setting = next((each for each in SETTINGS if each.name == key), None)
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
    """The text of ``file`` with this value; nothing else of it changes. Raises BadConfiguration for a file that cannot
    be used, or in which the value does not stand in lines of its own.
    """
    before = parse_file(text, file)
    line = f"{key} = {_literal(value)}"
    lines = text.removesuffix("\n").split("\n") if text else []  # what else ends a line in Python does not in TOML
    found = _find_lines(lines, key)
    if found is None:
        place = _place_for(lines, key)
        lines[place:place] = [line]
    else:
        begin, end = found
        lines[begin:end] = [line + _comment_after(lines[begin:end])]
    changed = "\n".join(lines) + "\n"
    if _table(changed) != {**before, key: value}:
        raise BadConfiguration(f"{key} cannot be changed in {file} without touching more than it: edit the file.")
    return changed


def _literal(value: object) -> str:
    """A value as TOML. What JSON makes of a text is a basic string of TOML, too, once DEL is escaped."""
    if isinstance(value, bool | int | float):
        return render(value)
    return json.dumps(render(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _find_lines(lines: list[str], key: str) -> tuple[int, int] | None:
    """From which line to which before the value stands; None if it does not."""
    begins = re.compile(rf"""\s*(?:{key}|"{key}"|'{key}')\s*=""")
    for begin, line in enumerate(lines):
        if begins.match(line):
            for end in range(begin + 1, len(lines) + 1):
                if key in (_table("\n".join(lines[begin:end])) or {}):
                    return begin, end
    return None


def _place_for(lines: list[str], key: str) -> int:
    """Before which line a new value is to stand: behind its default in a comment, else at the end of what belongs to no
    table.
    """
    named = re.compile(rf"\s*#\s*{key}\s*=")
    tables = (number for number, line in enumerate(lines) if line.lstrip().startswith("["))
    first_table = next(tables, len(lines))
    return next((number + 1 for number, line in enumerate(lines[:first_table]) if named.match(line)), first_table)


def _comment_after(lines: list[str]) -> str:
    """The comment behind a value, with the space before it."""
    *_, last = lines
    for hash_ in (match.start() for match in re.finditer("#", last)):
        whole = "\n".join([*lines[:-1], last[:hash_]])
        if _table(whole) is not None:
            return f"  {last[hash_:]}"
    return ""

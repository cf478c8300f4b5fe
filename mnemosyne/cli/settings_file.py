"""Edit the text of the settings file and of the models file without changing comments and other values."""

import json
import re
import tomllib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from mnemosyne.config import SETTINGS, explain_removal, parse_file, render
from mnemosyne.domain.cost.catalogue import catalogue_of, load_shipped, overlay, read_tables
from mnemosyne.errors import BadConfiguration, BadOption


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
    """The text of ``file`` with this value and no other change. Raises BadConfiguration if the file is invalid, or if
    the value does not have a line of its own.
    """
    before = parse_file(text, file)
    changed = _set_line(_split(text), key, f"{key} = {_literal(value)}", _place_for)
    if _table(changed) != {**before, key: value}:
        raise BadConfiguration(f"{key} cannot be changed in {file} without changing other lines: edit the file.")
    return changed


def set_price(text: str, file: Path, model: str, *, given: str, output: str, read: str) -> str:
    """The text of ``file`` with these prices of a model, in dollars per million tokens. Raises BadConfiguration if the
    file is invalid, or if a price is not a number.
    """
    before = read_tables(text, str(file))
    key = json.dumps(model, ensure_ascii=False)
    line = f"{key} = {{ input = {given}, output = {output}, read = {read} }}"
    wanted = read_tables(f"[prices]\n{line}\n", "of this command")
    catalogue_of(overlay(load_shipped(), wanted), "of this command")
    lines = _split(text)
    if not any(map(_PRICES.fullmatch, lines)):
        lines.append("[prices]")
    changed = _set_line(lines, model, line, _place_in_prices)
    if _table(changed, parse_float=Decimal) != {**before, "prices": {**before.get("prices", {}), **wanted["prices"]}}:
        raise BadConfiguration(
            f"The price of {model} cannot be set in {file} without changing other lines: edit the file."
        )
    return changed


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []  # splitlines splits at more characters than TOML


def _set_line(lines: list[str], key: str, line: str, place: Callable[[list[str], str], int]) -> str:
    """Replace the value of a key and keep the comment after it, or insert a new line at its place."""
    named = re.compile(rf"""\s*(["']?){re.escape(key)}\1\s*=""")
    begin = next((number for number, old in enumerate(lines) if named.match(old)), None)
    if begin is None:
        lines.insert(place(lines, key), line)
    else:
        spans = ("\n".join(lines[begin:end]) for end in range(begin + 1, len(lines) + 1))
        old = next((span for span in spans if _table(span) is not None), lines[begin])
        lines[begin : begin + old.count("\n") + 1] = [line + _comment_after(old)]
    return "\n".join(lines) + "\n"


def _literal(value: object) -> str:
    """A value as TOML. A JSON string is also a basic string of TOML once DEL is escaped."""
    if isinstance(value, bool | int | float):
        return render(value)
    return json.dumps(render(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except (ValueError, RecursionError):
        return None


def _place_for(lines: list[str], key: str) -> int:
    """The index of a new value: before the first table, which would contain it otherwise."""
    return next((number for number, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))


def _comment_after(old: str) -> str:
    """The comment after a value, with two blanks before it."""
    hashes = (match.start() for match in re.finditer("#", old))
    return next((f"  {old[start:]}" for start in hashes if _table(old[:start]) is not None), "")


_PRICES = re.compile(r"\s*\[\s*prices\s*\]\s*(?:#.*)?")


def _place_in_prices(lines: list[str], key: str) -> int:
    return 1 + next(number for number, line in enumerate(lines) if _PRICES.fullmatch(line))

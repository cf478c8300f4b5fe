"""Set the price of a model in the text of the user's models file, without changing anything else."""

import json
import re
from pathlib import Path

from mnemosyne.domain.cost.catalogue import catalogue_of, load_shipped, overlay, read_tables
from mnemosyne.errors import BadConfiguration

_TABLE = re.compile(r"\s*\[\s*prices\s*\]\s*(?:#.*)?")


def set_price(text: str, file: Path, model: str, *, given: str, output: str, read: str) -> str:
    """The text of ``file`` with these prices of a model, in dollars per million tokens. Raises BadConfiguration if the
    file is invalid, or if a price is not a number.
    """
    before = read_tables(text, str(file))
    values = f"{{ input = {given}, output = {output}, read = {read} }}"
    key = json.dumps(model, ensure_ascii=False)
    wanted = read_tables(f"[prices]\n{key} = {values}\n", "of this command")
    catalogue_of(overlay(load_shipped(), wanted), "of this command")
    lines = text.splitlines()
    if model in before.get("prices", {}):
        row = re.compile(rf"\s*(?:{re.escape(key)}|{re.escape(model)})\s*=")
        lines = [line for line in lines if not row.match(line)]
    place = next((number for number, line in enumerate(lines) if _TABLE.fullmatch(line)), None)
    if place is None:
        lines += ["[prices]"]
        place = len(lines) - 1
    changed = "\n".join([*lines[: place + 1], f"{key} = {values}", *lines[place + 1 :]]) + "\n"
    expected = {**before, "prices": {**before.get("prices", {}), **wanted["prices"]}}
    try:
        is_right = read_tables(changed, str(file)) == expected
    except BadConfiguration:
        is_right = False
    if not is_right:
        raise BadConfiguration(
            f"The price of {model} cannot be set in {file} without changing other lines: edit the file."
        )
    return changed

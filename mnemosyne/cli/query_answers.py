"""How the answer to a query in SQL looks on a terminal, and in JSON."""

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from mnemosyne.adapters.postgres.sql_views import QueryAnswer
from mnemosyne.cli.printing import print_table
from mnemosyne.errors import BadOption


def print_answer(found: QueryAnswer) -> None:
    """Print the table that a query gave; columns of numbers stand to the right."""
    numbers = [
        name
        for number, name in enumerate(found.columns)
        if all(isinstance(row[number], int | float | Decimal | None) for row in found.rows)
    ]
    print_table(found.columns, [tuple(map(_cell_text, row)) for row in found.rows], right=numbers)


def answer_as_json(found: QueryAnswer) -> list[dict[str, Any]]:
    """The rows as objects. Raises BadOption where two columns have one name."""
    if len(set(found.columns)) < len(found.columns):
        raise BadOption("Two columns of the query have one name; JSON needs a name for each: select … as NAME.")
    return [dict(zip(found.columns, map(_json_value, row), strict=True)) for row in found.rows]


def _cell_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return " ".join(str(value).split("\n"))


def _json_value(value: Any) -> Any:
    if isinstance(value, Decimal | float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return list(map(_json_value, value))
    if isinstance(value, dict | str | int | None):
        return value
    return str(value)

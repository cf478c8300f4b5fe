"""``mnemosyne sql`` and ``mnemosyne sql-reader``: query the SQL views, and grant others access to them."""

import json
import math
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import click

from mnemosyne.adapters.postgres.sql_views import QueryAnswer, admit_reader, ask_views
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.log_access import log_of, prints, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.figures import plural
from mnemosyne.projections.catalog import ALL


@click.command("sql-reader")
@click.argument("role", metavar="ROLE")
@log_options()
def sql_reader(role: str, **options: object) -> None:
    """Grant ROLE read access to the views of `mnemosyne sql` for one tenant, and to nothing else, with any PostgreSQL
    client.

    \b
      mnemosyne sql-reader analyst --dsn postgresql://host/log

    Run it again to switch the role to another tenant. A missing role is created with login and without a password. It
    needs a database server of your own (--dsn).
    """
    config = log_of(options)
    if config.dsn is None:
        raise BadConfiguration("Only its owner can connect to the embedded database: use `mnemosyne sql`, or --dsn.")
    made = with_read_models(config, lambda models: admit_reader(models.database, role, config.tenant))
    say(f"{role} can read the views of tenant {config.tenant}, in the schema mnemosyne_views.")
    if made:
        say(f"The role is new and has no password; set one with \\password {role} in psql.")


def print_answer(found: QueryAnswer) -> None:
    """Print the result of a query as a table, with numbers aligned right; the number of rows on stderr."""
    numbers = [
        name
        for number, name in enumerate(found.columns)
        if all(isinstance(row[number], int | float | Decimal | None) for row in found.rows)
    ]
    print_table(found.columns, [tuple(map(_cell_text, row)) for row in found.rows], right=numbers)
    say(plural(len(found.rows), "row"), err=True)


def answer_as_json(found: QueryAnswer) -> list[dict[str, Any]]:
    """The rows as JSON objects. Raises BadOption if two columns have the same name."""
    if len(set(found.columns)) < len(found.columns):
        raise BadOption("Two columns of the query have the same name; give each its own with: select … as NAME.")
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


_LIST = """select table_name as view, string_agg(column_name, ', ' order by ordinal_position) as columns
from information_schema.columns where table_schema = 'mnemosyne_views' group by 1 order by 1"""


@click.command()
@click.argument("query", default=_LIST, metavar="[QUERY]")
@click.option(
    "--seconds",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="Time limit of the query.",
)
@log_options()
@prints(answer_as_json, print_answer)
def sql(query: str, seconds: float, **options: Any) -> QueryAnswer:
    """Print the result of a PostgreSQL query over the log. QUERY is one statement; `-` reads it from stdin. Without
    QUERY, list the views and their columns.

    \b
      mnemosyne sql                 list the views
      mnemosyne sql "select branch, count(*) from turns group by 1"
      mnemosyne sql "select * from turns where duration_ms > 60000" --json

    docs/sql.md documents the views. The query can read only the views of one tenant. Times are UTC.
    """
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise click.UsageError("QUERY is empty.")
    config = log_of(options)

    async def ask(models: OpenReadModels) -> QueryAnswer:
        await models.refresh(ALL)
        ours_alone = config.dsn is None
        return await ask_views(models.database, text, tenant=config.tenant, seconds=seconds, ours_alone=ours_alone)

    return with_read_models(config, ask)

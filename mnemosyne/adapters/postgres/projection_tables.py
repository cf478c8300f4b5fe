"""The SQL of projections' tables. Names from ``Projection`` and ``Table`` need no quoting."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import orjson

from mnemosyne.projections.projection import Key, Projection, Row, Table, Value

SCHEMA = "mnemosyne"


def name_of(projection: Projection, table: Table, *, side: bool) -> str:
    """The name of a table without the schema."""
    return f"{projection.table_of(table)}__side" if side else projection.table_of(table)


def names(projection: Projection, *, side: bool = False) -> list[str]:
    return [name_of(projection, table, side=side) for table in projection.tables]


def create(projection: Projection, *, side: bool) -> Iterator[bytes]:
    """Create empty tables, replacing existing ones."""
    yield from drop(projection, side=side)
    for table in projection.tables:
        columns = [f"{name} {kind.value} not null" for name, kind in table.key.items()]
        columns += [f"{name} {kind.value}" for name, kind in table.columns.items()]
        body = ", ".join([*columns, f"primary key ({', '.join(table.key)})"])
        yield f"create table {SCHEMA}.{name_of(projection, table, side=side)} ({body})".encode()


def drop(projection: Projection, *, side: bool) -> Iterator[bytes]:
    for name in names(projection, side=side):
        yield f"drop table if exists {SCHEMA}.{name}".encode()


def rename(projection: Projection) -> Iterator[bytes]:
    """Give the side tables the names of the live ones."""
    for table in projection.tables:
        side, name = (name_of(projection, table, side=each) for each in (True, False))
        yield f"alter table {SCHEMA}.{side} rename to {name}".encode()
        # The next side table needs the name of the index.
        yield f"alter index {SCHEMA}.{side}_pkey rename to {name}_pkey".encode()


def lock(projections: Sequence[Projection]) -> bytes:
    """Lock the tables against a switch."""
    tables = ", ".join(f"{SCHEMA}.{name}" for projection in projections for name in names(projection))
    return f"lock table {tables} in access share mode".encode()


def merges(
    projection: Projection, table: Table, rows: Mapping[Key, Row], *, side: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Statements that merge rows, each with its rows as JSON: one for every set of columns.

    JSON is faster than arrays, which psycopg builds value by value.
    """
    shapes: dict[tuple[str, ...], list[tuple[Value, ...]]] = {}
    for key, row in rows.items():
        shapes.setdefault(tuple(row), []).append((*key, *row.values()))
    target = name_of(projection, table, side=side)
    for columns, values in shapes.items():
        names = (*table.key, *columns)
        yield _merge(target, table, columns), orjson.dumps([dict(zip(names, each, strict=True)) for each in values])


@cache
def _upsert(target: str, key: tuple[tuple[str, str], ...], columns: tuple[tuple[str, str], ...]) -> bytes:
    listed = ", ".join(name for name, _ in (*key, *columns))
    typed = ", ".join(f"{name} {kind}" for name, kind in (*key, *columns))
    updates = ", ".join(f"{name} = excluded.{name}" for name, _ in columns)
    conflict = f"({', '.join(name for name, _ in key)}) do {f'update set {updates}' if updates else 'nothing'}"
    return (
        f"insert into {SCHEMA}.{target} ({listed})"
        f" select {listed} from json_to_recordset(convert_from(%b, 'utf8')::json) as row ({typed})"
        f" on conflict {conflict}"
    ).encode()


def _merge(target: str, table: Table, columns: tuple[str, ...]) -> bytes:
    key = tuple((name, kind.value) for name, kind in table.key.items())
    return _upsert(target, key, tuple((name, table.columns[name].value) for name in columns))


FOUND = b"""
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    coalesce(a.attnum = any(i.indkey::smallint[]), false)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_index i on i.indrelid = c.oid and i.indisprimary
where n.nspname = 'mnemosyne' and c.relname = any(%s) and c.relkind = 'r'
order by c.relname, a.attnum
"""
"""The existing columns: table, column, type, and whether it is in the primary key."""


def damage(projection: Projection, found: Sequence[tuple[str, str, str, bool]]) -> str | None:
    """The difference of the tables from their description, given the rows of ``FOUND``; None if there is none."""
    by_table: dict[str, list[tuple[str, str, bool]]] = {}
    for name, column, kind, is_key in found:
        by_table.setdefault(name, []).append((column, kind, is_key))
    for table in projection.tables:
        name = projection.table_of(table)
        wanted = [(each, type_.value, each in table.key) for each, type_ in table.all_columns.items()]
        if name not in by_table:
            return f"its table {name} is missing"
        if by_table[name] != wanted:
            return f"its table {name} was changed"
    return None

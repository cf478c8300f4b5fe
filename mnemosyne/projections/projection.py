"""The definition of a projection: tables, and a pure function from a recorded event to the rows that it changes.

``changes`` reads nothing, so a projection needs no state of its own. A ``Merge`` puts columns into the row with a key,
which is created if it does not exist; other columns are unchanged, and the later event wins. Sums are computed by
queries over rows. Therefore the tables do not depend on the portions in which the log is read, and are the same in
PostgreSQL and in memory.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple
from uuid import UUID

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.knowledge.events import KnowledgeEvent
from mnemosyne.domain.ports import Recorded, UnreadableEvent

Value = UUID | str | int | bool | None
Key = tuple[Value, ...]
Row = dict[str, Value]

LARGEST = 2**63 - 1
"""The largest number that a column holds."""


LONGEST_KEY = 2_600
"""The maximum length of a key's texts together, in bytes: an index row of PostgreSQL must fit into a third of a
page.
"""


class Type(Enum):
    """The type of a column; the values are SQL's names."""

    UUID = "uuid"
    TEXT = "text"
    INTEGER = "bigint"
    BOOLEAN = "boolean"

    @property
    def python(self) -> type:
        return _PYTHON[self]


_PYTHON = {Type.UUID: UUID, Type.TEXT: str, Type.INTEGER: int, Type.BOOLEAN: bool}


@attrs.frozen(slots=False)
class Table:
    """One table: the key's columns, and the others, which may be null."""

    name: str
    key: Mapping[str, Type]
    columns: Mapping[str, Type]

    @property
    def all_columns(self) -> dict[str, Type]:
        """The key's columns and the others, in the order of the table."""
        return {**self.key, **self.columns}

    @cached_property
    def _key_types(self) -> tuple[type, ...]:
        return tuple(kind.python for kind in self.key.values())

    @cached_property
    def _shapes(self) -> "dict[_Shape, tuple[int, ...]]":
        return {}

    def check(self, merge: "Merge") -> None:
        """Refuse a merge that does not fit the table, before anything is written. Raises ValueError, KeyError."""
        if tuple(map(type, merge.key)) != self._key_types:
            raise ValueError(f"a key of {self.name} has other types")
        values = tuple(merge.columns.values())
        shape = (tuple(merge.columns), tuple(map(type, values)))
        numbers = self._shapes.get(shape)
        if numbers is None:  # there are few shapes, with thousands of rows each
            numbers = self._shapes[shape] = self._numbers(shape)
        for value in (*merge.key, *values):
            if type(value) is str and "\0" in value:
                raise ValueError(f"{self.name} cannot hold a NUL")
        if sum(len(value.encode()) for value in merge.key if type(value) is str) > LONGEST_KEY:
            raise ValueError(f"a key of {self.name} is longer than an index holds")
        for index in numbers:
            if not -LARGEST <= values[index] <= LARGEST:  # type: ignore[operator]
                raise ValueError(f"{self.name} cannot hold so large a number")

    def _numbers(self, shape: "_Shape") -> tuple[int, ...]:
        """Return the positions of numbers in rows of this shape."""
        for name, kind in zip(*shape, strict=True):
            if kind not in (self.columns[name].python, NoneType):
                raise ValueError(f"{self.name}.{name} cannot hold a value of type {kind.__name__}")
        return tuple(index for index, kind in enumerate(shape[1]) if kind is int)


_Shape = tuple[tuple[str, ...], tuple[type, ...]]
"""The names of columns, and the types of their new values."""


class Merge(NamedTuple):
    """Put ``columns`` into the row of ``table`` with this key. A tuple, because there are several for every event."""

    table: str
    key: Key
    columns: Mapping[str, Value]


@attrs.frozen
class Query:
    """A query on the tables; ``%(name)s`` is a parameter."""

    name: str
    sql: str


@attrs.frozen(slots=False)
class Projection:
    """A read model. Increase ``version`` with every change of the tables or of the results of ``changes``, so that it
    is rebuilt everywhere. Its queries may also read the tables of ``others``.
    """

    name: str
    version: int
    tables: Sequence[Table]
    changes: Callable[[Recorded[object]], Sequence[Merge]]
    queries: Sequence[Query] = ()
    others: Sequence["Projection"] = ()

    @cached_property
    def by_name(self) -> dict[str, Table]:
        return {table.name: table for table in self.tables}

    def query(self, name: str) -> Query:
        """Return the query of this name. Raises KeyError."""
        return {query.name: query for query in self.queries}[name]

    def table_of(self, table: Table) -> str:
        """Return the table's name in the database."""
        return f"{self.name}_{table.name}"


@attrs.frozen
class Folded:
    """The combined effect of some events: per table the columns to merge by key, and the events that were set aside."""

    rows: Mapping[str, Mapping[Key, Row]]
    set_aside: Sequence["SetAside"]


@attrs.frozen
class SetAside:
    """An event that could not be applied, and the reason as a sentence. It affects only its own session."""

    recorded: Recorded[object]
    why: str


def fold(projection: Projection, events: Iterable[Recorded[object]]) -> Folded:
    """Fold events, in order. Each event is applied completely or set aside.

    Knowledge events belong to no read model: there are few, and they are read from the log.
    """
    rows: dict[str, dict[Key, Row]] = {table.name: {} for table in projection.tables}
    set_aside: list[SetAside] = []
    for recorded in events:
        event = recorded.envelope.event
        if isinstance(event, UnreadableEvent):
            set_aside.append(SetAside(recorded, event.why))
            continue
        try:
            merges = () if isinstance(event, KnowledgeEvent) else projection.changes(recorded)
            for merge in merges:
                projection.by_name[merge.table].check(merge)
        except Exception as error:
            set_aside.append(SetAside(recorded, _sentence(recorded, error)))
            continue
        for merge in merges:
            row = rows[merge.table].get(merge.key)
            if row is None:
                rows[merge.table][merge.key] = dict(merge.columns)
            else:
                row.update(merge.columns)
    return Folded(rows, set_aside)


def text(value: str | None) -> str | None:
    """Return a text that a column can hold: PostgreSQL accepts no NUL, and a client may send one in any name."""
    return value if value is None or "\0" not in value else value.replace("\0", "\N{REPLACEMENT CHARACTER}")


def row_of(event: object, *names: str) -> Row:
    """Return the columns that have the names and values of an event's fields."""
    return {name: _column(getattr(event, name)) for name in names}


def _column(value: Any) -> Value:
    value = value.value if isinstance(value, Enum) else value
    return text(value) if isinstance(value, str) else value


TOKENS = {
    "input_tokens": Type.INTEGER,
    "output_tokens": Type.INTEGER,
    "cache_read_tokens": Type.INTEGER,
    "cache_write_5m_tokens": Type.INTEGER,
    "cache_write_1h_tokens": Type.INTEGER,
}
"""The columns of ``prices.Tokens``."""

PROMPT_TOKENS = " + ".join(name for name in TOKENS if name != "output_tokens")
"""The size of a prompt, as an SQL expression."""


def fold_tokens(tokens: Tokens | None) -> Row:
    """Return the columns ``TOKENS``; null for an unknown count."""
    if tokens is None:
        return dict.fromkeys(TOKENS)
    counts = (tokens.input, tokens.output, tokens.read, tokens.write_5m, tokens.write_1h)
    return dict(zip(TOKENS, counts, strict=True))


def _sentence(recorded: Recorded[object], error: Exception) -> str:
    """Return where the error occurred, without its message, which may quote the content of a session."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"the {type(recorded.envelope.event).__name__} cannot be applied: {type(error).__name__} in "
        f"{Path(frame.filename).name}, line {frame.lineno}"
    )

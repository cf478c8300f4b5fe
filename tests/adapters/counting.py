"""Counts the statements of PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import psycopg
import pytest


@attrs.define
class Asked:
    """The statements that were sent, in order."""

    statements: list[str] = attrs.field(factory=list)

    @property
    def transactions(self) -> int:
        return self.statements.count("begin")

    def of(self, beginning: str) -> Sequence[str]:
        return [each for each in self.statements if each.startswith(beginning)]


@contextmanager
def asked_of_the_database() -> Iterator[Asked]:
    """Record the statements of every connection of this process."""
    asked = Asked()
    execute = psycopg.Cursor.execute

    def noting(cursor: psycopg.Cursor[Any], query: Any, *args: Any, **options: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        asked.statements.append(" ".join(text.split()))
        return execute(cursor, query, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", noting)
        yield asked

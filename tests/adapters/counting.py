"""Counts what is asked of PostgreSQL, statement by statement."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import psycopg
import pytest


@attrs.define
class Asked:
    """The statements that were sent, in order, each by its first words."""

    statements: list[str] = attrs.field(factory=list)

    @property
    def transactions(self) -> int:
        """How many transactions were begun."""
        return self.statements.count("begin")

    def of(self, beginning: str) -> Sequence[str]:
        """The statements that begin so."""
        return [each for each in self.statements if each.startswith(beginning)]


@contextmanager
def asked_of_the_database() -> Iterator[Asked]:
    """Within, the statements of every connection of this process are noted."""
    asked = Asked()
    execute = psycopg.Cursor.execute

    def noting(cursor: psycopg.Cursor[Any], query: Any, *args: Any, **options: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        asked.statements.append(" ".join(text.split()))
        return execute(cursor, query, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", noting)
        yield asked

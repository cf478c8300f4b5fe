"""Read models with given rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.projections.catalog import find
from mnemosyne.services.read_models import Question, Row


@attrs.define
class Answers:
    """Rows by projection and query. ``asked`` are the questions so far; an unknown query fails."""

    rows: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
    asked: list[Question] = attrs.field(factory=list)

    async def answers(self, *questions: Question) -> list[list[Row]]:
        for each in questions:
            query = find(each.projection).query(each.query)
            assert all(f"%({name})s" in query.sql for name in each.about)
        self.asked += questions
        return [[dict(row) for row in self.rows.get((each.projection, each.query), ())] for each in questions]

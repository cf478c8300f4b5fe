"""Read models as services see them: named queries, answered with rows.

A service knows its queries and their columns; the projections own the tables (`mnemosyne/projections`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.session.directory import Alias
from mnemosyne.services.sessions import only, owner_of

Row = dict[str, Any]
"""The columns of one row of an answer, by name. Times are µs of UTC."""


@attrs.frozen
class Question:
    """A query of a projection, by name, and its parameters."""

    projection: str
    query: str
    about: Mapping[str, object] = attrs.field(factory=dict)


class ReadModels(Protocol):
    """The read models of an open database."""

    async def answers(self, *questions: Question) -> list[list[Row]]:
        """The rows that answer each question, from one snapshot that includes the whole log.

        Raises LogFailed.
        """


async def find(models: ReadModels, wanted: str) -> UUID:
    """See ``sessions.find``."""
    found, aliases = await models.answers(
        Question("timeline", "find", {"session": wanted}), Question("directory", "aliases", {"name": wanted})
    )
    if aliases:
        return owner_of([Alias(**row) for row in aliases], wanted)
    named = [(row["stream"], row["external_id"]) for row in found]
    exact = [each for each, row in zip(named, found, strict=True) if row["exact"]]
    return only(exact or named, wanted)


EVERY_SESSION = Question("timeline", "sessions")


def names_in(sessions: Iterable[Row]) -> dict[UUID, str]:
    """The clients' names of sessions, from the answer to ``EVERY_SESSION``, without unnamed ones."""
    return {row["stream"]: row["external_id"] for row in sessions if row["external_id"]}

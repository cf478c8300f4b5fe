"""Projections contain no text of a conversation: rows are the same whether a session was forgotten before or after."""

from uuid import UUID

import psycopg
import pytest

from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import EVENT_NAMES, Event
from mnemosyne.domain.session.redaction import redact
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.working_set import WORKING_SET, WORKING_SETS
from mnemosyne.services import memories
from mnemosyne.services.forgetting import forget
from tests.adapters.log_support import open_database
from tests.domain.session.test_redaction import spoken
from tests.services.talking import assistant, body, rich_session, talking, user


@pytest.mark.parametrize("projection", ALL, ids=lambda projection: projection.name)
def test_a_redacted_event_changes_the_same_rows(projection: Projection) -> None:
    for name, kind in EVENT_NAMES.items():
        event: Event = spoken(kind)
        first, second = (Recorded(UUID(int=1), 3, 3, Envelope(each, "c")) for each in (event, redact(event)))
        assert list(projection.changes(first)) == list(projection.changes(second)), name


@pytest.mark.parametrize("projection", ALL, ids=lambda projection: projection.name)
async def test_a_redacted_session_gives_the_same_rows(projection: Projection) -> None:
    async with talking() as talk:
        await rich_session(talk)
    before = await talk.archive.log.read(talk.stream)
    await forget(talk.archive, talk.stream, lambda: 7, "c")
    after = (await talk.archive.log.read(talk.stream))[: len(before)]
    assert after != before
    assert [list(projection.changes(each)) for each in after] == [list(projection.changes(each)) for each in before]


async def test_a_forgotten_context_is_empty_until_the_client_continues(dsn: str) -> None:
    history = [user("Where is the bug? " * 200)]
    async with talking() as talk:
        await talk.ask(body(history))
        await forget(talk.archive, talk.stream, lambda: 7, "c")
    async with open_database(dsn) as database:
        store = PostgresProjections(database)
        await Projector(WORKING_SETS, talk.archive.log, store).catch_up()
        assert status(dsn, talk.stream) == []
        async with talking(talk.archive) as talk:
            await talk.ask(body([*history, assistant("Here."), user("Go on.")]))
        await Projector(WORKING_SETS, talk.archive.log, store).catch_up()
    shown = memories.fold(await talk.archive.log.read(talk.stream)).memory.view_of("main")
    assert status(dsn, talk.stream) == list(shown.objects) != []


def status(dsn: str, stream: UUID) -> list[str]:
    """Return the objects of the main context according to the projection."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(WORKING_SET.sql.encode(), {"stream": stream, "branch": "main"}).fetchall()
    return [row[0] for row in rows]

"""Projections contain no text of a conversation: rows are the same whether a session was forgotten before or after."""

from uuid import UUID

import pytest

from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import EVENT_NAMES, Event
from mnemosyne.domain.session.redaction import redact
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.projection import Projection
from mnemosyne.services.forgetting import forget
from tests.domain.session.test_redaction import spoken
from tests.services.talking import rich_session, talking


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

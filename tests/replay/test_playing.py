"""Recordings of any format, played through the application, give the expected events."""

from mnemosyne.domain.history import replay
from mnemosyne.domain.session.events import TurnBegan
from tests.services.talking import plain, rich_session, talking


async def test_the_speaker_is_recorded_once_for_each_branch() -> None:
    async with talking(plain()) as talk:
        await rich_session(talk)
        events = await talk.archive.log.read(talk.stream)
    began = [each.envelope.event for each in events if isinstance(each.envelope.event, TurnBegan)]
    branches = [event.branch for event in began]
    assert [event.branch for event in began if event.speaker] == list(dict.fromkeys(branches))
    assert all(headers is not None for headers in replay.find_client_headers(events).values())

"""Whether what a reply says of the past stands in what its turn held: looked up where grounding is strict."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.history.unsupported import UnsupportedSentence, find_unsupported, list_words
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.ground_events import SettingsTaken
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import ContentForgotten, ContentMissing
from mnemosyne.services import contexts
from mnemosyne.services.sessions import Archive


async def read_unsupported(
    archive: Archive, stream: UUID, events: Iterable[Recorded[Event]], history: History, attempt: Attempt
) -> Sequence[UnsupportedSentence] | None:
    """The sentences of a reply that nothing supports which the model was shown; without a round, in the last request of
    the turn. None where grounding was not strict, where nothing came back, and where the content is gone.
    """
    if not attempt.rounds:
        return None
    shown = attempt if attempt.round is not None else attrs.evolve(attempt, round=attempt.rounds[-1])
    if not _is_strict(events, shown):
        return None
    try:
        reply = await contexts.read_reply(archive, stream, attempt)
        if reply is None:
            return None
        body = (await contexts.rebuild(archive, stream, history, shown)).body
    except (ContentForgotten, ContentMissing):
        return None
    blocks = history.dialect_of(attempt.began.branch).reply_content(json_object(reply))
    said = [str(block.get("text")) for block in blocks if block.get("type") == "text"]
    called = [block for block in blocks if is_call(block)]
    return find_unsupported(said, "\n".join(list_words([json_object(body), called])))


def _is_strict(events: Iterable[Recorded[Event]], attempt: Attempt) -> bool:
    """Whether the model was told to keep to what memory says."""
    until = (each.envelope.event for each in events if each.version <= attempt.body_version)
    taken = [event.strict for event in until if isinstance(event, SettingsTaken)]
    return bool(taken) and taken[-1]


def sentences_as_json(found: Sequence[UnsupportedSentence] | None) -> list[dict[str, Any]] | None:
    """What was found as JSON; null where nobody looked."""
    return None if found is None else [{"sentence": each.sentence, "names": list(each.names)} for each in found]

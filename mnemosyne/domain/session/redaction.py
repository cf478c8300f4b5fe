"""Redact events of a forgotten session: remove all text of the session, and all text derived from it.

Numbers, times, hashes, ids and links stay, so that a log of redacted events can still be folded.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import attrs

from mnemosyne.domain.objects import events as objects
from mnemosyne.domain.ports import UnreadableEvent
from mnemosyne.domain.session import events, input_events, round_events
from mnemosyne.domain.session.retired import MemoryBrought
from mnemosyne.domain.session.state import Session, evolve

_OF_OBJECT = {"source_tool": None, "source_key": None, "tags": (), "stub": "", "line": "", "key_entities": ()}
_REASON = {"reason": ""}

_WITHOUT_TEXT: Mapping[type, Mapping[str, Any]] = {
    objects.ObjectCreated: _OF_OBJECT,
    objects.ObjectFaulted: _REASON,
    objects.ObjectPinned: _REASON,
    objects.ObjectUnpinned: _REASON,
    objects.ObjectReleased: _REASON,
    objects.ObjectRequested: _REASON,
    objects.ObjectForgotten: _REASON,
    events.CheckpointNamed: {"name": ""},
    round_events.KnowledgeTold: {"text": ""},
    input_events.HelperWorked: {"subject": "", "record": ""},
}
"""The fields with text of each event, and their values without it. All other events hold no text of their own: those of
turns and rounds refer to bodies and replies by hash.
"""


def redact(event: events.Event) -> events.Event:
    """The event without text; idempotent."""
    match event:
        case objects.ObjectSummarized():
            return attrs.evolve(event, losses=objects.Losses(lost=event.losses.lost, asked=event.losses.asked))
        case MemoryBrought():
            return attrs.evolve(event, objects=tuple(attrs.evolve(each, words=()) for each in event.objects))
        case input_events.HelperAsked():
            sentences = tuple(attrs.evolve(each, text="") for each in event.sentences)
            return attrs.evolve(event, question="", sentences=sentences)
        case input_events.GroundsNoted():
            return attrs.evolve(event, policy=None if event.policy is None else "")
        case _:
            return attrs.evolve(event, **_WITHOUT_TEXT.get(type(event), {}))


def lose(event: events.Event | UnreadableEvent, at: int) -> events.Event:
    """The replacement of an event when a damaged session is forgotten: only SessionStarted stays, if it is readable.

    A session with only some of its events could be neither folded nor continued.
    """
    return event if isinstance(event, events.SessionStarted | events.EventLost) else events.EventLost(at=at)


def is_whole(events: Sequence[events.Event]) -> bool:
    """Whether the events of a session fold to a state from which it can continue."""
    try:
        reduce(evolve, events, Session())
    except Exception:  # a tampered event may fit its class and still refer to something that does not exist
        return False
    return True

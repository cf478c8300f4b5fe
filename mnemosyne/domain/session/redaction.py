"""Redact events of a forgotten session: remove all text of the session, and all text derived from it.

Numbers, times, hashes, ids and links stay, so that a log of redacted events can still be folded.
"""

from collections.abc import Sequence
from functools import reduce
from typing import assert_never

import attrs

from mnemosyne.domain.objects.events import (
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectFaulted,
    ObjectForgotten,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
    ObjectUnpinned,
    TurnAssessed,
)
from mnemosyne.domain.ports import UnreadableEvent
from mnemosyne.domain.session.events import (
    BranchOpened,
    CheckpointNamed,
    Event,
    EventLost,
    GapRecorded,
    SessionForgotten,
    SessionImported,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.input_events import GroundsNoted, HelperAsked, HelperWorked, SettingsTaken
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.retired import BroughtJudged, GoalChanged, MemoryBrought
from mnemosyne.domain.session.round_events import (
    BranchModeSet,
    EpochBegan,
    FallbackSent,
    KnowledgeTold,
    ManagingSwitched,
    RoundBegan,
    RoundFinished,
    WindowFilled,
    WindowStated,
)
from mnemosyne.domain.session.state import Session, evolve


def redact(event: Event) -> Event:
    """The event without text; idempotent.

    Events of turns and rounds refer to bodies and replies by hash and hold no text.
    """
    match event:
        case ObjectCreated():
            return attrs.evolve(event, source_tool=None, source_key=None, tags=(), stub="", line="", key_entities=())
        case ObjectSummarized():
            return attrs.evolve(event, losses=Losses(lost=event.losses.lost, asked=event.losses.asked))
        case ObjectFaulted() | ObjectPinned() | ObjectUnpinned():
            return attrs.evolve(event, reason="")
        case ObjectReleased() | ObjectRequested() | ObjectForgotten():
            return attrs.evolve(event, reason="")
        case ObjectDegraded() | ObjectRestored() | ObjectSuperseded():
            return event
        case SessionStarted() | SessionForgotten() | SessionImported() | EventLost():
            return event
        case BranchOpened() | BranchModeSet() | GapRecorded():
            return event
        case TurnBegan() | TurnFinished() | TurnInterrupted() | TurnAssessed() | TurnAccounted():
            return event
        case CheckpointNamed():
            return attrs.evolve(event, name="")
        case KnowledgeTold():
            return attrs.evolve(event, text="")
        case MemoryBrought():
            return attrs.evolve(event, objects=tuple(attrs.evolve(each, words=()) for each in event.objects))
        case HelperAsked():
            sentences = tuple(attrs.evolve(each, text="") for each in event.sentences)
            return attrs.evolve(event, question="", sentences=sentences)
        case HelperWorked():
            return attrs.evolve(event, subject="", record="")
        case GoalChanged() | BroughtJudged() | SettingsTaken() | GroundsNoted():
            return event
        case EpochBegan() | WindowFilled() | WindowStated() | RoundBegan() | RoundFinished() | FallbackSent():
            return event
        case ManagingSwitched():
            return event
        case _:
            assert_never(event)


def lose(event: Event | UnreadableEvent, at: int) -> Event:
    """The replacement of an event when a damaged session is forgotten: only SessionStarted stays, if it is readable.

    A session with only some of its events could be neither folded nor continued.
    """
    return event if isinstance(event, SessionStarted | EventLost) else EventLost(at=at)


def is_whole(events: Sequence[Event]) -> bool:
    """Whether the events of a session fold to a state from which it can continue."""
    try:
        reduce(evolve, events, Session())
    except Exception:  # a tampered event may fit its class and still refer to something that does not exist
        return False
    return True

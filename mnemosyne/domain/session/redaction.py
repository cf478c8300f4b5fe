"""What forgetting leaves of an event: everything but the words that were said in the session, or made from them.

Numbers, times, hashes, ids and links stay, so that a log of redacted events still adds up.
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
from mnemosyne.domain.session.input_events import GroundsNoted, HelperAsked, SettingsTaken
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
    """The event without words; to do it again changes nothing.

    Bodies and replies are named by hash, so the events of turns and rounds hold none.
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
        case GoalChanged() | BroughtJudged() | SettingsTaken() | GroundsNoted():
            return event
        case EpochBegan() | WindowFilled() | WindowStated() | RoundBegan() | RoundFinished() | FallbackSent():
            return event
        case ManagingSwitched():
            return event
        case _:
            assert_never(event)


def lose(event: Event | UnreadableEvent, at: int) -> Event:
    """What is left of an event of a damaged session that is forgotten: whose session it is, where that can be read.

    All others go. A session of which some events are missing does not add up: nobody could fold it, nor go on with it.
    """
    return event if isinstance(event, SessionStarted | EventLost) else EventLost(at=at)


def is_whole(events: Sequence[Event]) -> bool:
    """Whether the events of a session add up to a state from which it can go on."""
    try:
        reduce(evolve, events, Session())
    except Exception:  # each event is what its class declares, and yet a changed one may name what is not there
        return False
    return True

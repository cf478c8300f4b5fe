"""Redact events of a forgotten session: remove all text of the session, and all text derived from it.

Numbers, times, hashes, ids and links stay, so that a log of redacted events can still be folded.
"""

from collections.abc import Sequence
from typing import assert_never

import attrs

from mnemosyne.domain.objects import events as objects
from mnemosyne.domain.ports import UnreadableEvent
from mnemosyne.domain.session import events, input_events, round_events
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.retired import BroughtJudged, GoalChanged, MemoryBrought
from mnemosyne.domain.session.state import Session, evolve_all


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
        case input_events.HelperWorked():
            return attrs.evolve(event, subject="", record="")
        case round_events.KnowledgeTold():
            return attrs.evolve(event, text="")
        case events.CheckpointNamed():
            return attrs.evolve(event, name="")
        case round_events.SessionEdited():
            return attrs.evolve(event, title=None if event.title is None else "")
        case events.ToolsDeclared():
            return attrs.evolve(event, uses=tuple(events.ToolUse(each.call) for each in event.uses))
        case objects.ObjectCreated():
            return attrs.evolve(event, source_tool=None, source_key=None, tags=(), stub="", line="", key_entities=())
        case objects.ObjectFaulted() | objects.ObjectPinned() | objects.ObjectUnpinned():
            return attrs.evolve(event, reason="")
        case objects.ObjectReleased() | objects.ObjectRequested() | objects.ObjectForgotten():
            return attrs.evolve(event, reason="")
        # The others hold no text: those of turns and rounds refer to bodies and replies by hash.
        case objects.ObjectDegraded() | objects.ObjectRestored():
            return event
        case objects.ObjectSuperseded() | objects.ObjectLinked():
            return event
        case events.SessionStarted() | events.SessionForgotten() | events.SessionImported() | events.EventLost():
            return event
        case events.BranchOpened() | events.GapRecorded() | objects.TurnAssessed() | TurnAccounted():
            return event
        case events.TurnBegan() | events.TurnFinished() | events.TurnInterrupted() | input_events.SettingsTaken():
            return event
        case round_events.BranchModeSet() | round_events.EpochBegan() | round_events.RoundBegan():
            return event
        case round_events.WindowFilled() | round_events.WindowStated() | round_events.RoundFinished():
            return event
        case round_events.FallbackSent() | round_events.ManagingSwitched() | GoalChanged() | BroughtJudged():
            return event
        case round_events.SessionTrashed():
            return event
        case _:
            assert_never(event)


def lose(event: events.Event | UnreadableEvent, at: int) -> events.Event:
    """The replacement of an event when a damaged session is forgotten: only SessionStarted stays, if it is readable.

    A session with only some of its events could be neither folded nor continued.
    """
    return event if isinstance(event, events.SessionStarted | events.EventLost) else events.EventLost(at=at)


def is_whole(events: Sequence[events.Event]) -> bool:
    """Whether the events of a session fold to a state from which it can continue."""
    try:
        evolve_all(Session(), events)
    except Exception:  # a tampered event may fit its class and still refer to something that does not exist
        return False
    return True

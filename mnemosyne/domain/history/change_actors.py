"""Who made each change of a session, and the choice of changes by time and actor.

The kind of an event and the command that led to it name the actor; no text is read.
"""

from enum import Enum

import attrs

from mnemosyne.domain.objects import events as objects
from mnemosyne.domain.objects.fidelity import Cause
from mnemosyne.domain.objects.kinds import KINDS, Role, is_change, is_inserted, keeps_prompt
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session import events as turns
from mnemosyne.domain.session import input_events as inputs
from mnemosyne.domain.session import round_events as rounds
from mnemosyne.domain.session.events import Event


class Actor(Enum):
    """Who changed something."""

    USER = "user"
    """A person: by prompts, and by decisions about objects, turns and sessions."""
    CLIENT = "client"
    """The agent's program: its requests, its tools and what it inserts."""
    MODEL = "model"
    """Replies, calls and cleanup tags."""
    PLANNER = "planner"
    """Mnemosyne's own decisions."""
    HELPER = "helper"
    """A helper model."""
    PROVIDER = "provider"
    """Errors, and replies that broke off."""


@attrs.frozen(kw_only=True)
class ChosenChanges:
    """Changes from ``since`` through ``until`` (µs of UTC) of one actor or all, in one branch or all."""

    since: int = 0
    until: int | None = None
    by: Actor | None = None
    branch: str | None = None

    def includes(self, recorded: Recorded[Event]) -> bool:
        event = recorded.envelope.event
        in_branch = self.branch in (None, getattr(event, "branch", None))
        in_time = self.since <= event.at and (self.until is None or event.at <= self.until)
        return in_branch and in_time and (self.by is None or self.by is actor_of(recorded))


EVERY_CHANGE = ChosenChanges()

_PERSONS = frozenset({"Pin", "Unpin", "Release", "Request"})
"""Commands about objects that a person gives, or an agent's host."""

_MODELS = frozenset({"AnswerCalls", "Refused", "Finish", "Interrupt", "ObeyTags"})
"""Commands that a reply leads to."""

_STEPS = {
    Cause.PRESSURE: Actor.PLANNER,
    Cause.ECONOMY: Actor.PLANNER,
    Cause.RELEASE: Actor.MODEL,
    Cause.GOAL: Actor.HELPER,
    Cause.FAULT: Actor.MODEL,
    Cause.PREFETCH: Actor.USER,
    Cause.ATTEMPT: Actor.CLIENT,
}


def actor_of(recorded: Recorded[Event]) -> Actor:
    """The actor of a recorded event."""
    event, cause = recorded.envelope.event, recorded.envelope.causation_id
    match event:
        case turns.CheckpointNamed() | turns.SessionForgotten() | turns.SessionImported():
            return Actor.USER
        case rounds.SessionEdited() if cause == "EndSession":
            return Actor.CLIENT
        case rounds.ManagingSwitched() | rounds.SessionTrashed() | rounds.SessionEdited():
            return Actor.USER
        case turns.TurnBegan() | turns.BranchOpened() | turns.ToolsDeclared() | objects.ObjectLinked():
            return Actor.CLIENT
        case turns.TurnFinished():
            return Actor.PROVIDER if event.error_type or event.status >= 400 else Actor.MODEL
        case turns.TurnInterrupted():
            return Actor.CLIENT if event.reason == turns.CLIENT_LEFT else Actor.PROVIDER
        case rounds.WindowStated():
            return Actor.PROVIDER
        case inputs.HelperAsked() | inputs.HelperWorked():
            return Actor.HELPER
        case objects.ObjectCreated():
            return _author_of(event)
        case objects.ObjectDegraded(cause=Cause.ATTEMPT) if cause == "Refused":
            return Actor.PROVIDER
        case objects.ObjectDegraded() | objects.ObjectRestored():
            return _STEPS[event.cause]
        case objects.ObjectFaulted():
            return Actor.HELPER if event.why is objects.FaultReason.SPECULATIVE else Actor.MODEL
        case _ if cause in _PERSONS:
            return Actor.USER
        case _ if cause in _MODELS:
            return Actor.MODEL
        case _ if cause == "HelperDone":
            return Actor.HELPER
        case _:
            return Actor.PLANNER


def _author_of(made: objects.ObjectCreated) -> Actor:
    """The author of an object's content; objects that are made of others are the planner's."""
    if made.role is Role.DERIVED:
        return Actor.PLANNER
    if made.role is Role.WRITTEN or is_inserted(made.tags):
        return Actor.CLIENT
    if keeps_prompt(made.tags):
        return Actor.USER
    return Actor.CLIENT if KINDS[made.kind].is_fetched and not is_change(made.tags) else Actor.MODEL

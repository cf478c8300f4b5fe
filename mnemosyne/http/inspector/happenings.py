"""What happened in a session, as people say it, the newest first."""

from collections.abc import Sequence

import attrs

from mnemosyne.domain.objects import events as happened
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session import events as turns
from mnemosyne.domain.session import round_events as rounds
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import HelperAsked
from mnemosyne.figures import plural
from mnemosyne.http.inspector.formatting import because, describe_miss, level_text, tokens_text

SHOWN = 40
"""So many are listed."""


@attrs.frozen(kw_only=True)
class Happening:
    """``at`` is in µs of UTC; ``branch``, ``turn`` and ``object`` are None where it is about none."""

    version: int
    at: int
    branch: str | None
    turn: int | None
    object: str | None
    what: str
    why: str


def list_happenings(recorded: Sequence[Recorded[Event]]) -> Sequence[Happening]:
    """What some events tell people, the newest first."""
    found = []
    for each in reversed(recorded):
        event = each.envelope.event
        told = describe_object(event, sized=False) if isinstance(event, ObjectEvent) else describe_event(event)
        if told is not None:
            found.append(
                Happening(
                    version=each.version,
                    at=event.at,
                    branch=getattr(event, "branch", None),
                    turn=getattr(event, "turn", None),
                    object=event.object if isinstance(event, ObjectEvent) else None,
                    what=told[0],
                    why=told[1],
                )
            )
    return found[:SHOWN]


def describe_event(event: Event) -> tuple[str, str] | None:
    """What happened, and why; None of what says nothing to people."""
    match event:
        case turns.TurnBegan():
            return "the client asked", event.model or ""
        case turns.TurnFinished():
            return "the model answered", event.error_type or event.stop_reason or str(event.status)
        case turns.TurnInterrupted():
            return "no whole answer came", event.reason
        case turns.BranchOpened():
            return f"a {event.kind.value} branch began", f"left {event.parent}" if event.parent else ""
        case turns.GapRecorded():
            return f"{plural(event.turns, 'turn')} without a record", event.reason
        case turns.SessionForgotten():
            return "what was said was forgotten", ""
        case turns.CheckpointNamed():
            return f"checkpoint {event.name}", f"{event.branch} {event.turn}"
        case rounds.BranchModeSet():
            return f"from now on: {event.mode.value}", event.why
        case rounds.EpochBegan():
            return f"history rewritten, {tokens_text(event.freed)} tokens freed", event.reason
        case rounds.WindowFilled():
            return "the window was full", event.why
        case rounds.WindowStated():
            return "too long for the model", f"the provider states a window of {tokens_text(event.window)} tokens"
        case rounds.FallbackSent():
            return "sent as the client has it", event.why
        case rounds.RoundFinished() if event.answers:
            return f"memory answered {plural(len(event.answers), 'call')}", f"{tokens_text(event.tokens)} tokens"
        case rounds.KnowledgeTold():
            return "told what earlier sessions taught", f"{tokens_text(event.tokens)} tokens"
        case rounds.ManagingSwitched():
            return "managing switched " + ("on" if event.on else "off"), event.why
        case HelperAsked():
            return "a helper model was asked", event.helper
        case _:
            return None


def describe_object(event: ObjectEvent, *, sized: bool) -> tuple[str, str]:
    """What happened to an object, and why. ``sized`` with what it takes, where that is what people are told elsewhere
    (``counted_sizes.size_event``): an event alone holds an estimate.
    """
    match event:
        case happened.ObjectCreated():
            admitted = "in the index" if event.admission.admitted else "routine: not in the index"
            return "came" + (f" with {tokens_text(event.tokens)} tokens" if sized else ""), admitted
        case happened.ObjectSummarized():
            size = f", {tokens_text(event.tokens)} tokens" if sized else ""
            return f"{event.fidelity.label} written{size}", f"by {event.helper}"
        case happened.ObjectDegraded(after=Fidelity.EVICTED):
            return f"left the window, where it stood at {level_text(event.before)}", because(event.cause)
        case happened.ObjectDegraded():
            return f"shortened from {level_text(event.before)} to {level_text(event.after)}", because(event.cause)
        case happened.ObjectRestored():
            return f"brought back from {level_text(event.before)} to {level_text(event.after)}", because(event.cause)
        case happened.ObjectFaulted():
            return f"missed: {describe_miss(event.kind.value)}, {tokens_text(event.tokens)} tokens", event.reason
        case happened.ObjectPinned():
            until = "" if event.until_turn is None else f" through turn {event.until_turn}"
            return f"pinned{until}", event.reason
        case happened.ObjectUnpinned():
            return "unpinned", event.reason
        case happened.ObjectReleased():
            return "released", event.reason
        case happened.ObjectRequested():
            return f"wanted back at {level_text(event.after)}", event.reason
        case happened.ObjectSuperseded():
            return "out of date" + (f", replaced by {event.by}" if event.by else ""), event.how.value
        case happened.ObjectForgotten():
            return "forgotten", event.reason

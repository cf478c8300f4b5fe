"""Describe the events of a session for users, newest first."""

from collections.abc import Sequence

import attrs

from mnemosyne.domain.history.change_actors import EVERY_CHANGE, ChosenChanges, actor_of
from mnemosyne.domain.objects import events as happened
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session import events as turns
from mnemosyne.domain.session import round_events as rounds
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import GroundsNoted, HelperAsked
from mnemosyne.figures import plural
from mnemosyne.http.inspector.formatting import because, describe_miss, level_text, tokens_text
from mnemosyne.services.session_edits import describe_edit

SHOWN = 40
"""Number of events listed."""


@attrs.frozen(kw_only=True)
class Happening:
    """One described event. ``at`` is in µs of UTC, ``by`` its actor; ``branch``, ``turn`` and ``object`` are None if
    not applicable.
    """

    version: int
    at: int
    by: str
    branch: str | None
    turn: int | None
    object: str | None
    what: str
    why: str


def list_happenings(
    recorded: Sequence[Recorded[Event]], chosen: ChosenChanges = EVERY_CHANGE, most: int | None = SHOWN
) -> Sequence[Happening]:
    """Describe the chosen events that matter to users, newest first."""
    happenings = []
    for record in filter(chosen.includes, reversed(recorded)):
        event = record.envelope.event
        described = describe_object(event, sized=False) if isinstance(event, ObjectEvent) else describe_event(event)
        if described is not None:
            happenings.append(
                Happening(
                    version=record.version,
                    at=event.at,
                    by=actor_of(record).value,
                    branch=getattr(event, "branch", None),
                    turn=getattr(event, "turn", None),
                    object=event.object if isinstance(event, ObjectEvent) else None,
                    what=described[0],
                    why=described[1],
                )
            )
    return happenings[:most]


def describe_event(event: Event) -> tuple[str, str] | None:
    """Describe an event: what happened and why. None for events that users need not see."""
    match event:
        case turns.TurnBegan():
            return "the client sent a request", event.model or ""
        case turns.TurnFinished():
            return "the model replied", event.error_type or event.stop_reason or str(event.status)
        case turns.TurnInterrupted():
            return "the reply was incomplete", event.reason
        case turns.BranchOpened():
            return f"{event.kind.value} branch opened", f"from {event.parent}" if event.parent else ""
        case turns.GapRecorded():
            return f"{plural(event.turns, 'turn')} not recorded", event.reason
        case turns.ToolsDeclared():
            return f"{plural(len(event.uses), 'tool call')} declared", ""
        case turns.SessionForgotten():
            return "content erased", ""
        case rounds.SessionTrashed():
            return "moved to the trash" if event.trashed else "restored from the trash", ""
        case rounds.SessionEdited():
            return describe_edit(event.closed, event.grounding), event.title or ""
        case turns.CheckpointNamed():
            return f"checkpoint {event.name}", f"{event.branch} {event.turn}"
        case rounds.BranchModeSet():
            return f"mode: {event.mode.value}", event.why
        case rounds.EpochBegan():
            return f"compacted, {tokens_text(event.freed)} tokens freed", event.reason
        case rounds.WindowFilled():
            return "the context window was full", event.why
        case rounds.WindowStated():
            return "too long for the model", f"the provider states a window of {tokens_text(event.window)} tokens"
        case rounds.FallbackSent():
            return "fallback: sent the client's request unchanged", event.why
        case rounds.RoundFinished() if event.answers and not (event.usage or event.stop_reason):
            return "the window had no room for the memory's answers", f"to {plural(len(event.answers), 'call')}"
        case rounds.RoundFinished() if event.answers:
            return f"memory answered {plural(len(event.answers), 'call')}", f"{tokens_text(event.tokens)} tokens"
        case rounds.KnowledgeTold():
            return "memory of earlier sessions added to the prompt", f"{tokens_text(event.tokens)} tokens"
        case rounds.ManagingSwitched():
            return "managing switched " + ("on" if event.on else "off"), event.why
        case GroundsNoted() if event.policy is not None:
            return "the policy gave no usable plan", event.policy
        case HelperAsked():
            return "helper model called", event.helper
        case _:
            return None


def describe_object(event: ObjectEvent, *, sized: bool) -> tuple[str, str]:
    """Describe an object's event: what happened and why. ``sized`` adds the token count; use it only if the count is
    the one shown elsewhere (``counted_sizes.size_event``), since an event alone holds an estimate.
    """
    match event:
        case happened.ObjectCreated():
            admitted = "in the index" if event.admission.admitted else "nothing new: not in the index"
            return "created" + (f" with {tokens_text(event.tokens)} tokens" if sized else ""), admitted
        case happened.ObjectSummarized():
            size = f", {tokens_text(event.tokens)} tokens" if sized else ""
            return f"{event.fidelity.label} written{size}", f"by {event.helper}"
        case happened.ObjectDegraded(after=Fidelity.EVICTED):
            return f"evicted from {level_text(event.before)}", because(event.cause)
        case happened.ObjectDegraded():
            return f"shortened from {level_text(event.before)} to {level_text(event.after)}", because(event.cause)
        case happened.ObjectRestored():
            return f"restored from {level_text(event.before)} to {level_text(event.after)}", because(event.cause)
        case happened.ObjectFaulted():
            return f"needed again: {describe_miss(event.kind.value)}, {tokens_text(event.tokens)} tokens", event.reason
        case happened.ObjectPinned():
            until = "" if event.until_turn is None else f" through turn {event.until_turn}"
            where = "" if event.branch is None else f" in branch {event.branch}"
            return f"pinned{where}{until}", event.reason
        case happened.ObjectUnpinned():
            return "unpinned" if event.branch is None else f"unpinned in branch {event.branch}", event.reason
        case happened.ObjectReleased():
            return "released", event.reason
        case happened.ObjectRequested():
            return f"restore requested at {level_text(event.after)}", event.reason
        case happened.ObjectSuperseded():
            return "out of date" + (f", replaced by {event.by}" if event.by else ""), event.how.value
        case happened.ObjectLinked():
            return f"linked: {event.link.relation.value} {event.link.target}", ""
        case happened.ObjectForgotten():
            return "forgotten", event.reason

"""Whether a reply cites its sources, where the model was asked to (setting ``grounding``)."""

from collections.abc import Sequence
from uuid import UUID

from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.objects.events import FaultKind, ObjectFaulted, ObjectRestored
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.recall.citations import Citations, check
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.figures import plural
from mnemosyne.services.provenance import words_of
from mnemosyne.services.sessions import Archive


async def read_citations(
    archive: Archive,
    stream: UUID,
    events: Sequence[Recorded[Event]],
    history: History,
    attempt: Attempt,
    found: MemorySnapshot | None = None,
) -> Citations | None:
    """The citations of an attempt's reply; None if its model was not asked for any, or it has no words. ``found`` is
    the memory at its turn, if it was read. Raises LogFailed.
    """
    asking = (each.envelope.event for each in events if isinstance(each.envelope.event, SettingsTaken))
    if not any(each.grounding != "free" for each in asking):
        return None
    began = attempt.began
    try:
        found = found or snapshot(events, began.branch, began.turn)
        words = await words_of(archive, stream, history, attempt)
    except (NotFound, ContentForgotten):
        return None
    taken = found.session.find_taken(found.branch)
    if taken is None or taken.grounding == "free":
        return None
    line = [history.turn(began.branch, turn)[-1].began for turn in range(1, began.turn + 1)]
    turns = {each.branch: {one.turn for one in line if one.branch == each.branch} for each in line}
    happened = [
        event
        for each in events
        if isinstance(event := each.envelope.event, EpochBegan | ObjectFaulted | ObjectRestored)
        and event.turn in turns.get(event.branch, ())
    ]
    rewritten = max((event.turn for event in happened if isinstance(event, EpochBegan)), default=None)
    if rewritten is None or not attempt.rounds:  # the first rewrite asks, and only managed requests do
        return None
    returned = [
        event
        for event in happened
        if not isinstance(event, EpochBegan) and getattr(event, "kind", None) is not FaultKind.IMPLICIT
    ]
    recalled = [event.object for event in returned if event.turn == began.turn]
    quoted = [event.object for event in returned if event.turn >= rewritten]  # a rewrite drops earlier answers
    shown = [each.object.id for each in found.standings() if each.fidelity < Fidelity.STUB]
    return check(words, list(dict.fromkeys(recalled)), (*quoted, *shown))


def citations_text(found: Citations) -> str:
    """The citations as a sentence."""
    returned = len(found.uncited)
    parts = [f"{plural(len(found.cited), 'record')} of its context"]
    if returned:
        parts.append(f"not {plural(returned, 'record')} that memory returned ({', '.join(found.uncited)})")
    if found.absent:
        parts.append(
            f"{plural(len(found.absent), 'id')} whose text its context did not hold ({', '.join(found.absent)})"
        )
    return f"The reply cites {', '.join(parts)}."

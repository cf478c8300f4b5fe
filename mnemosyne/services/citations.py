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
    if taken is None or taken.settings.grounding == "free":
        return None
    recalled = [
        event.object
        for each in events
        if isinstance(event := each.envelope.event, ObjectFaulted | ObjectRestored)
        and (event.branch, event.turn) == (began.branch, began.turn)
        and getattr(event, "kind", None) is not FaultKind.IMPLICIT
    ]
    shown = [each.object.id for each in found.standings() if each.fidelity < Fidelity.STUB]
    return check(words, list(dict.fromkeys(recalled)), shown)


def citations_text(found: Citations) -> str:
    """The citations as a sentence."""
    returned = len(found.uncited)
    parts = [f"{plural(len(found.cited), 'record')} of its context"]
    if returned:
        parts.append(f"not {plural(returned, 'record')} that memory returned ({', '.join(found.uncited)})")
    if found.absent:
        parts.append(f"{plural(len(found.absent), 'id')} that its context did not hold ({', '.join(found.absent)})")
    return f"The reply cites {', '.join(parts)}."

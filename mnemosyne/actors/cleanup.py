"""Applies the cleanup tags in replies. A failure here never fails a turn.

A tag is only a suggestion by the model. Objects are released and pinned as far as ``domain/recall/cleanup_effects.py``
permits. A text that summarizes an object becomes a rendition after the same checks as a helper's text, as deferred
work.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import reduce
from hashlib import sha256

import trio

from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import Contents
from mnemosyne.actors.patience import Patience
from mnemosyne.domain.objects import decide as objects
from mnemosyne.domain.objects import memory, work
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.recall import cleanup_effects, memory_calls
from mnemosyne.domain.recall.cleanup_effects import Effects
from mnemosyne.domain.recall.memory_calls import own
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode, RoundFinished
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.summaries.forms import RecordedForm, measure_losses, request_of
from mnemosyne.domain.summaries.renditions import ProposedRendition, find_fault
from mnemosyne.domain.tools import cleanup_tags
from mnemosyne.domain.tools.cleanup_tags import Directive, Ignored
from mnemosyne.domain.tools.memory_tools import RefusedCall
from mnemosyne.domain.wire.dialects import dialect_of
from mnemosyne.domain.wire.reply import Reply, is_refusal, json_object
from mnemosyne.errors import MnemosyneError

log = logging.getLogger(__name__)

HELPER = "cleanup tag"
"""The author recorded for a rendition from a tag."""

MOST_TEXTS = 4
"""Maximum number of texts checked per reply."""

LARGEST = 100_000
"""Size limit in characters of an object whose summary is checked: comparing that many takes a tenth of a second."""

Append = Callable[[Sequence[Event], str, Contents], Awaitable[object]]
"""Append events and their contents under the name of the command that caused them."""


def effects_of(reply: Reply, address: Address, state: Session, at: int) -> tuple[Event, ...]:
    """The releases and pins of a round's complete reply, given the session's state after the round. They are recorded
    together with the reply, so neither can be lost without the other.

    Returns nothing on failure, and for a refused reply, which is not the model's.
    """
    if _NAME not in reply.body or is_refusal(reply.stop_reason):
        return ()
    try:
        found = _effects(reply, address, state, at)
    except Exception:
        log.exception("cleanup tags of turn %d could not be applied", address.turn)
        return ()
    if found.ignored:
        log.info("%d items in the cleanup tags of turn %d have no effect", len(found.ignored), address.turn)
    return found.events


def _effects(reply: Reply, address: Address, state: Session, at: int) -> Effects:
    """Apply the directives in order; each sees the effects of those before it."""
    known, now, found = state.memory, memory_calls.now_of(state, address.branch, address.turn), Effects()
    for directive in _directives(reply.body, state.branches[address.branch]):
        led = cleanup_effects.effects(directive, known, address.branch, now, at=at, size=state.size)
        known = reduce(memory.evolve, led.events, known)
        found += led
    return found


def _directives(reply: bytes, branch: Branch) -> tuple[Directive | Ignored, ...]:
    content = dialect_of(branch.conversation).reply_content(json_object(reply))
    return cleanup_tags.of_reply({"role": "assistant", "content": content})


class CleanupTexts:
    """Checks the texts in the cleanup tags of one session, in the last finished rounds of its branches."""

    def __init__(self, loaded: Loaded, patience: Patience) -> None:
        self._patience = patience
        self._loaded = loaded
        self._seen: dict[str, set[Address]] = {}
        """The checked rounds of each branch's last turn; the ``turn`` of an address also encodes the round."""

    async def apply_tags(self, append: Append) -> bool:
        """Check the texts of new replies and record accepted ones with ``append``; return whether any became a
        rendition. Texts are only suggestions: an object whose text is rejected is summarized by a helper as usual.
        """
        changed = False
        for branch in list(self._loaded.state.branches.values()):
            for event in self._unseen(branch):
                try:
                    with trio.move_on_after(self._patience.texts):
                        changed |= await self._check_texts(branch, event, append)
                except MnemosyneError as error:
                    log.warning("texts in cleanup tags could not be checked: %s", error)
                except Exception:
                    log.exception("texts in cleanup tags could not be checked")
        return changed

    def _unseen(self, branch: Branch) -> Iterator[RoundFinished]:
        if branch.mode is not Mode.MANAGE:
            return
        last = [event for events in branch.rounds.finished.values() for event in events]
        places = {Address(branch.name, event.turn * 1_000 + event.round, event.attempt): event for event in last}
        seen = self._seen.get(branch.name, set())
        self._seen[branch.name] = set(places)
        yield from (event for place, event in places.items() if place not in seen)

    async def _check_texts(self, branch: Branch, event: RoundFinished, append: Append) -> bool:
        body = await self._loaded.bodies.read_stored(event.reply)
        if _NAME not in body or is_refusal(event.stop_reason):
            return False
        proposed = [each for each in _directives(body, branch) if isinstance(each, cleanup_tags.TagSummary)]
        changed = False
        for summary in proposed[:MOST_TEXTS]:
            each = own(self._loaded.state.memory, branch.name, summary.object_id)
            if not isinstance(each, RefusedCall):
                changed |= await self._summarize(each, summary, event.at, append)
        return changed

    async def _summarize(self, each: MemoryObject, summary: cleanup_tags.TagSummary, at: int, append: Append) -> bool:
        """Record the text as the fullest missing rendition of its object, if it passes the checks."""
        known, bodies = self._loaded.state.memory, self._loaded.bodies
        deferred = work.missing_of(each, known)
        given = sha256(summary.text.encode()).digest() in {rendition.text for rendition in each.renditions.values()}
        if deferred is None or deferred.size > LARGEST or given:
            return False
        content = await bodies.read_stored(deferred.content)
        detailed = None if deferred.detailed is None else (await bodies.content(deferred.detailed)).decode()
        written = await trio.to_thread.run_sync(
            _check, summary, deferred, content, detailed, at, abandon_on_cancel=True
        )
        if written is None:
            return False
        events = objects.decide(written.command, self._loaded.state.memory)
        if events:
            contents = () if written.command.text in bodies.known else (written.content,)
            await append(events, _COMMAND, contents)
        return bool(events)


def _check(
    summary: cleanup_tags.TagSummary, deferred: work.DeferredSummary, content: bytes, detailed: str | None, at: int
) -> RecordedForm | None:
    """The rendition that the text makes; None if the checks reject it."""
    full = full_text(content)
    candidate = ProposedRendition(summary.text, Losses(dropped=summary.dropped))
    if find_fault(request_of(deferred, full), candidate):
        # Do not log the reason: it may quote file contents.
        log.info("a text for object %s in a cleanup tag was rejected", deferred.object)
        return None
    return measure_losses(deferred, full, detailed, candidate, helper=HELPER, at=at)


_NAME = b"memory_cleanup"
_COMMAND = "ObeyTags"

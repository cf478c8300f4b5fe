"""Obeys the cleanup tags in replies: no turn fails by it.

A tag is the model's word and no more. Objects are released and pinned as far as ``domain/recall/cleanup_effects.py``
lets it; a text that shall stand for an object becomes its rendition after the checks that a helper's text must pass,
for which nobody waits.
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
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.recall import cleanup_effects, memory_calls
from mnemosyne.domain.recall.cleanup_effects import Collapsed, Effects
from mnemosyne.domain.recall.memory_calls import own
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode, RoundFinished
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.summaries.forms import Written, measure_losses, request_of
from mnemosyne.domain.summaries.renditions import ProposedRendition, Rejected, accept
from mnemosyne.domain.tools import cleanup_tags
from mnemosyne.domain.tools.cleanup_tags import Directive, Ignored
from mnemosyne.domain.tools.memory_tools import RefusedCall
from mnemosyne.domain.wire.dialects import dialect_of
from mnemosyne.domain.wire.reply import Reply, is_refusal, json_object
from mnemosyne.errors import MnemosyneError

log = logging.getLogger(__name__)

HELPER = "cleanup tag"
"""Who wrote a rendition that the model gave in a tag."""

MOST_TEXTS = 4
"""Texts of one reply that are looked at."""

LARGEST = 100_000
"""Characters of an object for which a text is looked at: comparing them takes a tenth of a second."""

Append = Callable[[Sequence[Event], str, Contents], Awaitable[object]]
"""Records events, with the contents that they name, under the name of the command that led to them."""


def effects_of(reply: Reply, address: Address, state: Session, at: int) -> tuple[Event, ...]:
    """What a round's reply, which came whole, releases and pins, in a session that stands so once the round is over.
    That goes on record with the reply itself, so it cannot be lost between the two.

    Nothing if that fails. A reply that was refused is none of the model's.
    """
    if _NAME not in reply.body or is_refusal(reply.stop_reason):
        return ()
    try:
        found = _effects(reply, address, state, at)
    except Exception:
        log.exception("cleanup tags of turn %d could not be obeyed", address.turn)
        return ()
    collapsed = sum(isinstance(each, Collapsed) for each in found.texts)
    if found.ignored or collapsed:
        log.info(
            "%d things in the cleanup tags of turn %d have no effect, and %d texts for what was collapsed",
            len(found.ignored),
            address.turn,
            collapsed,
        )
    return found.events


def _effects(reply: Reply, address: Address, state: Session, at: int) -> Effects:
    """What the directives lead to, each in view of those before it."""
    known, now, found = state.memory, memory_calls.now_of(state, address.branch, address.turn), Effects()
    for directive in _directives(reply.body, state.branches[address.branch]):
        led = cleanup_effects.effects(directive, known, address.branch, now, at=at)
        known = reduce(memory.evolve, led.events, known)
        found += led
    return found


def _directives(reply: bytes, branch: Branch) -> tuple[Directive | Ignored, ...]:
    """The directives in a reply on a branch."""
    content = dialect_of(branch.lane).reply_content(json_object(reply))
    return cleanup_tags.of_reply({"role": "assistant", "content": content})


class CleanupTexts:
    """Looks at the texts in the cleanup tags of one session: those of the rounds that its branches finished last."""

    def __init__(self, loaded: Loaded, patience: Patience) -> None:
        self._patience = patience
        self._loaded = loaded
        self._seen: dict[str, set[Address]] = {}
        """The rounds of each branch's last turn that were looked at, each with its number for a turn's."""

    async def apply_tags(self, append: Append) -> bool:
        """Look at the texts of replies that nobody looked at; whether any became a rendition, recorded by ``append``.
        They are no more than suggestions: what cannot stand for its object is summarized by a helper like any other.
        """
        changed = False
        for branch in list(self._loaded.state.branches.values()):
            for event in self._unseen(branch):
                try:
                    with trio.move_on_after(self._patience.texts):
                        changed |= await self._look_at(branch, event, append)
                except MnemosyneError as error:
                    log.warning("texts in cleanup tags could not be looked at: %s", error)
                except Exception:
                    log.exception("texts in cleanup tags could not be looked at")
        return changed

    def _unseen(self, branch: Branch) -> Iterator[RoundFinished]:
        if branch.mode is not Mode.MANAGE:
            return
        last = [event for events in branch.rounds.finished.values() for event in events]
        places = {Address(branch.name, event.turn * 1_000 + event.round, event.attempt): event for event in last}
        seen = self._seen.get(branch.name, set())
        self._seen[branch.name] = set(places)
        yield from (event for place, event in places.items() if place not in seen)

    async def _look_at(self, branch: Branch, event: RoundFinished, append: Append) -> bool:
        body = await self._loaded.bodies.read_stored(event.reply)
        if _NAME not in body or is_refusal(event.stop_reason):
            return False
        said = [each for each in _directives(body, branch) if isinstance(each, cleanup_tags.TagSummary)]
        changed = False
        for summary in said[:MOST_TEXTS]:
            each = own(self._loaded.state.memory, branch.name, summary.object_id)
            if not isinstance(each, RefusedCall):
                changed |= await self._summarize(each, summary, event.at, append)
        return changed

    async def _summarize(self, each: MemoryObject, summary: cleanup_tags.TagSummary, at: int, append: Append) -> bool:
        """Make the text a rendition of its object, the fullest that it lacks, if it may be one."""
        known, bodies = self._loaded.state.memory, self._loaded.bodies
        deferred = work.missing_of(each, known)
        given = sha256(summary.text.encode()).digest() in {rendition.text for rendition in each.renditions.values()}
        if deferred is None or deferred.size > LARGEST or given:
            return False
        content = await bodies.read_stored(deferred.content)
        detailed = None if deferred.detailed is None else (await bodies.content(deferred.detailed)).decode()
        written = await trio.to_thread.run_sync(_check, summary, deferred, content, detailed, abandon_on_cancel=True)
        if written is None:
            return False
        command, data = written.command(deferred, at), written.text.encode()
        events = objects.decide(command, self._loaded.state.memory)
        if events:
            contents = () if command.text in bodies.known else ((command.text, data),)
            await append(events, _COMMAND, contents)
        return bool(events)


def _check(
    summary: cleanup_tags.TagSummary, deferred: work.DeferredSummary, content: bytes, detailed: str | None
) -> Written | None:
    """The rendition that the text makes; None if it must not be one."""
    full = full_text(content)
    candidate = ProposedRendition(summary.text, Declared(dropped=summary.dropped))
    if isinstance(accept(request_of(deferred, full), candidate), Rejected):
        # Not the reason: it may quote what somebody's file says.
        log.info("a text for object %s in a cleanup tag cannot stand for it", deferred.object)
        return None
    return measure_losses(deferred, full, detailed, candidate, helper=HELPER, nanodollars=0)


_NAME = b"memory_cleanup"
_COMMAND = "ObeyTags"

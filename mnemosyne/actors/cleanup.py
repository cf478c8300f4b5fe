"""Obeys the cleanup tags in replies: no turn fails by it.

A tag is the model's word and no more. Objects are released and pinned as far as ``domain/recall/cleanup_effects.py``
lets it; a text that shall stand for an object becomes its rendition after the checks that a helper's text must pass,
for which nobody waits.
"""

import logging
from collections.abc import Callable, Sequence
from functools import reduce

import attrs
import trio

from mnemosyne.actors.answering import now_of
from mnemosyne.actors.appending import Append
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.patience import Patience
from mnemosyne.actors.summarizing import Written, measured, request_of
from mnemosyne.domain.objects import memory, work
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.recall import cleanup_effects
from mnemosyne.domain.recall.cleanup_effects import Collapsed, Effects
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.state import Address, Session, evolve
from mnemosyne.domain.summaries.renditions import Candidate, Rejected, accept
from mnemosyne.domain.tools import cleanup_tags
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.reply import Reply, json_object
from mnemosyne.errors import MnemosyneError

log = logging.getLogger(__name__)

HELPER = "cleanup tag"
"""Who wrote a rendition that the model gave in a tag."""

MOST_TEXTS = 4
"""Texts of one reply that are looked at."""

LARGEST = 100_000
"""Characters of an object for which a text is looked at: comparing them takes a tenth of a second."""


@attrs.frozen(kw_only=True)
class _Text:
    """A text that the model wrote to stand for an object, in a reply that came whole."""

    summary: cleanup_tags.Summarize
    at: int
    correlation_id: str


class CleanupTags:
    """Those of one session. ``append`` records events under the name of a command, with the contents they name."""

    def __init__(self, state: Callable[[], Session], bodies: Bodies, append: Append, patience: Patience) -> None:
        self._patience = patience
        self._state = state
        self._bodies = bodies
        self._append = append
        self._texts: list[list[_Text]] = []

    def hear(
        self, address: Address, reply: Reply, at: int, correlation_id: str, round_: Sequence[Event]
    ) -> tuple[Event, ...]:
        """What a round's reply, which came whole, releases and pins. That goes on record with the reply itself, behind
        the events of the ``round_``, so it cannot be lost between the two. Texts are looked at later (``obey``).

        Nothing if that fails. A reply that was refused is none of the model's.
        """
        if _NAME not in reply.body or reply.stop_reason == "refusal":
            return ()
        try:
            found = self._effects(address, reply, at, round_)
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
        summaries = [each for each in found.texts if isinstance(each, cleanup_tags.Summarize)]
        texts = [_Text(summary=each, at=at, correlation_id=correlation_id) for each in summaries[:MOST_TEXTS]]
        if texts:
            self._texts.append(texts)
        return found.events

    def _effects(self, address: Address, reply: Reply, at: int, round_: Sequence[Event]) -> Effects:
        """What the directives lead to, each in view of those before it."""
        state, found = reduce(evolve, round_, self._state()), Effects()
        known, now = state.memory, now_of(state, address)
        for directive in cleanup_tags.of_reply(json_object(reply.body)):
            led = cleanup_effects.effects(directive, known, address.branch, now, at=at)
            known = reduce(memory.evolve, led.events, known)
            found += led
        return found

    async def obey(self) -> None:
        """Look at the texts that came since the last time. They are no more than suggestions: what was not looked at
        when a process ends is summarized by a helper like any other object.
        """
        heard, self._texts = self._texts, []
        for texts in heard:
            try:
                with trio.move_on_after(self._patience.texts):
                    for each in texts:
                        await self._summarize(each)
            except MnemosyneError as error:
                log.warning("texts in cleanup tags could not be looked at: %s", error)
            except Exception:
                log.exception("texts in cleanup tags could not be looked at")

    async def _summarize(self, text: _Text) -> None:
        """Make the text a rendition of its object, the fullest that it lacks, if it may be one."""
        known, summary = self._state().memory, text.summary
        owed = work.missing_of(known.objects[summary.object_id], known)
        if owed is None or owed.size > LARGEST:
            return
        content = await self._bodies.assembled(recipe.apply(Recipe(), recipe.decode(owed.content)))
        detailed = None if owed.detailed is None else (await self._bodies.content(owed.detailed)).decode()
        written = await trio.to_thread.run_sync(_checked, summary, owed, content, detailed, abandon_on_cancel=True)
        if written is None:
            return
        command, data = written.command(owed, text.at), written.text.encode()
        events = work.summarized(command, self._state().memory)
        if events:
            contents = () if command.text in self._bodies.known else ((command.text, data),)
            await self._append(events, _COMMAND, text.correlation_id, contents)


def _checked(
    summary: cleanup_tags.Summarize, owed: work.Summarize, content: bytes, detailed: str | None
) -> Written | None:
    """The rendition that the text makes; None if it must not be one."""
    full = full_text(content)
    candidate = Candidate(summary.text, Declared(dropped=summary.dropped))
    if isinstance(accept(request_of(owed, full, detailed), full, candidate), Rejected):
        # Not the reason: it may quote what somebody's file says.
        log.info("a text for object %s in a cleanup tag cannot stand for it", owed.object)
        return None
    return measured(owed, full, detailed, candidate, helper=HELPER, nanodollars=0)


_NAME = b"memory_cleanup"
_COMMAND = "ObeyTags"

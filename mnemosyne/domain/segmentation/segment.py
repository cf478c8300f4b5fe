"""Structural segmentation: the blocks of a history that form one object, its description, and the objects that it makes
obsolete.

The boundaries are those of tool calls. A call and its results are one unit; prose, small results and small edits of one
file collect in *runs* until there is enough for an object. Thinking belongs to the block that follows it in its
message.

Invariants. Every block belongs to exactly one object with places, or is still open; open blocks are at most
``OPEN_MESSAGES`` messages old. The history is read once, in order, and nothing depends on later messages or on where
the history was split into requests: segmenting it turn by turn, with ``SegmentationState`` folded from the objects in
between, makes the same objects as segmenting it at once. Only a pause divides runs: it ``closes`` them all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.objects.events import BlockPlace, LinkRelation, Supersession
from mnemosyne.domain.objects.index import Done, Showing, Target, lines_of
from mnemosyne.domain.objects.kinds import (
    KINDS,
    READ,
    REFERENCED,
    RESOLVED,
    UNCHANGED,
    UNRESOLVED,
    WRITTEN,
    ObjectKind,
    Role,
    is_change,
    list_declared,
)
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.objects.units import RUN, Description, Unit
from mnemosyne.domain.segmentation import exchanges, files, prose, references, tools
from mnemosyne.domain.segmentation.authors import Author, find_authors
from mnemosyne.domain.segmentation.index_line import index_line
from mnemosyne.domain.text.parts import PartRole, TextPart
from mnemosyne.domain.text.stubs import parts, render_count, stub
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.normal_form import THINKING

ENOUGH = 1_500
"""How many characters make an object: about 500 tokens."""

NOTHING: Mapping[str, tuple[str, ...]] = {}

OPEN_MESSAGES = 8
"""How many messages a run may span before it is closed, however small it is."""


@attrs.frozen
class SeenMessage:
    """One message of a branch's history as the client sends it: ``index`` from 0, ``turn`` the number of the request in
    which it first appeared, ``content`` its blocks (a string is one text block).
    """

    index: int
    role: str
    turn: int
    content: Sequence[Mapping[str, Any]]


@attrs.frozen
class DraftLink:
    """A link to an object (its id) or to another draft of the same segmentation (its number)."""

    relation: LinkRelation
    target: Target


@attrs.frozen(kw_only=True)
class Draft:
    """An object to be made.

    ``text`` is its content without thinking, consisting of its ``parts``; ``line`` is its line in the index. ``places``
    are in order, and empty for a derived object. The places ``by_user`` contain the user's own words.
    """

    kind: ObjectKind
    role: Role
    source_tool: str | None
    source_key: str | None
    tags: tuple[str, ...]
    first_turn: int
    last_turn: int
    places: tuple[BlockPlace, ...]
    text: str
    stub: str
    line: str
    parts: tuple[TextPart, ...] = ()
    by_user: tuple[BlockPlace, ...] = ()
    key_entities: tuple[str, ...] = ()
    links: tuple[DraftLink, ...] = ()


@attrs.frozen
class Superseded:
    """An object or draft that is out of date. ``by`` is the draft that replaces it; None if a change of the file made
    it stale and that change is not an object yet.
    """

    target: Target
    by: int | None
    how: Supersession


@attrs.frozen(kw_only=True)
class Segmented:
    """The result of a segmentation, in order. ``open`` is where the next one begins
    (``SegmentationState.settle_before``).

    Fold all drafts, then all supersessions: the order between the two does not matter.
    """

    drafts: tuple[Draft, ...]
    supersessions: tuple[Superseded, ...]
    open: int


def segment(
    messages: Sequence[SeenMessage],
    known: SegmentationState,
    declared: Mapping[str, tuple[str, ...]] = NOTHING,
    *,
    closes: bool = False,
) -> Segmented:
    """Make objects of the messages from ``known.open`` to the end of a branch's history. ``declared`` are the tags of
    calls, by id, whose tools declared what they read and changed. If it ``closes``, only calls without a result stay
    open.

    Never raises, whatever the blocks contain. Linear in the size of the messages.
    """
    segmenter = _Segmenter(known, declared)
    for message in messages:
        segmenter.read(message)
    if closes:
        segmenter.close()
    return Segmented(
        drafts=tuple(segmenter.drafts), supersessions=tuple(segmenter.supersessions), open=segmenter.open(messages)
    )


@attrs.frozen
class _Call:
    """A call that waits for its result; its places begin with the thinking before it."""

    places: tuple[BlockPlace, ...]
    block: Mapping[str, Any]
    turn: int


@attrs.define
class _Run:
    """Units of one group that are together too small for an object."""

    units: list[Unit] = attrs.field(factory=list)
    keys: set[str | None] = attrs.field(factory=set)
    size: int = 0

    def add(self, unit: Unit) -> None:
        self.units.append(unit)
        self.keys.add(unit.about.key)
        self.size += len(unit.about.text)

    def without(self, removed: Unit) -> "_Run":
        rest = _Run()
        for unit in self.units:
            if unit is not removed:
                rest.add(unit)
        return rest


class _Segmenter:
    """Reads a history in order. Its state, other than the drafts, follows from the blocks that are in no object."""

    def __init__(self, known: SegmentationState, declared: Mapping[str, tuple[str, ...]]) -> None:
        self.drafts: list[Draft] = []
        self.supersessions: list[Superseded] = []
        self._known = known
        self._declared = declared
        self._index = known.index
        self._prompt = known.index.prompt
        self._calls: dict[str, list[_Call]] = {}
        """The waiting calls by id. Some servers give the same id to all calls of a reply: their results come in
        order.
        """
        self._last_from_others = 0
        """The index of the last message that was not the assistant's."""
        self._runs: dict[str, _Run] = {}
        self._paths = references.Paths()
        self._thoughts: tuple[BlockPlace, ...] = ()
        """Thinking that no other block has followed yet: some dialects send it in a separate message."""

    def open(self, messages: Sequence[SeenMessage]) -> int:
        """Return the first message with a block that is in no object."""
        waiting = [*self._thoughts, *(place for call in self._waiting() for place in call.places)]
        waiting += [place for run in self._runs.values() for unit in run.units for place in unit.places]
        end = messages[-1].index + 1 if messages else self._known.open
        return min((place.message for place in waiting), default=end)

    def read(self, message: SeenMessage) -> None:
        """Process the next message."""
        self._close_old(message.index)
        new_blocks = [(BlockPlace(message.index, number), block) for number, block in enumerate(message.content)]
        new_blocks = [(place, block) for place, block in new_blocks if place not in self._known.owned]
        results: dict[str, list[tuple[BlockPlace, Mapping[str, Any]]]] = {}
        for place, block in new_blocks:
            if blocks.is_any_result(block):
                results.setdefault(str(blocks.call_id_of(block)), []).append((place, block))
        who = find_authors(message.role, message.content)
        if message.role != "assistant":
            self._end_thoughts(message.turn)
        thinking, self._thoughts = self._thoughts, ()
        for place, block in new_blocks:
            if blocks.type_of(block) in THINKING:
                thinking = (*thinking, place)
                continue
            if blocks.is_any_result(block):
                identity = str(blocks.call_id_of(block))
                rest = results[identity]
                if not rest:  # taken together with the first result of its call
                    continue
                taken = rest[:1] if len(self._calls.get(identity, ())) > 1 else rest
                results[identity] = rest[len(taken) :]
                self._answer(message.turn, thinking, taken)
            elif blocks.is_any_call(block):
                self._call(_Call((*thinking, place), block, message.turn))
            else:
                self._add_prose(message, (*thinking, place), block, who[place.block])
            thinking = ()
        self._thoughts = thinking
        if message.role != "assistant":
            self._last_from_others = message.index

    def _waiting(self) -> list[_Call]:
        return [call for calls in self._calls.values() for call in calls]

    def _end_thoughts(self, turn: int) -> None:
        """Make a unit of thinking that nothing followed."""
        if self._thoughts:
            self._add(Unit(prose.thoughts(), self._thoughts, turn, turn))
            self._thoughts = ()

    def _call(self, call: _Call) -> None:
        identity = str(call.block.get("id"))
        for old in self._calls.get(identity, [])[:]:
            if old.places[-1].message < self._last_from_others:
                self._give_up(old)
        self._calls.setdefault(identity, []).append(call)

    def _give_up(self, call: _Call) -> None:
        """Make an object of a call that was never answered."""
        self._remove_waiting(call)
        self._emit([Unit(tools.describe(call.block, []), call.places, call.turn, call.turn)])

    def _remove_waiting(self, call: _Call) -> None:
        identity = str(call.block.get("id"))
        self._calls[identity].remove(call)
        if not self._calls[identity]:
            del self._calls[identity]

    def _answer(
        self, turn: int, thinking: tuple[BlockPlace, ...], results: Sequence[tuple[BlockPlace, Mapping[str, Any]]]
    ) -> None:
        call = next(iter(self._calls.get(str(blocks.call_id_of(results[0][1])), ())), None)
        if call is not None:
            self._remove_waiting(call)
        found = [block for _, block in results]
        about = _mark_references(tools.describe(call.block if call else None, found), found)
        if declared := self._declared.get(str(blocks.call_id_of(results[0][1]))):
            about = attrs.evolve(about, tags=(*about.tags, *declared))
        places = (*(call.places if call else ()), *thinking, *(place for place, _ in results))
        self._add(Unit(about, places, call.turn if call else turn, turn))

    def _add_prose(
        self, message: SeenMessage, places: tuple[BlockPlace, ...], block: Mapping[str, Any], author: Author
    ) -> None:
        about = prose.describe(message.role, block)
        prompts = "user" in about.tags
        if prompts and blocks.type_of(block) == "text" and "summary" not in about.tags:
            if author is Author.OTHER:
                about, prompts = prose.describe_attached(about.text), False
            elif author is Author.CLIENT:  # the text of a command, which the user called
                about = prose.describe_inserted(about.text)
        about = _mark_references(about, [block])
        if prompts and places[0].message > self._prompt.message:
            self._begin_exchange(places[0])
        self._add(Unit(about, places, message.turn, message.turn))

    def _begin_exchange(self, prompt: BlockPlace) -> None:
        """Close everything that is open at a user's prompt."""
        self.close()
        self._make_debugging(self._find_unsolved(prompt), UNRESOLVED)
        self._prompt = prompt

    def _add(self, unit: Unit) -> None:
        about, first = unit.about, unit.places[0]
        if RUN in about.tags and (KINDS[about.kind].is_failure or self._failure(about.key, first)):
            self.close(group for group in self._runs if group != prose.GROUP)  # its causes come first
        if is_change(about.tags):
            self.close([files.reads_of(about.key)])
        if changed := {READ + path for path in list_declared(about.tags, WRITTEN)}:
            tags = {name: {tag for unit in run.units for tag in unit.about.tags} for name, run in self._runs.items()}
            self.close(name for name in tags if changed & tags[name])
        if UNCHANGED in about.tags:
            self.close([about.group])  # the object that it refers to, so that a link can name it
        again = about.key and not KINDS[about.kind].is_file and self._has_object_of(about, about.key, first)
        if about.alone or again or (len(about.text) >= ENOUGH and about.group != prose.GROUP):
            self._emit([unit])
            return
        run = self._runs.setdefault(about.group, _Run())
        run.add(unit)
        self._mark_stale(unit, None)
        if run.size >= ENOUGH:
            self.close([about.group])

    def _has_object_of(self, about: Description, key: str, place: BlockPlace) -> bool:
        """Return whether there is an object of the same source. A waiting run with another outcome is closed first."""
        for group in (exchanges.failures_of(key), ObjectKind.TOOL_RESULT.value, ObjectKind.EXTERNAL_REFERENCE.value):
            if group != about.group and group in self._runs and key in self._runs[group].keys:
                self.close([group])
        return self._index.find_before(key, place) is not None

    def _close_old(self, message: int) -> None:
        too_old = message - OPEN_MESSAGES
        self.close(group for group, run in self._runs.items() if run.units[0].places[0].message <= too_old)
        for call in [call for call in self._waiting() if call.places[0].message <= too_old]:
            self._give_up(call)

    def close(self, groups: Iterable[str] | None = None) -> None:
        """Make objects of the runs of some groups, or of all, however small they are."""
        for group in list(self._runs if groups is None else groups):
            run = self._runs.pop(group, None)
            if run is not None:
                self._emit(run.units)

    def _emit(self, members: Sequence[Unit]) -> None:
        """Make one object of these units."""
        number = len(self.drafts)
        draft = _draft(members)
        covered = list(self._find_covered(number, draft))
        links = [(LinkRelation.SUPERSEDES, superseded.target) for superseded in covered]
        links += references.links(draft, self._index, self._paths, self._prompt)
        self._keep(attrs.evolve(draft, links=tuple(DraftLink(*link) for link in links)))
        self.supersessions += covered
        for unit in members:
            self._mark_stale(unit, number)
        self._mark_stale_late(draft)
        failure = self._failure(draft.source_key, draft.places[0])
        if failure is not None and RUN in draft.tags and not KINDS[draft.kind].is_failure:
            self._make_debugging([done for done in self._index.recent if done.place >= failure.place], RESOLVED)
        self._emit_repetition(draft)

    def _emit_repetition(self, draft: Draft) -> None:
        """Make an object of a waiting unit with the same source as a draft that was made late or whose answer is
        missing.
        """
        if draft.source_key is None or KINDS[draft.kind].is_file:
            return
        for group, run in self._runs.items():
            for unit in run.units:
                if unit.about.key == draft.source_key and unit.places[0] > draft.places[0]:
                    self._runs[group] = run.without(unit)
                    if not self._runs[group].units:
                        del self._runs[group]
                    self._emit([unit])
                    return

    def _keep(self, draft: Draft) -> None:
        children = [link.target for link in draft.links if link.relation is LinkRelation.PARENT_OF]
        self._index = self._index.after(len(self.drafts), draft, children)
        self.drafts.append(draft)

    def _find_covered(self, number: int, draft: Draft) -> Iterator[Superseded]:
        """Yield the objects that a draft replaces."""
        if draft.source_key is None:
            return
        if KINDS[draft.kind].is_file:
            how = Supersession.REREAD if "read" in draft.tags else Supersession.EDITED
            new = Showing(number, draft.places[-1], lines_of(draft.tags))
            for showing in self._index.find_covered(draft.source_key, new):
                yield Superseded(showing.target, number, how)
        else:
            before = self._index.find_before(draft.source_key, draft.places[0])
            if before is not None:
                how = Supersession.REVISED if KINDS[draft.kind].is_settled else Supersession.REREAD
                yield Superseded(before.target, number, how)

    def _mark_stale(self, unit: Unit, by: int | None) -> None:
        """Mark objects of a file that was read before it was changed as stale."""
        changed = list(list_declared(unit.about.tags, WRITTEN))
        if is_change(unit.about.tags) and KINDS[unit.about.kind].is_file and unit.about.key is not None:
            changed.append(unit.about.key)
        for path in changed:
            for showing in list(self._index.fresh(path, unit.places[-1])):
                if showing.target != by:
                    self.supersessions.append(Superseded(showing.target, by, Supersession.EDITED))
                    self._index = self._index.supersede(showing.target)

    def _mark_stale_late(self, draft: Draft) -> None:
        """Mark a call that was given up late as stale because of later changes that still wait in a run."""
        if draft.source_key is not None and KINDS[draft.kind].is_file:
            for unit in [waiting for run in self._runs.values() for waiting in run.units]:
                if unit.about.key == draft.source_key:
                    self._mark_stale(unit, None)

    def _failure(self, key: str | None, place: BlockPlace) -> Done | None:
        """Return the first failure with this key in the current exchange, if it was before a place."""
        for done in self._index.recent:
            if done.failed and done.key == key is not None and self._prompt < done.place < place:
                return done
        return None

    def _find_unsolved(self, prompt: BlockPlace) -> list[Done]:
        """Return the steps taken for an error that was unresolved at the user's next prompt."""
        here = [done for done in self._index.recent if self._prompt < done.place < prompt]
        for error in here:
            later = [done for done in here if done.place > error.place]
            if error.failed and any(done.changed or (done.failed and done.key == error.key) for done in later):
                return [error, *later]
        return []

    def _make_debugging(self, members: Sequence[Done], how: str) -> None:
        """Make a debugging session of its parts, the first of which is the error."""
        if not members:
            return
        line = stub(f"Debugging {members[0].key}: {how}", render_count(len(members), "object"))
        self._keep(
            Draft(
                kind=ObjectKind.DEBUGGING_SESSION,
                role=Role.DERIVED,
                source_tool=None,
                source_key=members[0].key,
                tags=(how,),
                first_turn=min(member.turn for member in members),
                last_turn=max(member.turn for member in members),
                places=(),
                text=line,
                stub=line,
                line=line,
                links=tuple(DraftLink(LinkRelation.PARENT_OF, member.target) for member in members),
            )
        )


def _mark_references(about: Description, found: Iterable[Mapping[str, Any]]) -> Description:
    """Mark an object that contains images or documents known by reference, and separate it, so that nothing else must
    be kept.
    """
    if not any(blocks.is_referenced(attached) for block in found for attached in blocks.list_attached(block)):
        return about
    return attrs.evolve(about, tags=(*about.tags, REFERENCED), alone=True)


def _draft(members: Sequence[Unit]) -> Draft:
    about = [unit.about for unit in members]
    tools_used = {description.tool for description in about}
    keys = {description.key for description in about}
    stub_text = parts([description.stub for description in about], "call" if about[0].tool else "text")
    return Draft(
        kind=about[0].kind,
        role=Role.CLAIM if KINDS[about[0].kind].is_settled else Role.TRANSCRIPT,
        source_tool=about[0].tool if len(tools_used) == 1 else None,
        source_key=about[0].key if len(keys) == 1 else None,
        tags=tuple(dict.fromkeys(tag for description in about for tag in description.tags)),
        first_turn=min(unit.first_turn for unit in members),
        last_turn=max(unit.last_turn for unit in members),
        places=tuple(sorted(place for unit in members for place in unit.places)),
        text="\n".join(description.text for description in about),
        parts=tuple(part for description in about for part in description.parts),
        by_user=tuple(
            unit.places[-1] for unit in members if any(part.role is PartRole.USER for part in unit.about.parts)
        ),
        stub=stub_text,
        line=index_line(stub_text, about),
    )

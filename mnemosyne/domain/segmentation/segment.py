"""Structural segmentation: which blocks of a history belong together as one object, what each object is about, and
what it makes obsolete.

The boundaries are those of tool calls. A call and its results are one unit; what was said, small results and small
edits of one file collect in *runs* until there is enough to be worth an object. Thinking goes with the block that
follows it in its message.

Laws. Every block belongs to exactly one object that has places, or is still open; what is open is at most
``OPEN_MESSAGES`` messages old. The history is read once, in order, and nothing depends on what comes later or on
where it was cut into calls: segmenting it turn by turn, with ``SegmentationState`` folded from the objects in between,
makes the same objects as segmenting it at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.objects.events import BlockPlace, LinkRelation, Supersession
from mnemosyne.domain.objects.index import Done, Showing, Target, lines_of
from mnemosyne.domain.objects.kinds import (
    KINDS,
    REFERENCED,
    RESOLVED,
    UNCHANGED,
    UNRESOLVED,
    ObjectKind,
    Role,
    is_change,
)
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.objects.units import RUN, Description, Unit
from mnemosyne.domain.segmentation import exchanges, files, prose, references, tools
from mnemosyne.domain.segmentation.lines import index_line
from mnemosyne.domain.segmentation.speaking import Speaker, speakers
from mnemosyne.domain.text.announcements import only_announces
from mnemosyne.domain.text.parts import TextPart, Voice
from mnemosyne.domain.text.stubs import parts, render_count, stub
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.normal_form import THINKING
from mnemosyne.steps import Steps, finish

ENOUGH = 1_500
"""Characters that make an object: about 500 tokens."""

OPEN_MESSAGES = 8
"""How many messages a run may span before it is closed, however small it is."""


@attrs.frozen
class SeenMessage:
    """One message of a branch's history as the client sends it: ``index`` from 0, ``turn`` the number of the request
    in which it first came, ``content`` its blocks (a string is one text block).
    """

    index: int
    role: str
    turn: int
    content: Sequence[Mapping[str, Any]]


@attrs.frozen
class DraftLink:
    """An edge to an object (its id) or to another draft of the same segmentation (its number)."""

    relation: LinkRelation
    target: Target


@attrs.frozen(kw_only=True)
class Draft:
    """An object to be made. ``text`` is what it says, thinking left out, in its ``parts``, ``line`` what the index says
    of it; ``places`` are in order, and none for a derived object. What stands at those ``by_user`` the user said.
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
    """An object or draft that no longer says how things are. ``by`` is the draft that does; None where a change of
    the file made it stale that is not an object yet.
    """

    target: Target
    by: int | None
    how: Supersession


@attrs.frozen(kw_only=True)
class Segmented:
    """What a segmentation found, in order. ``open`` is where the next one begins (``SegmentationState.settle_before``).

    Fold all drafts, then all supersessions: the order between the two does not matter.
    """

    drafts: tuple[Draft, ...]
    supersessions: tuple[Superseded, ...]
    open: int


def segment(messages: Sequence[SeenMessage], known: SegmentationState) -> Segmented:
    """Objects for the messages from ``known.open`` to the end of a branch's history.

    Total: whatever the blocks hold. Linear in what the messages hold.
    """
    return finish(segment_in_steps(messages, known))


def segment_in_steps(messages: Sequence[SeenMessage], known: SegmentationState) -> Steps[Segmented]:
    """See ``segment``; a step for each message."""
    segmenter = _Segmenter(known)
    for message in messages:
        segmenter.read(message)
        yield
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
    """Units of one group that are together not yet worth an object."""

    units: list[Unit] = attrs.field(factory=list)
    keys: set[str | None] = attrs.field(factory=set)
    size: int = 0

    def add(self, unit: Unit) -> None:
        """Take another one."""
        self.units.append(unit)
        self.keys.add(unit.about.key)
        self.size += len(unit.about.text)

    def without(self, gone: Unit) -> "_Run":
        """The run of all others."""
        rest = _Run()
        for unit in self.units:
            if unit is not gone:
                rest.add(unit)
        return rest


class _Segmenter:
    """Reads a history in order. What it holds beside the drafts can be had again from the blocks in no object."""

    def __init__(self, known: SegmentationState) -> None:
        self.drafts: list[Draft] = []
        self.supersessions: list[Superseded] = []
        self._known = known
        self._index = known.index
        self._prompt = known.index.prompt
        self._calls: dict[str, list[_Call]] = {}
        """The calls that wait, by id. Some servers give one id to all calls of a reply: results come in their order."""
        self._heard = 0
        """The last message that was not the assistant's."""
        self._runs: dict[str, _Run] = {}
        self._paths = references.Paths()
        self._thoughts: tuple[BlockPlace, ...] = ()
        """What the model has thought and not acted on yet: some dialects send it in a message of its own."""

    def open(self, messages: Sequence[SeenMessage]) -> int:
        """The first message with a block that is in no object."""
        waiting = [*self._thoughts, *(place for call in self._waiting() for place in call.places)]
        waiting += [place for run in self._runs.values() for unit in run.units for place in unit.places]
        end = messages[-1].index + 1 if messages else self._known.open
        return min((place.message for place in waiting), default=end)

    def read(self, message: SeenMessage) -> None:
        """Take the next message."""
        self._close_old(message.index)
        found = [(BlockPlace(message.index, number), block) for number, block in enumerate(message.content)]
        found = [(place, block) for place, block in found if place not in self._known.owned]
        results: dict[str, list[tuple[BlockPlace, Mapping[str, Any]]]] = {}
        for place, block in found:
            if blocks.is_any_result(block):
                results.setdefault(str(blocks.call_id_of(block)), []).append((place, block))
        who = speakers(message.role, message.content)
        if message.role != "assistant":
            self._end_thoughts(message.turn)
        thinking, self._thoughts = self._thoughts, ()
        for place, block in found:
            if blocks.type_of(block) in THINKING:
                thinking = (*thinking, place)
                continue
            if blocks.is_any_result(block):
                identity = str(blocks.call_id_of(block))
                rest = results[identity]
                if not rest:  # it went with the first result of its call
                    continue
                taken = rest[:1] if len(self._calls.get(identity, ())) > 1 else rest
                results[identity] = rest[len(taken) :]
                self._answer(message.turn, thinking, taken)
            elif blocks.is_any_call(block):
                self._call(_Call((*thinking, place), block, message.turn))
            else:
                self._say(message, (*thinking, place), block, who[place.block])
            thinking = ()
        self._thoughts = thinking
        if message.role != "assistant":
            self._heard = message.index

    def _waiting(self) -> list[_Call]:
        return [call for calls in self._calls.values() for call in calls]

    def _end_thoughts(self, turn: int) -> None:
        """The model said nothing after what it thought last."""
        if self._thoughts:
            self._add(Unit(prose.thoughts(), self._thoughts, turn, turn))
            self._thoughts = ()

    def _call(self, call: _Call) -> None:
        identity = str(call.block.get("id"))
        for old in self._calls.get(identity, [])[:]:
            if old.places[-1].message < self._heard:
                self._give_up(old)
        self._calls.setdefault(identity, []).append(call)

    def _give_up(self, call: _Call) -> None:
        """Make an object of a call that was never answered."""
        self._end_wait(call)
        self._emit([Unit(tools.describe(call.block, []), call.places, call.turn, call.turn)])

    def _end_wait(self, call: _Call) -> None:
        identity = str(call.block.get("id"))
        self._calls[identity].remove(call)
        if not self._calls[identity]:
            del self._calls[identity]

    def _answer(
        self, turn: int, thinking: tuple[BlockPlace, ...], results: Sequence[tuple[BlockPlace, Mapping[str, Any]]]
    ) -> None:
        call = next(iter(self._calls.get(str(blocks.call_id_of(results[0][1])), ())), None)
        if call is not None:
            self._end_wait(call)
        found = [block for _, block in results]
        about = _mark_references(tools.describe(call.block if call else None, found), found)
        places = (*(call.places if call else ()), *thinking, *(place for place, _ in results))
        self._add(Unit(about, places, call.turn if call else turn, turn))

    def _say(
        self, message: SeenMessage, places: tuple[BlockPlace, ...], block: Mapping[str, Any], speaker: Speaker
    ) -> None:
        about = prose.describe(message.role, block)
        if "user" in about.tags and speaker is Speaker.OTHER and blocks.type_of(block) == "text":
            about = prose.describe_attached(about.text)
        about = _mark_references(about, [block])
        if "user" in about.tags and places[0].message > self._prompt.message:
            self._begin_exchange(places[0])
        self._add(Unit(about, places, message.turn, message.turn))

    def _begin_exchange(self, prompt: BlockPlace) -> None:
        """A user's prompt ends everything that is open."""
        self._close(self._runs)
        self._make_debugging(self._find_unsolved(prompt), UNRESOLVED)
        self._prompt = prompt

    def _add(self, unit: Unit) -> None:
        about, first = unit.about, unit.places[0]
        if RUN in about.tags and (KINDS[about.kind].is_failure or self._failure(about.key, first)):
            self._close(group for group in self._runs if group != prose.GROUP)  # what led to it comes before it
        if is_change(about.tags):
            self._close([files.reads_of(about.key)])
        if UNCHANGED in about.tags:
            self._close([about.group])  # what it refers to, so that it can be named
        again = about.key and not KINDS[about.kind].is_file and self._was_asked(about, about.key, first)
        if about.alone or again or (len(about.text) >= ENOUGH and about.group != prose.GROUP):
            self._emit([unit])
            return
        run = self._runs.setdefault(about.group, _Run())
        run.add(unit)
        self._outdate(unit, None)
        if run.size >= ENOUGH:
            self._close([about.group])

    def _was_asked(self, about: Description, key: str, place: BlockPlace) -> bool:
        """Whether there is an object of the same source. One that is about to be, with another outcome, is made now."""
        for group in (exchanges.failures_of(key), ObjectKind.TOOL_RESULT.value, ObjectKind.EXTERNAL_REFERENCE.value):
            if group != about.group and group in self._runs and key in self._runs[group].keys:
                self._close([group])
        return self._index.find_before(key, place) is not None

    def _close_old(self, message: int) -> None:
        too_old = message - OPEN_MESSAGES
        self._close(group for group, run in self._runs.items() if run.units[0].places[0].message <= too_old)
        for call in [each for each in self._waiting() if each.places[0].message <= too_old]:
            self._give_up(call)

    def _close(self, groups: Iterable[str]) -> None:
        for group in list(groups):
            run = self._runs.pop(group, None)
            if run is not None:
                self._emit(run.units)

    def _emit(self, members: Sequence[Unit]) -> None:
        """Make one object of units."""
        number = len(self.drafts)
        draft = _draft(members)
        covered = list(self._find_covered(number, draft))
        links = [(LinkRelation.SUPERSEDES, each.target) for each in covered]
        links += references.links(draft, self._index, self._paths)
        self._keep(attrs.evolve(draft, links=tuple(DraftLink(*link) for link in links)))
        self.supersessions += covered
        for unit in members:
            self._outdate(unit, number)
        self._outdate_late(draft)
        failure = self._failure(draft.source_key, draft.places[0])
        if failure is not None and RUN in draft.tags and not KINDS[draft.kind].is_failure:
            self._make_debugging([each for each in self._index.recent if each.place >= failure.place], RESOLVED)
        self._emit_asked_again(draft)

    def _emit_asked_again(self, draft: Draft) -> None:
        """What came before a late or missing answer and asked the same after it waits in a run no more."""
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
        """What a draft takes the place of."""
        if draft.source_key is None:
            return
        if KINDS[draft.kind].is_file:
            how = Supersession.REREAD if "read" in draft.tags else Supersession.EDITED
            new = Showing(number, draft.places[-1], lines_of(draft.tags))
            for each in self._index.find_covered(draft.source_key, new):
                yield Superseded(each.target, number, how)
        else:
            before = self._index.find_before(draft.source_key, draft.places[0])
            if before is not None:
                how = Supersession.REVISED if KINDS[draft.kind].is_settled else Supersession.REREAD
                yield Superseded(before.target, number, how)

    def _outdate(self, unit: Unit, by: int | None) -> None:
        """What was read of a file before it was changed is stale."""
        if is_change(unit.about.tags) and KINDS[unit.about.kind].is_file and unit.about.key is not None:
            for each in list(self._index.fresh(unit.about.key, unit.places[-1])):
                if each.target != by:
                    self.supersessions.append(Superseded(each.target, by, Supersession.EDITED))
                    self._index = self._index.supersede(each.target)

    def _outdate_late(self, draft: Draft) -> None:
        """A call that is given up becomes an object behind changes that came after it and still wait in a run."""
        if draft.source_key is not None and KINDS[draft.kind].is_file:
            for unit in [each for run in self._runs.values() for each in run.units]:
                if unit.about.key == draft.source_key:
                    self._outdate(unit, None)

    def _failure(self, key: str | None, place: BlockPlace) -> Done | None:
        """The first time in this exchange that something failed, if it did before a place."""
        for each in self._index.recent:
            if each.failed and each.key == key is not None and self._prompt < each.place < place:
                return each
        return None

    def _find_unsolved(self, prompt: BlockPlace) -> list[Done]:
        """What was done about an error that was still there when the user spoke again."""
        here = [each for each in self._index.recent if self._prompt < each.place < prompt]
        for error in here:
            later = [each for each in here if each.place > error.place]
            if error.failed and any(each.changed or (each.failed and each.key == error.key) for each in later):
                return [error, *later]
        return []

    def _make_debugging(self, members: Sequence[Done], how: str) -> None:
        """Make a debugging session of its parts, the first of which is the error."""
        if not members:
            return
        said = stub(f"Debugging {members[0].key}: {how}", render_count(len(members), "object"))
        self._keep(
            Draft(
                kind=ObjectKind.DEBUGGING_SESSION,
                role=Role.DERIVED,
                source_tool=None,
                source_key=members[0].key,
                tags=(how,),
                first_turn=min(each.turn for each in members),
                last_turn=max(each.turn for each in members),
                places=(),
                text=said,
                stub=said,
                line=said,
                links=tuple(DraftLink(LinkRelation.PARENT_OF, each.target) for each in members),
            )
        )


def _mark_references(about: Description, found: Iterable[Mapping[str, Any]]) -> Description:
    """The same for what holds images or documents that stay as they are: alone, so that nothing else has to stay."""
    if not any(blocks.is_referenced(each) for block in found for each in blocks.list_attached(block)):
        return about
    return attrs.evolve(about, tags=(*about.tags, REFERENCED), alone=True)


def _draft(members: Sequence[Unit]) -> Draft:
    about = [unit.about for unit in members]
    tools_used = {each.tool for each in about}
    keys = {each.key for each in about}
    typed = [number for number, unit in enumerate(members) if _is_prompt(unit)]
    idle = [
        number
        for number, each in enumerate(about)
        if not each.tool and number not in typed and only_announces(each.text)
    ]
    said = parts([each.stub for each in about], "call" if about[0].tool else "text", typed, idle)
    return Draft(
        kind=about[0].kind,
        role=Role.CLAIM if KINDS[about[0].kind].is_settled else Role.TRANSCRIPT,
        source_tool=about[0].tool if len(tools_used) == 1 else None,
        source_key=about[0].key if len(keys) == 1 else None,
        tags=tuple(dict.fromkeys(tag for each in about for tag in each.tags)),
        first_turn=min(unit.first_turn for unit in members),
        last_turn=max(unit.last_turn for unit in members),
        places=tuple(sorted(place for unit in members for place in unit.places)),
        text="\n".join(each.text for each in about),
        parts=tuple(part for each in about for part in each.parts),
        by_user=tuple(unit.places[-1] for unit in members if _is_prompt(unit)),
        stub=said,
        line=index_line(said, about),
    )


def _is_prompt(unit: Unit) -> bool:
    return any(part.voice is Voice.USER for part in unit.about.parts)

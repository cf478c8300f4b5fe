"""Page faults that a client hides: the model reads an evicted file again, and the client, whose own history still holds
it, answers with a reference to the earlier content.

The evicted content is inserted where the reference is, as the client sent it the first time. That happens once, in the
request that brings the reference; later requests repeat what was sent. If there is no room, or the reference does not
certainly mean exactly that content, the text stays and a line behind it names the object.

A relative path is resolved against the folder that the request itself names. A command may have moved the client to
another folder, so relative paths are uncertain once the model has written such a command.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import attrs

from mnemosyne.domain.cost.tokens import features_of_block
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Fault, Restore, decide_all
from mnemosyne.domain.objects.events import BlockPlace, FaultKind, ObjectEvent
from mnemosyne.domain.objects.faults import EvictionTurns
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.kinds import KINDS, UNCHANGED, is_change
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation import files, paths, tools
from mnemosyne.domain.segmentation.exchanges import ToolExchange, exchange_of
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.tools.memory_tools import RESTORE
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.situation import PendingRequest, Sizes, count_prompt, estimator_of, find_limit
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire import rereads
from mnemosyne.domain.wire.blocks import call_id_of, is_call, is_result, text_of
from mnemosyne.domain.wire.project import project_of_transcript
from mnemosyne.domain.wire.rereads import RefersTo
from mnemosyne.domain.wire.transcript import Transcript

Block = Mapping[str, Any]

REASON = "its file was read again, and the client answered with a reference to it"
"""The reason of a fault for content inserted in place of a reference."""


def render_pointer(object_id: str) -> str:
    """The line behind a text that refers to an evicted object."""
    return f"[That content has left your context: call {RESTORE} with {MARK}{object_id}.]"


class _Files:
    """Maps the paths of a conversation to files."""

    def __init__(self, read: Transcript) -> None:
        self._read = read

    @cached_property
    def _folder(self) -> str:
        return paths.normal(project_of_transcript(self._read) or "")

    def resolve(self, path: str) -> str:
        """Make a path absolute; a relative path stays unchanged if the request names no folder."""
        return paths.normal(path, self._folder) if paths.is_relative(path) else path

    def may_have_moved(self, message: int) -> bool:
        """Whether the folder before a message may differ from the one that the request names: the model has made a call
        that names no file, and such a call may run a command.
        """
        return any(
            is_call(block) and not files.path_of(exchange_of(block, []))
            for number in range(message)
            if self._read.messages[number].role == "assistant"
            for block in self._read.blocks(number)
        )


@attrs.frozen(kw_only=True)
class _Exchange:
    """A call and its result, the block at ``place``, about the file at a resolved ``path``."""

    message: int
    place: BlockPlace
    result: Block
    given: ToolExchange
    about: Description
    path: str
    is_relative: bool

    @property
    def is_change(self) -> bool:
        return KINDS[self.about.kind].is_file and is_change(self.about.tags)

    @property
    def is_read(self) -> bool:
        """Whether it returned content of the file."""
        return KINDS[self.about.kind].is_file and "read" in self.about.tags

    def asks_same(self, other: "_Exchange") -> bool:
        """Whether both reads ask for the same lines."""
        return files.find_asked(self.given) == files.find_asked(other.given)


@attrs.frozen(kw_only=True)
class _Earlier:
    """The target of a reference: an evicted ``object``. ``result`` is the block with the content, if the client's
    history holds it and the file was not changed since.
    """

    object: MemoryObject
    result: Block | None = None


def expect(asked: PendingRequest, session: Session) -> PendingRequest:
    """The request with all referenced content inserted if it has room, so that the planner sees its final size."""
    limit = find_limit(asked.settings.window, asked.model, session)
    history, _ = _answer(asked, session, lambda: limit if asked.settings.restores != "model" else 0)
    return asked if history is asked.history else attrs.evolve(asked, history=history)


def answer(asked: PendingRequest, session: Session, sizes: Sizes) -> tuple[UpstreamHistory, tuple[ObjectEvent, ...]]:
    """Insert evicted content where new messages refer to it. Return the history and the resulting events."""
    limit = find_limit(asked.settings.window, asked.model, session)
    return _answer(
        asked, session, lambda: limit - count_prompt(asked, session, sizes) if asked.settings.restores != "model" else 0
    )


def _answer(
    asked: PendingRequest, session: Session, find_room: Callable[[], int]
) -> tuple[UpstreamHistory, tuple[ObjectEvent, ...]]:
    history, memory, events = asked.history, session.memory, list[ObjectEvent]()
    room: int | None = None
    known = _Files(asked.read)
    for new in _list_new(asked.read, asked.kept, known):
        earlier = _find_earlier(new, asked, session, memory, known)
        if earlier is None:
            continue
        call = str(call_id_of(new.result))
        reference = rereads.find_reference(text_of(new.result))
        if earlier.result is not None and reference is not None:
            content = _with_text(earlier.result.get("content"), reference.rest)
            tokens = estimator_of(asked, session).tokens(features_of_block({**new.result, "content": content}))
            room = find_room() if room is None else room
            if tokens <= room:
                history, room = upstream_history.replace_result(history, new.message, call, content), room - tokens
                happened, memory = _restore(earlier.object, asked, memory, session.eviction_turns, tokens)
                events += happened
                continue
        content = _with_text(new.result.get("content"), render_pointer(earlier.object.id))
        history = upstream_history.replace_result(history, new.message, call, content)
    return history, tuple(events)


def _restore(
    obj: MemoryObject, asked: PendingRequest, memory: Memory, evicted: EvictionTurns, tokens: int
) -> tuple[tuple[ObjectEvent, ...], Memory]:
    fault = Fault(
        at=asked.at,
        object=obj.id,
        branch=asked.branch,
        turn=asked.turn,
        left=evicted.find_turn(asked.branch, obj.id),
        kind=FaultKind.IMPLICIT,
        reason=REASON,
        tokens=tokens,
    )
    restore = Restore(
        at=asked.at, object=obj.id, branch=asked.branch, turn=asked.turn, after=Fidelity.FULL, cause=Cause.FAULT
    )
    return decide_all((fault, restore), memory)


def _with_text(content: object, text: str) -> object:
    """Append a text to a result's content."""
    if not text:
        return content
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}\n\n{text}" if content else text


# New references


def _list_new(read: Transcript, kept: int, known: _Files) -> Iterator[_Exchange]:
    """The new results that refer to earlier content, or may do so."""
    for number in range(kept, len(read.messages)):
        for index, block in enumerate(read.blocks(number)):
            if is_result(block) and _may_refer(text_of(block)):
                found = _read_exchange(read, BlockPlace(number, index), block, known)
                if found is not None and _refers(found):
                    yield found


def _may_refer(text: str) -> bool:
    return rereads.find_reference(text) is not None or rereads.claims_own_change(text) or rereads.may_be_reference(text)


def _refers(new: _Exchange) -> bool:
    """Whether a file tool gave this answer; the output of a command is never taken for a reference."""
    return _is_captured(new) or (new.is_read and not new.given.failed and rereads.may_be_reference(new.given.answer))


def _is_captured(new: _Exchange) -> bool:
    """Whether a file tool answered in a wording captured from a real client."""
    if UNCHANGED in new.about.tags:
        return True
    return new.is_change and "write" not in new.about.tags and rereads.claims_own_change(new.given.answer)


def _read_exchange(read: Transcript, place: BlockPlace, result: Block, known: _Files) -> _Exchange | None:
    """A result with its call; None if there is no call, or it names no file."""
    wanted = call_id_of(result)
    for number in range(place.message, -1, -1):
        if read.messages[number].role == "assistant":
            for block in read.blocks(number):
                if is_call(block) and str(block.get("id")) == wanted:
                    return _make_exchange(block, place, result, known)
    return None


def _make_exchange(call: Block, place: BlockPlace, result: Block, known: _Files) -> _Exchange | None:
    given = exchange_of(call, [result])
    path = files.path_of(given)
    if not path:
        return None
    about = tools.describe(call, [result])
    return _Exchange(
        message=place.message,
        place=place,
        result=result,
        given=given,
        about=about,
        path=known.resolve(path),
        is_relative=paths.is_relative(path),
    )


# Targets of references


def _find_earlier(
    new: _Exchange, asked: PendingRequest, session: Session, memory: Memory, known: _Files
) -> _Earlier | None:
    """The evicted content that a text refers to; None if the branch shows it, or there is none."""
    if not _is_captured(new):
        return _find_listing(new, asked, memory, known)
    shown = memory.view_of(asked.branch)
    changed, other = False, None
    for before in _list_before(new, asked.read, known):
        if before.is_change:
            if new.is_change and _was_named(before, asked, session, memory, known):
                return None
            changed = True
            if "write" in before.about.tags:
                owner = _find_owner(before.place, asked.branch, memory)
                return _find_evicted(owner, asked.branch, memory)
        elif before.is_read:
            owner = _find_owner(before.place, asked.branch, memory)
            if new.is_change or before.asks_same(new):
                found = _find_evicted(owner, asked.branch, memory)
                sure = not changed and _is_same_result(new) and _is_same_file(new, before, known)
                return attrs.evolve(found, result=before.result) if found is not None and sure else found
            other = other or _find_evicted(owner, asked.branch, memory)
    if other is not None:
        return other
    dropped = [
        memory.objects[each]
        for each in shown.before
        if shown.fidelity_of(each) is not Fidelity.FULL and _is_version(memory.objects[each], new.path, known)
    ]
    return _Earlier(object=max(dropped, key=lambda each: (each.last_turn, each.id))) if dropped else None


def _find_listing(new: _Exchange, asked: PendingRequest, memory: Memory, known: _Files) -> _Earlier | None:
    """The evicted listing that the same call returned, if the file was not changed since: an answer in another form
    probably refers to it.
    """
    for before in _list_before(new, asked.read, known):
        if before.is_change:
            return None
        if before.is_read and before.asks_same(new) and rereads.is_listing(before.given.answer):
            return _find_evicted(_find_owner(before.place, asked.branch, memory), asked.branch, memory)
    return None


def _is_same_result(new: _Exchange) -> bool:
    """Whether a text refers to the result of an earlier read of the same lines."""
    reference = rereads.find_reference(new.given.answer)
    return reference is not None and reference.wording.refers_to is RefersTo.EARLIER_RESULT


def _is_same_file(new: _Exchange, before: _Exchange, known: _Files) -> bool:
    """Whether two equal paths certainly mean one file."""
    return not (new.is_relative or before.is_relative) or not known.may_have_moved(new.message)


def _list_before(new: _Exchange, read: Transcript, known: _Files) -> Iterator[_Exchange]:
    """Earlier exchanges about the same file, newest first."""
    name = new.path.rpartition("/")[2]
    needle = name.encode() if name.isascii() and '"' not in name and "\\" not in name else b""
    results: dict[str, tuple[BlockPlace, Block]] = {}
    unread: list[int] = []  # to parse all results for each new one would make a session's cost quadratic
    for number in range(new.message, -1, -1):
        if read.messages[number].role != "assistant":
            unread.append(number)
        elif needle in read.message_bytes(number):
            for each in unread:
                for index, block in enumerate(read.blocks(each)):
                    place = BlockPlace(each, index)
                    if is_result(block) and place < new.place:
                        results[str(call_id_of(block))] = place, block
            unread.clear()
            found = [
                _make_exchange(block, *results[str(block.get("id"))], known)
                for block in read.blocks(number)
                if is_call(block) and str(block.get("id")) in results
            ]
            same = [each for each in found if each is not None and each.path == new.path]
            yield from sorted(same, key=lambda each: each.place, reverse=True)


def _find_owner(place: BlockPlace, branch: str, memory: Memory) -> MemoryObject | None:
    """The object of a branch that holds a block; None if the block is not in an object yet."""
    newest_first = map(memory.objects.__getitem__, reversed(memory.view_of(branch).objects))
    return next((each for each in newest_first if place in each.places), None)


def _find_evicted(owner: MemoryObject | None, branch: str, memory: Memory) -> _Earlier | None:
    if owner is None or owner.forgotten or memory.view_of(branch).fidelity_of(owner.id) is Fidelity.FULL:
        return None
    return _Earlier(object=owner)


def _is_version(obj: MemoryObject, path: str, known: _Files) -> bool:
    if not KINDS[obj.kind].is_file or obj.source_key is None or known.resolve(obj.source_key) != path:
        return False
    return bool(obj.places) and not obj.forgotten


def _was_named(before: _Exchange, asked: PendingRequest, session: Session, memory: Memory, known: _Files) -> bool:
    """Whether an earlier change was answered with the same claim and nothing of the file was evicted after it: then the
    line behind that answer is still complete.
    """
    counts = session.branches[asked.branch].counts
    turn = bisect_right(counts, before.message) + 1
    turns = session.eviction_turns.turns.get(asked.branch, {})
    of_file = [
        turns[each]
        for each in memory.view_of(asked.branch).objects
        if each in turns and _is_version(memory.objects[each], before.path, known)
    ]
    return rereads.claims_own_change(before.given.answer) and all(evicted <= turn for evicted in of_file)

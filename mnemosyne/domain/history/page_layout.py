"""Where in a request the objects of a conversation stand, and what each of its other blocks is.

The level of an object is what the log says of it; where it stands is read from the request. That both agree is what the
tests of manifests hold, over whole conversations.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.history.context_view import ContextBlock, View
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK, NOTE
from mnemosyne.domain.objects.kinds import keeps_prompt
from mnemosyne.domain.recall.memory_results import BROUGHT, records_in
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.tools.cleanup_tags import visible_blocks
from mnemosyne.domain.window.assembly import ASIDE, BEFORE, HERE
from mnemosyne.domain.wire import json_values, normal_form
from mnemosyne.domain.wire.blocks import is_any_call


class BlockUse(Enum):
    """What a block is that is no page's."""

    TOOL = "tool"
    """A tool of the client's."""
    MEMORY_TOOL = "memory tool"
    """A tool of ours."""
    SYSTEM = "system"
    OPEN = "no page yet"
    """Said by the client, and in no object when the turn was assessed."""
    THINKING = "thinking"
    MEMORY_CALL = "memory call"
    """The model asked its memory, in a round that the client does not see."""
    MEMORY_ANSWER = "memory answer"
    BROUGHT = "brought"
    """Put behind the user's message before the model asked."""
    TOLD = "told"
    """What is known from earlier sessions, as the branch was told it when it began."""
    OBSERVED = "observed"
    """A line on what the model itself did: that it made one call over and over."""
    FILLER = "filler"
    """Words of ours that keep a history whole where something left."""
    REPLY = "reply"
    """The model's own words as it said them, of which the client shows less: cleanup tags, hidden rounds."""
    UNKNOWN = "unknown"


METADATA = frozenset({BlockUse.MEMORY_TOOL, BlockUse.TOLD, BlockUse.OBSERVED, BlockUse.FILLER})
"""What stands in a request for memory's own sake, and is neither said by anybody nor an answer."""


@attrs.frozen
class OtherBlock:
    """A block that is no page's; ``number`` counts from 0 over the request."""

    number: int
    use: BlockUse


@attrs.frozen
class Layout:
    """Where in a request the pages stand: the numbers of the blocks of each by its id, and what the rest is. ``back``
    are the pages that came back and stand where they came: as the answer of a restore, or behind a message.
    """

    blocks: Mapping[str, tuple[int, ...]]
    others: tuple[OtherBlock, ...]
    back: frozenset[str]


Pages = Mapping[str, tuple[MemoryObject, Fidelity]]
"""The objects of a branch, each with the level at which it is shown."""


def lay_out(body: bytes, sent: View, client: View, pages: Pages, texts: Mapping[str, str], told: str | None) -> Layout:
    """Find what each block of a request is. ``client`` is what the client had sent, the same where nothing was changed;
    ``texts`` are the renditions of pages at L1 and L2 by id, ``told`` what the branch was told as it began.
    """
    back = _find_back(body, sent, pages)
    reading = _Reading(pages, _list_places(client, pages, back), texts, told)
    found: dict[str, list[int]] = {}
    others = []
    for number, block in enumerate(sent.blocks):
        read = reading.read(block, body)
        if isinstance(read, BlockUse):
            others.append(OtherBlock(number, read))
        else:
            for page in read:
                found.setdefault(page, []).append(number)
    blocks = {page: tuple(numbers) for page, numbers in found.items()}
    return Layout(blocks, tuple(others), back)


def _find_back(body: bytes, sent: View, pages: Pages) -> frozenset[str]:
    """The pages that came back: they stand in an answer of memory or behind a message, and not in their own place."""
    asked, back = set[str](), set[str]()
    for block in sent.blocks:
        if _is_memory_call(block):
            asked.add(str(block.tool_id))
        elif block.tool_id in asked or body.find(BROUGHT.encode(), *block.span) >= 0:
            text = _text_of(body[slice(*block.span)])
            back.update(_list_whole(text, pages) if block.tool_id in asked or text.startswith(BROUGHT) else ())
    return frozenset(back)


def _is_memory_call(block: ContextBlock) -> bool:
    return is_any_call({"type": block.kind}) and block.name in memory_tools.NAMES


def _list_whole(text: str, pages: Pages) -> list[str]:
    """The pages that stand in a result or behind a message at the level that they have."""
    return [page for page, level in records_in(text) if page in pages and pages[page][1] is level]


@attrs.frozen
class _Place:
    """Where a block of the client's belongs: to a page, or to none (None). ``stays`` says that it is sent as it is."""

    page: str | None
    stays: bool


def _list_places(client: View, pages: Pages, back: Collection[str]) -> Mapping[tuple[str, Any], list[_Place]]:
    """The places of the client's blocks, by what each says and by the call that it is or answers. Pages that came
    ``back`` are not in theirs, where another page with the same words may be.
    """
    owners = {(place.message, place.block): each for each, _ in pages.values() for place in each.places}
    found: dict[tuple[str, Any], list[_Place]] = {}
    counted = Counter[int]()
    for block in client.blocks:
        if block.message is None:
            continue
        owner = owners.get((block.message, counted[block.message]))
        counted[block.message] += 1
        place = _Place(None, True)
        if owner is not None:
            level = pages[owner.id][1] if owner.id not in back else Fidelity.EVICTED
            place = _Place(owner.id, _stays(block, owner, level))
        found.setdefault(("said", (block.role, block.digest)), []).append(place)
        if block.tool_id is not None:
            found.setdefault(("call" if is_any_call({"type": block.kind}) else "result", block.tool_id), []).append(
                place
            )
    return found


def _stays(block: ContextBlock, owner: MemoryObject, level: Fidelity) -> bool:
    return level is Fidelity.FULL or (keeps_prompt(owner.tags) and block.role == "user" and block.tool_id is None)


class _Reading:
    """Reads the blocks of one request in their order."""

    def __init__(
        self, pages: Pages, places: Mapping[tuple[str, Any], list[_Place]], texts: Mapping[str, str], told: str | None
    ) -> None:
        self._pages = pages
        self._places = places
        self._lines = {page: frozenset(map(str.strip, text.splitlines())) for page, text in texts.items()}
        self._told = told
        self._asked: set[str] = set()

    def read(self, block: ContextBlock, body: bytes) -> Sequence[str] | BlockUse:
        """The pages that a block shows, or what else it is."""
        if block.section == "tools":
            return BlockUse.MEMORY_TOOL if block.name in memory_tools.NAMES else BlockUse.TOOL
        if block.section == "system":
            return BlockUse.SYSTEM
        text = _text_of(body[slice(*block.span)])
        if _is_memory_call(block):
            self._asked.add(str(block.tool_id))
            return BlockUse.MEMORY_CALL
        if block.tool_id in self._asked:
            return _list_whole(text, self._pages) or BlockUse.MEMORY_ANSWER
        said = self._take("said", (block.role, block.digest))
        if said is not None:
            return [said.page] if said.page is not None else _use_of(block)
        return self._read_changed(block, text)

    def _read_changed(self, block: ContextBlock, text: str) -> Sequence[str] | BlockUse:
        """What stands where the client says something else, or nothing."""
        if text.startswith(BROUGHT):
            return _list_whole(text, self._pages) or BlockUse.BROUGHT
        if text.startswith(NOTE):
            return self._keep_known(_TOLD.findall(text)) or BlockUse.FILLER
        if standing := self._list_standing(text):
            return standing
        if block.tool_id is not None:
            kind = "call" if is_any_call({"type": block.kind}) else "result"
            place = self._take(kind, block.tool_id)
            return [place.page] if place is not None and place.page is not None else BlockUse.UNKNOWN
        if text and text == self._told:
            return BlockUse.TOLD
        if text.startswith(ASIDE):
            return BlockUse.OBSERVED
        if text in (BEFORE, HERE):
            return BlockUse.FILLER
        if block.role == "assistant":
            return self._read_reply(block, text)
        return BlockUse.UNKNOWN

    def _read_reply(self, block: ContextBlock, text: str) -> Sequence[str] | BlockUse:
        """What the model said where the client shows less of it: cleanup tags, and words of hidden rounds."""
        shown = visible_blocks([{"type": "text", "text": text}])
        for said in (self._take("said", (block.role, normal_form.system_digest([each]))) for each in shown):
            if said is not None and said.page is not None:
                return [said.page]
        return self._find_rendition(text) or (
            BlockUse.THINKING if block.kind in normal_form.THINKING else BlockUse.REPLY
        )

    def _take(self, kind: str, what: object) -> _Place | None:
        """The next place of the client's at which such a block stands; one where it is sent as it is comes first."""
        places = self._places.get((kind, what))
        if not places:
            return None
        return places.pop(next((number for number, each in enumerate(places) if each.stays), 0))

    def _list_standing(self, text: str) -> list[str]:
        """The page in whose place a text stands; older versions told of several that had left, each in a line."""
        found = [_STANDING.match(line) for line in text.splitlines()]
        ids = [each[1] for each in found if each is not None]
        if not found or found[0] is None or ids[0] not in self._pages:
            return []
        return self._keep_known(list(dict.fromkeys(ids))) if all(found) else ids[:1]

    def _keep_known(self, ids: Sequence[str]) -> list[str]:
        return [each for each in ids if each in self._pages]

    def _find_rendition(self, text: str) -> list[str]:
        """The page of whose rendition a text of the assistant's is a part."""
        lines = [line.strip() for line in text.splitlines()]
        return [page for page, held in self._lines.items() if lines and held.issuperset(lines)][:1]


def _use_of(block: ContextBlock) -> BlockUse:
    return BlockUse.THINKING if block.kind in normal_form.THINKING else BlockUse.OPEN


_STANDING = re.compile(rf"\[{MARK}(\w+)[ \]]")
"""How a text begins that stands in the place of an object (``assembly.ObjectRendering``)."""

_TOLD = re.compile(rf"^{MARK}(\w+) ", re.MULTILINE)
"""How a line of a note begins."""


def _text_of(raw: bytes) -> str:
    match _parse(raw):
        case str(text) | {"text": str(text)} | {"content": str(text)} | {"output": str(text)}:
            return text
        case {"content": [{"text": str(text)}, *_]}:
            return text
        case _:
            return ""


def _parse(raw: bytes) -> Any:
    try:
        return json_values.read_storable(raw)
    except (ValueError, RecursionError):
        return None

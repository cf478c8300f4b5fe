"""Locate the objects of a conversation in a request, and classify its other blocks.

The level of an object comes from the log; its location is read from the request. The tests of manifests check that both
agree, over whole conversations.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.history.context_view import ContextBlock, View, find_text
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK, NOTE
from mnemosyne.domain.objects.kinds import keeps_prompt
from mnemosyne.domain.recall.memory_results import SHOWN_AGAIN, records_in
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.tools.cleanup_tags import visible_blocks
from mnemosyne.domain.window.assembly import ASIDE, BEFORE, CITE, HERE
from mnemosyne.domain.wire import normal_form, tools_behind
from mnemosyne.domain.wire.blocks import is_any_call


class BlockUse(Enum):
    """The use of a block that belongs to no page."""

    TOOL = "tool"
    """A tool of the client."""
    MEMORY_TOOL = "memory tool"
    """A tool of the proxy."""
    SYSTEM = "system"
    OPEN = "no page yet"
    """A block of the client that was in no object when the turn was assessed."""
    THINKING = "thinking"
    MEMORY_CALL = "memory call"
    """A call of a memory tool, in a round that the client does not see."""
    MEMORY_ANSWER = "memory answer"
    SHOWN_AGAIN = "brought"
    """Objects that the proxy inserted after the user's message."""
    TOLD = "told"
    """Knowledge from earlier sessions, inserted when the branch began."""
    OBSERVED = "observed"
    """A line that notifies the model that it repeats one call."""
    FILLER = "filler"
    """Text of the proxy that keeps a history valid after an eviction."""
    REPLY = "reply"
    """The model's original text where the client shows less of it: cleanup tags, hidden rounds."""
    UNKNOWN = "unknown"


METADATA = frozenset({BlockUse.MEMORY_TOOL, BlockUse.TOLD, BlockUse.OBSERVED, BlockUse.FILLER})
"""Blocks that memory adds for its own purposes: neither conversation nor answers."""


@attrs.frozen
class OtherBlock:
    """A block that belongs to no page; ``number`` counts from 0 over the request."""

    number: int
    use: BlockUse


@attrs.frozen
class Layout:
    """The locations of the pages in a request: block numbers by page id, and the use of the other blocks. ``back`` are
    the restored pages, located in the result of a restore or after a message.
    """

    blocks: Mapping[str, tuple[int, ...]]
    others: tuple[OtherBlock, ...]
    back: frozenset[str]


Pages = Mapping[str, tuple[MemoryObject, Fidelity]]
"""The objects of a branch, each with the level at which it is shown."""


def lay_out(body: bytes, sent: View, client: View, pages: Pages, texts: Mapping[str, str], told: str | None) -> Layout:
    """Classify each block of a request. ``client`` is the client's request, equal to ``sent`` if nothing was changed;
    ``texts`` are the renditions of pages at L1 and L2 by id, ``told`` is the knowledge inserted into the branch.
    """
    back = _find_restored(body, sent, pages)
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


def _find_restored(body: bytes, sent: View, pages: Pages) -> frozenset[str]:
    """The restored pages: they are in a result of a memory tool or after a message, not in their own place."""
    asked, back = set[str](), set[str]()
    for block in sent.blocks:
        if _is_memory_call(block):
            asked.add(str(block.tool_id))
        elif block.tool_id in asked or body.find(SHOWN_AGAIN.encode(), *block.span) >= 0:
            text = find_text(body[slice(*block.span)])
            back.update(_list_whole(text, pages) if block.tool_id in asked or text.startswith(SHOWN_AGAIN) else ())
    return frozenset(back)


def _is_memory_call(block: ContextBlock) -> bool:
    return is_any_call({"type": block.kind}) and block.name in memory_tools.NAMES


def _list_whole(text: str, pages: Pages) -> list[str]:
    """The pages in a memory result or an insertion that are shown there at their current level."""
    return [page for page, level in records_in(text) if page in pages and pages[page][1] is level]


@attrs.frozen
class _Place:
    """The page of a client's block, None if it has none. ``stays`` is true if the block is sent unchanged."""

    page: str | None
    stays: bool


def _list_places(client: View, pages: Pages, back: Collection[str]) -> Mapping[tuple[str, Any], list[_Place]]:
    """The places of the client's blocks, by content and by tool call id. Restored pages (``back``) are not in their own
    places, which another page with the same text may use.
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
    """Classifies the blocks of one request in order."""

    def __init__(
        self, pages: Pages, places: Mapping[tuple[str, Any], list[_Place]], texts: Mapping[str, str], told: str | None
    ) -> None:
        self._pages = pages
        self._places = places
        self._lines = {page: frozenset(map(str.strip, text.splitlines())) for page, text in texts.items()}
        self._told = told
        self._asked: set[str] = set()

    def read(self, block: ContextBlock, body: bytes) -> Sequence[str] | BlockUse:
        """The pages that a block shows, or else its use."""
        if block.section == "tools":
            return BlockUse.MEMORY_TOOL if block.name in memory_tools.NAMES else BlockUse.TOOL
        if block.section == "system":
            return BlockUse.SYSTEM
        text = find_text(body[slice(*block.span)])
        if _is_memory_call(block):
            self._asked.add(str(block.tool_id))
            return BlockUse.MEMORY_CALL
        if block.tool_id in self._asked:
            return _list_whole(text, self._pages) or BlockUse.MEMORY_ANSWER
        place = self._take("said", (block.role, block.digest))
        if place is not None:
            return (
                [place.page]
                if place.page is not None
                else (BlockUse.THINKING if block.kind in normal_form.THINKING else BlockUse.OPEN)
            )
        return self._read_changed(block, text)

    def _read_changed(self, block: ContextBlock, text: str) -> Sequence[str] | BlockUse:
        """Classify a block that the client's request does not contain."""
        if block.kind in tools_behind.KINDS:
            return BlockUse.MEMORY_TOOL
        if text.startswith(SHOWN_AGAIN):
            return _list_whole(text, self._pages) or BlockUse.SHOWN_AGAIN
        if text.startswith(NOTE):
            return self._keep_known(_TOLD.findall(text)) or BlockUse.FILLER
        if replaced := self._list_replaced(text):
            return replaced
        if block.tool_id is not None:
            kind = "call" if is_any_call({"type": block.kind}) else "result"
            place = self._take(kind, block.tool_id)
            return [place.page] if place is not None and place.page is not None else BlockUse.UNKNOWN
        if text and text == self._told:
            return BlockUse.TOLD
        if text.startswith(ASIDE):
            return BlockUse.OBSERVED
        if text in (BEFORE, CITE, HERE):
            return BlockUse.FILLER
        if block.role == "assistant":
            return self._read_reply(block, text)
        return BlockUse.UNKNOWN

    def _read_reply(self, block: ContextBlock, text: str) -> Sequence[str] | BlockUse:
        """Classify original text of the model of which the client shows less: cleanup tags, text of hidden rounds."""
        shown = visible_blocks([{"type": "text", "text": text}])
        for place in (self._take("said", (block.role, normal_form.system_digest([each]))) for each in shown):
            if place is not None and place.page is not None:
                return [place.page]
        return self._find_rendition(text) or (
            BlockUse.THINKING if block.kind in normal_form.THINKING else BlockUse.REPLY
        )

    def _take(self, kind: str, what: object) -> _Place | None:
        """Take the next place with such a block in the client's request, preferably one that is sent unchanged."""
        places = self._places.get((kind, what))
        if not places:
            return None
        return places.pop(next((number for number, each in enumerate(places) if each.stays), 0))

    def _list_replaced(self, text: str) -> list[str]:
        """The page that a text replaces; older versions listed several evicted pages, one in each line."""
        matches = [_STANDING.match(line) for line in text.splitlines()]
        ids = [match[1] for match in matches if match is not None]
        if not matches or matches[0] is None or ids[0] not in self._pages:
            return []
        return self._keep_known(list(dict.fromkeys(ids))) if all(matches) else ids[:1]

    def _keep_known(self, ids: Sequence[str]) -> list[str]:
        return [each for each in ids if each in self._pages]

    def _find_rendition(self, text: str) -> list[str]:
        """The page whose rendition contains a text of the assistant."""
        lines = [line.strip() for line in text.splitlines()]
        return [page for page, held in self._lines.items() if lines and held.issuperset(lines)][:1]


_STANDING = re.compile(rf"\[{MARK}(\w+)[ \]]")
"""The beginning of a text that replaces an object (``assembly.ObjectRendering``)."""

_TOLD = re.compile(rf"{MARK}(\w+) ")
"""An object's id in a note; no other text there looks like one (``stubs.plain``)."""

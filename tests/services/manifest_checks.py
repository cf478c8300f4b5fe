"""Checks a manifest against its request, without the code that makes manifests."""

import json
import re
from hashlib import sha256
from typing import Any
from uuid import UUID

from mnemosyne.domain.history.manifest import Manifest, ManifestPage
from mnemosyne.domain.history.page_layout import BlockUse
from mnemosyne.domain.history.time_travel import History
from mnemosyne.domain.objects.events import ObjectRestored
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.kinds import is_its_own_detail, keeps_prompt
from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.domain.window.assembly import KEPT_INPUT, REPLACED
from mnemosyne.domain.window.object_sizes import find_path, line_of
from mnemosyne.services import contexts
from mnemosyne.services.memories import content_of, text_of
from mnemosyne.services.sessions import Archive

Json = dict[str, Any]

LONG = 200
"""Minimum characters of a text that does not occur by chance."""


def blocks_in(body: bytes) -> list[Any]:
    """The blocks of a request of the Messages API, in the order in which a provider reads them."""
    read = json.loads(body)
    found = [*read.get("tools", ())]
    for held in (read.get("system", []), *(each["content"] for each in read["messages"])):
        found += [held] if isinstance(held, str) else held
    return found


def words_of(block: Any) -> str:
    """All texts of a block, as lines."""
    match block:
        case str():
            return block
        case list():
            return "\n".join(map(words_of, block))
        case dict():
            return "\n".join(words_of(each) for key, each in block.items() if key != "cache_control")
        case _:
            return str(block)


def _json_values(content: bytes) -> list[Any]:
    """The values of consecutive JSON texts."""
    text, at, found = content.decode(), 0, []
    while at < len(text):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
    return found


def _is_thinking(block: Any) -> bool:
    """A rewritten history contains no thinking: its signatures would be invalid."""
    return isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")


def _same(one: Any, other: Any) -> bool:
    """Whether two blocks are equal except for cache markers and hidden tags."""
    return bool(_bare(one) == _bare(other))


def _bare(block: Any) -> Any:
    if isinstance(block, str):
        block = {"type": "text", "text": block}
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(bare.get("text"), str):
        bare["text"] = re.sub(f"{OPENING}.*?{CLOSING}", "", bare["text"], flags=re.DOTALL).strip()
    return bare


async def check_manifest(archive: Archive, stream: UUID, history: History, manifest: Manifest) -> None:
    """Raises AssertionError if the manifest and the request do not agree."""
    rebuilt = await contexts.rebuild(archive, stream, history, manifest.attempt)
    assert manifest.sha256 == sha256(rebuilt.body).digest() == manifest.attempt.proof
    blocks = blocks_in(rebuilt.body)
    of_pages = {number for page in manifest.pages for number in page.blocks}
    of_others = {each.number for each in manifest.others}
    assert of_pages | of_others == set(range(len(blocks)))
    assert not of_pages & of_others
    assert [each for each in manifest.others if each.use is BlockUse.UNKNOWN] == []
    for page in manifest.pages:
        shown = [blocks[number] for number in page.blocks]
        content = await content_of(archive, stream, page.object)
        own = [each for each in _json_values(content) if not _is_thinking(each)]
        await _check_level(archive, stream, page, shown, own, full_text(content))
        _check_absence(page, own, blocks, manifest)


async def _check_level(
    archive: Archive, stream: UUID, page: ManifestPage, shown: list[Any], own: list[Any], text: str
) -> None:
    """Check that the page is in its blocks, at its level; a restored page as ``text``."""
    words = "\n".join(map(words_of, shown))
    each = page.object
    if page.level is Fidelity.FULL:
        in_its_place = all(any(_same(block, held) for held in shown) for block in own)
        assert in_its_place or (isinstance(page.move, ObjectRestored) and text in words)
    elif page.level >= Fidelity.STUB:
        changed = [held for held in shown if not any(_same(block, held) for block in own)]
        is_stub = f"#{each.id} " in words and (page.level is Fidelity.EVICTED or each.stub in words)
        assert is_stub or not changed
        # Only prompts, and calls with their results, stay unchanged.
        kept = [held for held in shown if held not in changed]
        assert all(_is_kept_call(held, page.level) or keeps_prompt(each.tags) for held in kept)
        path = find_path(each.kind, each.source_key)  # the line of several objects of a file names it once
        shown_lines = (line_of(each), each.stub, f"#{each.id} L4", *filter(None, [path]))  # older stubs were shorter
        assert any(line in words for line in shown_lines) or not changed
    elif page.level in each.renditions and not (page.level is Fidelity.DETAILED and is_its_own_detail(each.tags)):
        rendition = await text_of(archive, stream, each.renditions[page.level].text)
        lines = [line for line in rendition.splitlines() if line.strip()]
        missing = [line for line in lines if line.strip() not in words]
        # Prompts stay in their place in full, and a text of the assistant's names no roles.
        assert not missing or each.source_tool is None, (each.id, missing)
        assert f"#{each.id} " in words


def _check_absence(page: ManifestPage, own: list[Any], blocks: list[Any], manifest: Manifest) -> None:
    """Check that no block of a page below its full level is in the request in full, unless it is another's, too."""
    if page.level is Fidelity.FULL:
        return
    elsewhere = {number for other in manifest.pages if other.level is Fidelity.FULL for number in other.blocks}
    elsewhere |= {each.number for each in manifest.others}
    for block in own:
        is_prompt = keeps_prompt(page.object.tags) and _bare(block).get("type") == "text"
        if is_prompt or _is_kept_call(block, page.level) or len(words_of(block)) < LONG:
            continue
        for number, held in enumerate(blocks):
            if number not in elsewhere:
                assert not _same(block, held), (page.object.id, number)


def _is_kept_call(block: Any, level: Fidelity) -> bool:
    """A kept call has its inputs: only long strings are cut, at L1 only the text that an edit replaced."""
    inputs = _bare(block).get("input") or {}
    return bool(inputs) and not any(
        isinstance(each, str) and len(each) > KEPT_INPUT and (level is not Fidelity.DETAILED or name in REPLACED)
        for name, each in inputs.items()
    )

"""The contents of a request by kind and by item: what fills the window."""

from collections.abc import Mapping, Sequence
from enum import Enum

import attrs

from mnemosyne.domain.history.context_view import ContextBlock
from mnemosyne.domain.history.manifest import Manifest, ManifestPage
from mnemosyne.domain.history.page_layout import METADATA, BlockUse
from mnemosyne.domain.objects.events import ObjectFields
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, is_inserted, keeps_prompt
from mnemosyne.domain.wire import normal_form
from mnemosyne.domain.wire.blocks import is_any_call
from mnemosyne.domain.wire.client_texts import find_inserted


class ContentKind(Enum):
    """A kind of content."""

    SYSTEM = "system"
    TOOLS = "tools"
    FILES = "files"
    RESULTS = "results"
    REMINDERS = "reminders"
    MEMORY = "memory"
    PROMPTS = "prompts"
    REPLIES = "replies"
    THINKING = "thinking"
    OTHER = "other"
    """Tokens that the provider counted and no block accounts for, such as images."""


KIND_NAMES: Mapping[ContentKind, str] = {
    ContentKind.SYSTEM: "System prompt",
    ContentKind.TOOLS: "Tool definitions",
    ContentKind.FILES: "Files",
    ContentKind.RESULTS: "Tool results",
    ContentKind.REMINDERS: "Added by the client",
    ContentKind.MEMORY: "Memory notes and tools",
    ContentKind.PROMPTS: "Prompts",
    ContentKind.REPLIES: "Replies",
    ContentKind.THINKING: "Thinking",
    ContentKind.OTHER: "Not attributed",
}
"""The name of each kind in commands and pages."""


@attrs.frozen(kw_only=True)
class ContentItem:
    """One object, or one block without an object. ``block`` is the number of its first block in the request, ``turn``
    the turn that added it. ``level`` is the fidelity of the object.
    """

    label: str
    tokens: int
    block: int
    turn: int | None
    object: str | None = None
    level: Fidelity | None = None


@attrs.frozen(kw_only=True)
class ContentGroup:
    """The items of one label, largest first: all reads of a file, all results of a tool."""

    label: str
    items: Sequence[ContentItem]

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.items)


@attrs.frozen(kw_only=True)
class KindContents:
    """The content of one kind, largest group first."""

    kind: ContentKind
    groups: Sequence[ContentGroup]

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.groups)


@attrs.frozen(kw_only=True)
class WindowContents:
    """The contents of a request, largest kind first. If ``is_counted``, the sizes add up to the provider's count,
    otherwise to an estimate; the size of a single item is always an estimate. ``window`` is the number of tokens
    available to prompts; None if the turn was not assessed.
    """

    branch: str
    turn: int
    is_counted: bool
    window: int | None
    kinds: Sequence[KindContents]

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.kinds)

    @property
    def share(self) -> float | None:
        return self.tokens / self.window if self.window else None

    @property
    def largest(self) -> Sequence[tuple[ContentKind, ContentGroup]]:
        """All groups with their kind, largest first."""
        found = ((each.kind, group) for each in self.kinds for group in each.groups)
        return sorted(found, key=lambda pair: -pair[1].tokens)


def list_contents(manifest: Manifest) -> WindowContents:
    """The contents of a request, from its manifest."""
    pages = {number: page for page in reversed(manifest.pages) for number in page.blocks}
    uses = {each.number: each.use for each in manifest.others}
    tools = {each.tool_id: each.name for each in manifest.view.blocks if is_any_call({"type": each.kind})}
    found: dict[ContentKind, dict[tuple[str | None, str | None], dict[str, ContentItem]]] = {}
    for number, block in enumerate(manifest.view.blocks):
        page = pages.get(number)
        kind, label = _classify(block, page, uses.get(number), tools.get(block.tool_id))
        page = None if kind is ContentKind.MEMORY else page
        item = str(number) if page is None else page.object.id
        items = found.setdefault(kind, {}).setdefault((label, item if label is None else None), {})
        known = items.get(item) or _make_item(number, block, page)
        items[item] = attrs.evolve(known, tokens=known.tokens + (block.tokens or 0))
    kinds = [KindContents(kind=kind, groups=_list_groups(groups)) for kind, groups in found.items()]
    estimated, used = sum(each.tokens for each in kinds), manifest.attempt.used
    counted = None if used is None else used.prompt
    is_counted = counted is not None and counted >= estimated
    if counted is not None and counted > estimated:
        rest = ContentItem(label="", tokens=counted - estimated, block=0, turn=None)
        kinds.append(KindContents(kind=ContentKind.OTHER, groups=[ContentGroup(label="", items=[rest])]))
    assessed = manifest.assessed
    return WindowContents(
        branch=manifest.attempt.began.branch,
        turn=manifest.attempt.began.turn,
        is_counted=is_counted,
        window=None if assessed is None else assessed.fixed + assessed.usable,
        kinds=sorted(kinds, key=lambda each: -each.tokens),
    )


def _list_groups(found: Mapping[tuple[str | None, str | None], Mapping[str, ContentItem]]) -> list[ContentGroup]:
    groups = []
    for (label, _), held in found.items():
        items = sorted(held.values(), key=lambda each: -each.tokens)
        groups.append(ContentGroup(label=label or items[0].label, items=items))
    return sorted(groups, key=lambda each: -each.tokens)


def _make_item(number: int, block: ContextBlock, page: ManifestPage | None) -> ContentItem:
    if page is None:
        return ContentItem(label=block.name or block.preview or block.kind, tokens=0, block=number, turn=block.origin)
    each = page.object
    # The user's own words stay when the rest of their object is evicted.
    stays = block.tool_id is None and block.stands_for is None and page.level in (Fidelity.FULL, Fidelity.EVICTED)
    return ContentItem(
        label=(stays and block.preview) or name_object(each),
        tokens=0,
        block=number,
        turn=each.last_turn,
        object=each.id,
        level=None if stays and page.level is Fidelity.EVICTED else page.level,
    )


def name_object(each: ObjectFields) -> str:
    """The source of an object, or its stub, in one line."""
    return " ".join((each.source_key or each.stub).split()) or each.object


_LABELS: Mapping[BlockUse, str] = {
    BlockUse.TOLD: "Facts from earlier sessions",
    BlockUse.OBSERVED: "Notes about repeated calls",
    BlockUse.FILLER: "Text in place of evicted messages",
    BlockUse.SHOWN_AGAIN: "Restored after a prompt",
    BlockUse.MEMORY_CALL: "Calls of memory tools",
    BlockUse.MEMORY_ANSWER: "Answers of memory tools",
}


def _classify(
    block: ContextBlock, page: ManifestPage | None, use: BlockUse | None, tool: str | None
) -> tuple[ContentKind, str | None]:
    """The kind of a block and the label of its group; without a label, its item is a group of its own."""
    if block.section == "system":
        return ContentKind.SYSTEM, None
    if use in METADATA or use in _LABELS:
        return ContentKind.MEMORY, _LABELS.get(use) if use is not None else None
    if page is not None and page.level is Fidelity.EVICTED and block.stands_for is not None:
        return ContentKind.MEMORY, "Index of evicted content"
    if block.section == "tools":
        return ContentKind.TOOLS, block.name
    if block.kind in normal_form.THINKING:
        return ContentKind.THINKING, None
    kind = None if page is None else classify_object(page.object)
    if page is not None and kind is ContentKind.FILES and (block.role != "assistant" or block.tool_id is not None):
        return ContentKind.FILES, page.object.source_key
    if block.tool_id is not None or (kind is ContentKind.RESULTS and block.role != "assistant"):
        return ContentKind.RESULTS, block.name or tool or (page and page.object.source_tool) or "unknown tool"
    is_users = block.role == "user" and kind in (None, ContentKind.REPLIES)
    if page is not None and page.level is not Fidelity.FULL and kind is not None and not is_users:
        return kind, None
    if block.role == "assistant":
        return ContentKind.REPLIES, None
    # Objects of old logs have no tag for the user's words: a text in the user's message is a prompt if no client or
    # tool wrote it.
    is_prompt = is_users and find_inserted(block.preview) is None and not (page and KINDS[page.object.kind].is_fetched)
    return ContentKind.PROMPTS if is_prompt or kind is ContentKind.PROMPTS else ContentKind.REMINDERS, None


def classify_object(each: ObjectFields) -> ContentKind:
    """The kind of an object, from its source and its tags."""
    if KINDS[each.kind].is_file and each.source_key is not None:
        return ContentKind.FILES
    if each.source_tool is not None:
        return ContentKind.RESULTS
    if is_inserted(each.tags):
        return ContentKind.REMINDERS
    return ContentKind.PROMPTS if keeps_prompt(each.tags) else ContentKind.REPLIES

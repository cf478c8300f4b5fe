"""A branch as a conversation: prompts, replies, calls and results in order, each with its size, its price and its later
changes of fidelity.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.history import context_view
from mnemosyne.domain.history.context_view import ContextBlock, View
from mnemosyne.domain.history.time_travel import Attempt, History, TurnPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.segmentation.authors import Author, find_authors
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import CALL, RESULT
from mnemosyne.domain.wire.fragments import read_block
from mnemosyne.services import contexts, turn_prices
from mnemosyne.services.context_map import Span, read_map
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.sessions import Archive
from mnemosyne.services.turn_prices import TurnPrice
from mnemosyne.services.turn_view import KnownTurns


@attrs.frozen(kw_only=True)
class ConversationItem:
    """A block of the conversation. ``kind`` is ``prompt``, ``client`` (inserted by the client), ``reply``,
    ``thinking``, ``call``, ``result`` or ``other``. ``turn`` is the first whose request contained it; for what the
    model wrote, the turn of the reply. ``tool`` is the name of the called tool, also for a result.

    ``cached`` says whether the provider read it from its cache in that turn; None if unknown, and for a reply.
    ``nanodollars`` is its estimated share of the turn's price, None if unknown. ``changes`` are the later fidelities of
    its ``object``. ``address`` is the block's address within the last request of the branch.
    """

    number: int
    turn: int
    kind: str
    tool: str | None
    block: ContextBlock
    address: str
    cached: bool | None = None
    nanodollars: float | None = None
    object: str | None = None
    changes: Sequence[Span] = ()

    @property
    def is_written(self) -> bool:
        """Whether the model wrote it."""
        return self.block.role == "assistant"


@attrs.frozen(kw_only=True)
class ConversationTurn:
    """A turn of the conversation: the ``tokens`` of its prompt and the part ``read`` from the cache, by the provider's
    counts, and its price; None if not reported. ``compacted``: the history was rewritten before it. ``branches`` are
    those that began after it, with their kinds.
    """

    began_at: int
    tokens: int | None
    read: int | None
    price: TurnPrice | None
    compacted: bool
    branches: Mapping[str, str]


@attrs.frozen(kw_only=True)
class ConversationView:
    """The conversation of a branch, as its client sends it in the request of turn ``last``, with the reply. ``opaque``
    is the reason if that request was not read as a conversation. ``request`` and ``reply`` are their JSON. ``parent``
    is the branch that it continues or came from.
    """

    stream: UUID
    branch: str
    parent: str | None
    last: int
    items: Sequence[ConversationItem]
    turns: Mapping[int, ConversationTurn]
    opaque: str | None
    request: bytes
    reply: bytes

    def read(self, item: ConversationItem) -> dict[str, Any]:
        """The content of an item, as a block of the Messages API."""
        return read_content((self.reply if item.block.section == "reply" else self.request)[slice(*item.block.span)])


def read_content(raw: bytes) -> dict[str, Any]:
    """The content of a block of a request or reply, as a block of the Messages API; empty if it cannot be parsed."""
    try:
        return read_block(json_values.read_storable(raw))
    except (ValueError, RecursionError):
        return {}


KnownConversations = Lru[tuple[UUID, str, int], ConversationView]
"""A cache of conversations by session, branch and version of the session."""


def no_conversations() -> KnownConversations:
    """An empty cache of two conversations."""
    return Lru(2)


async def read_conversation(
    archive: Archive,
    models: ReadModels,
    stream: UUID,
    branch: str,
    known: KnownTurns,
    conversations: KnownConversations,
) -> ConversationView:
    """The conversation of a branch. Raises NotFound, ContentForgotten, LogFailed."""
    _, history = await known.read(archive, stream)
    key = stream, branch, history.version
    found = conversations.get(key)
    return found or conversations.put(key, await _read(archive, models, stream, branch, known, history))


async def _read(
    archive: Archive, models: ReadModels, stream: UUID, branch: str, known: KnownTurns, history: History
) -> ConversationView:
    attempt = history.at(branch, TurnPlace())
    last = attempt.began.turn
    found = await contexts.context_of(archive, stream, history, attempt, known.blocks)
    prices = await turn_prices.read_prices(models, stream)
    window = await read_map(models, stream, branch)
    compacted = {each.turn for each in window.turns if each.epoch}
    own = [line.opened for line in history.lines.values() if line.opened.parent == branch]
    turns = {
        turn: _make_turn(
            taken := history.turn(branch, turn)[-1],
            price=prices.get(attrs.astuple(taken.address)),
            compacted=turn in compacted,
            branches={opened.branch: opened.kind.value for opened in own if opened.forked_at == turn},
        )
        for turn in range(1, last + 1)
    }
    objects = context_view.objects_of(found.view, history.list_places(branch))
    items = _list_items(found.rebuilt.body, found.view, found.reply, last, objects)
    return ConversationView(
        stream=stream,
        branch=branch,
        parent=history.line(branch).opened.parent,
        last=last,
        items=price_items(items, turns, list_changes(window.spans)),
        turns=turns,
        opaque=found.view.opaque,
        request=found.rebuilt.body,
        reply=await contexts.read_reply(archive, stream, attempt) or b"",
    )


def _make_turn(
    attempt: Attempt, *, price: TurnPrice | None, compacted: bool, branches: Mapping[str, str]
) -> ConversationTurn:
    used = attempt.used
    return ConversationTurn(
        began_at=attempt.began.at,
        tokens=None if used is None else used.prompt,
        read=None if used is None else used.read,
        price=price,
        compacted=compacted,
        branches=branches,
    )


def _list_items(
    body: bytes,
    view: View,
    reply: Sequence[ContextBlock],
    last: int,
    objects: Mapping[tuple[str, str | bytes], str],
) -> list[ConversationItem]:
    """The items without their prices."""
    sent = [(f"block/{number}", each) for number, each in enumerate(view.blocks) if each.message is not None]
    answered = [(f"reply/{number}", each) for number, each in enumerate(reply)]
    tools = {each.tool_id: each.name for _, each in sent if each.name}
    items: list[ConversationItem] = []
    for _, group in groupby([*sent, *answered], lambda each: each[1].message):
        message = list(group)
        authors = _find_authors(body, [block for _, block in message])
        for (address, block), author in zip(message, authors, strict=True):
            if block.kind == "text" and not block.preview:
                continue
            origin = block.origin or 1 if block.section == "messages" else last + 1
            items.append(
                ConversationItem(
                    number=len(items),
                    turn=origin - 1 if block.role == "assistant" and origin > 1 else origin,
                    kind=_kind_of(block, author),
                    tool=block.name or tools.get(block.tool_id),
                    block=block,
                    address=address,
                    object=objects.get(block.same),
                )
            )
    return items


def _find_authors(body: bytes, message: Sequence[ContextBlock]) -> Sequence[Author]:
    """The author of each block; only a message that may be the user's is read."""
    if message[0].role != "user" or any(block.kind == RESULT for block in message):
        return [Author.ASSISTANT if block.role == "assistant" else Author.CLIENT for block in message]
    return find_authors("user", [read_content(body[slice(*block.span)]) for block in message])


def _kind_of(block: ContextBlock, author: Author) -> str:
    if block.kind.endswith(CALL):
        return "call"
    if block.kind.endswith(RESULT):
        return "result"
    if "thinking" in block.kind:
        return "thinking"
    return {Author.USER: "prompt", Author.ASSISTANT: "reply"}.get(author, "client")


def list_changes(spans: Iterable[Span]) -> Mapping[str, Sequence[Span]]:
    """The spans of each object that begin with another fidelity, in order. It enters the conversation in full."""
    changes: dict[str, list[Span]] = {}
    last: dict[str, Fidelity] = {}
    for span in spans:
        if span.fidelity is not last.get(span.object.id, Fidelity.FULL):
            changes.setdefault(span.object.id, []).append(span)
        last[span.object.id] = span.fidelity
    return changes


def price_items(
    items: Sequence[ConversationItem], turns: Mapping[int, ConversationTurn], changes: Mapping[str, Sequence[Span]]
) -> list[ConversationItem]:
    """The items with their prices: a reply's share its turn's price for output, and another item has the turn's average
    price for input that was cached, or was not.
    """
    written: Counter[int] = Counter()
    rest: Counter[int] = Counter()
    for item in items:
        (written if item.is_written else rest)[item.turn] += item.block.tokens or 0
    priced = []
    for item in items:
        tokens, turn = item.block.tokens or 0, turns[item.turn]
        cached: bool | None = None
        share = None
        if item.is_written:
            if turn.price is not None and turn.price.parts.get("output") and written[item.turn]:
                share = turn.price.parts["output"] * tokens / written[item.turn]
        else:
            rest[item.turn] -= tokens  # now the tokens behind the item: new items are at the end of a prompt
            if turn.tokens is not None and turn.read is not None:
                cached = turn.tokens - rest[item.turn] <= turn.read
                share = turn.price.input_rate(cached=cached) * tokens if turn.price and turn.price.parts else None
        own = changes.get(item.object or "", ())
        priced.append(attrs.evolve(item, cached=cached, nanodollars=share, changes=own))
    return priced

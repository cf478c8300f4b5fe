"""A recorded session as the evaluation drives it: its requests, what its client did, and its history in objects, as the
server divides it during a session.
"""

import base64
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b, sha256
from typing import Any

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, extract_chars
from mnemosyne.domain.objects.events import Admission, BlockPlace, Link, LinkRelation
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import REPLACED_TEXT
from mnemosyne.domain.objects.kinds import ObjectKind, Role, is_its_own_detail
from mnemosyne.domain.objects.losses import measure, render_counts, render_phrases
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation import prose, tools
from mnemosyne.domain.segmentation.index_line import LINE, NAMED, last_part, path_of, without_facts
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, segment
from mnemosyne.domain.summaries import renditions
from mnemosyne.domain.summaries.extractive import summarize
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks

_USES = frozenset({LinkRelation.REFERENCES, LinkRelation.DEPENDS_ON, LinkRelation.CAUSED_BY})
_UNSCORED = Admission(type_prior=0.0, novelty=0.0, utility=0.0, recency=0.0, score=0.0, admitted=False)
_KEPT = ("kind", "role", "tags", "source_tool", "source_key", "places", "last_turn")
_REMEMBERED = (*_KEPT, "first_turn", "stub", "key_entities")
_TELLING = ("command", "pattern", "query", "url", "description", "prompt")
"""Inputs that identify a call; they stay visible until the object is evicted."""


@attrs.frozen(kw_only=True)
class TraceRequest:
    """Request ``turn`` (from 1): at which µs it started, and how many messages of the whole history it holds.

    ``prompt`` is the size of its prompt as the provider counted it, None where that was not recorded. ``exchange`` is
    the turn in which the user last typed something. ``output`` are the tokens of the reply, None where not known.
    """

    turn: int
    at: int
    messages: int
    prompt: int | None
    exchange: int
    output: int | None = None


@attrs.frozen
class OwnHead:
    """What stands before the messages of each request, as the API has it; None where it is not on record and only the
    counted prompts tell its size.
    """

    system: Any = None
    tools: Any = None


@attrs.frozen
class TracePart:
    """A call of an object with its results, or a text. Any of its ``names`` (the last part of a path, the beginning of
    a command or search) identifies the source of its ``text``.
    """

    names: tuple[str, ...]
    text: str = attrs.field(repr=False)


@attrs.frozen
class Use:
    """A reference to an object in the request of a ``turn``, which is ``known`` once another object is read."""

    known: int
    turn: int


@attrs.frozen(kw_only=True)
class Item:
    """An object of the trace; ``id`` is unique in it.

    ``born`` is the turn in which it was made, ``last_turn`` the first one whose request held all of it: some objects
    are made only once it is clear what belongs to them. ``texts`` are its renderings at L1 to L4 (for L4 the line of
    the index), without the frame; a missing fidelity has no rendering. ``lost`` names the kinds of specifics that a
    rendering lacks, ``asks`` the purposes it is not enough for. ``superseded`` is the turn in which it became known to
    be out of date.
    """

    id: str
    kind: ObjectKind
    role: Role
    tags: tuple[str, ...]
    source_tool: str | None
    source_key: str | None
    places: tuple[BlockPlace, ...]
    born: int
    last_turn: int
    text: str = attrs.field(repr=False)
    texts: Mapping[Fidelity, str] = attrs.field(repr=False)
    lost: Mapping[Fidelity, str] = attrs.field(repr=False)
    asks: Mapping[Fidelity, str] = attrs.field(factory=dict, repr=False)
    parts: tuple[TracePart, ...]
    uses: tuple[Use, ...]
    superseded: int | None


@attrs.frozen(kw_only=True)
class Reset:
    """A client's compaction: from ``turn`` on, a request begins with ``summary`` instead of the messages before number
    ``kept_from``. ``by_user`` means that its user ordered it. The summary was requested ``at`` (µs; None: right before
    the request). If its text is unknown, ``tokens`` is the size of the summary with the files that the client reads
    again.
    """

    turn: int
    kept_from: int
    summary: str
    by_user: bool
    at: int | None = None
    tokens: int | None = None


@attrs.frozen(kw_only=True)
class Trace:
    """A recorded session. ``where`` names its file and line; ``notes`` list the assumptions made about it.

    ``messages`` is the whole history, parsed, as if the client had never shortened it; ``trace_of`` divides it into
    ``items``. The first request read ``found_cached`` tokens that another session had cached. With a ``head``, the
    counted prompts are those of exactly this content, and sizes are scaled to them. ``nanodollars`` is the recorded
    cost without Mnemosyne, None if that is not on record.
    """

    where: str
    name: str
    model: str | None
    messages: Sequence[Mapping[str, Any]] = attrs.field(repr=False)
    requests: Sequence[TraceRequest] = attrs.field(repr=False)
    items: Sequence[Item] = attrs.field(default=(), repr=False)
    resets: Sequence[Reset]
    notes: tuple[str, ...] = ()
    found_cached: int = 0
    head: OwnHead | None = attrs.field(default=None, repr=False)
    nanodollars: int | None = None
    developer: str | None = None


Step = Callable[[], None]
"""Called after each request, to show progress."""


def pass_on() -> None:
    """A step that shows no progress."""


# From requests to objects


def trace_of(recorded: Trace, step: Step = pass_on) -> Trace:
    """The session with its history in objects. Takes a second for each megabyte."""
    made = _Made(recorded)
    for request in recorded.requests:
        made.segment(request)
        step()
    return attrs.evolve(recorded, items=tuple(made.items()))


class _Made:
    """The objects that segmentation makes, request by request, as it does in the server."""

    def __init__(self, recorded: Trace) -> None:
        self._seen = list(_read_messages(recorded))
        self._known = SegmentationState()
        self._drafts: list[tuple[str, int, Draft]] = []
        """Each with the object's id and the turn in which it was made."""
        self._uses: dict[str, list[Use]] = {}
        self._superseded: dict[str, int] = {}
        self._identify = partial(_id, sha256(recorded.name.encode("utf-8", "surrogatepass")).digest())

    def segment(self, request: TraceRequest) -> None:
        found = segment(self._seen[self._known.open : request.messages], self._known)
        first = len(self._drafts)
        ids = [self._identify(first + number, draft) for number, draft in enumerate(found.drafts)]
        for identity, draft in zip(ids, found.drafts, strict=True):
            links = tuple(Link(link.relation, _resolve(link.target, ids)) for link in draft.links)
            self._drafts.append((identity, request.turn, draft))
            for link in links:
                if link.relation in _USES:
                    self._uses.setdefault(link.target, []).append(Use(request.turn, draft.last_turn))
            self._known = self._known.after_all([_memory_object(identity, draft, links)])
        for each in found.supersessions:
            target = _resolve(each.target, ids)
            self._superseded.setdefault(target, request.turn)
            self._known = self._known.supersede(target)
        self._known = self._known.settle_before(found.open)

    def items(self) -> Iterator[Item]:
        for identity, born, draft in self._drafts:
            texts, lost, asks = _list_renditions(draft)
            yield Item(
                id=identity,
                born=born,
                text=draft.text,
                texts=texts,
                lost=lost,
                asks=asks,
                parts=tuple(map(_name_part, _describe_parts(draft, self._seen))),
                uses=tuple(self._uses.get(identity, ())),
                superseded=self._superseded.get(identity),
                **{name: getattr(draft, name) for name in _KEPT},
            )


def _read_messages(recorded: Trace) -> Iterator[SeenMessage]:
    counts = [request.messages for request in recorded.requests]
    for index, message in enumerate(recorded.messages):
        listed = content_blocks(message["content"])
        yield SeenMessage(index, message["role"], bisect_right(counts, index) + 1, listed)


def _describe_parts(draft: Draft, seen: Sequence[SeenMessage]) -> Iterator[Description]:
    """Describe each call of an object with its results, and each text."""
    calls: dict[str, Any] = {}
    results: dict[str, list[Any]] = {}
    for place in draft.places:
        message = seen[place.message]
        block = message.content[place.block]
        if blocks.is_any_call(block):
            calls[str(block.get("id"))] = block
        elif blocks.is_any_result(block):
            results.setdefault(str(block.get("tool_use_id")), []).append(block)
        elif block["type"] not in THINKING:
            yield prose.describe(message.role, block)
    for identity in {**calls, **results}:
        yield tools.describe(calls.get(identity), results.get(identity, []))


def _resolve(target: str | int, ids: Sequence[str]) -> str:
    return ids[target] if isinstance(target, int) else target


def _id(salt: bytes, number: int, draft: Draft) -> str:
    """Eight characters from the session's name and the object's first place, or a derived object's number."""
    origin = f"{draft.places[0].message}.{draft.places[0].block}" if draft.places else f"derived {number}"
    return base64.b32encode(blake2b(origin.encode(), key=salt, digest_size=5).digest()).decode().lower()


def _memory_object(identity: str, draft: Draft, links: tuple[Link, ...]) -> MemoryObject:
    """The part of an object that segmentation remembers."""
    return MemoryObject(
        at=0,
        object=identity,
        branch="",
        turn=draft.last_turn,
        content=b"",
        size=len(draft.text),
        tokens=0,
        stub_tokens=0,
        links=links,
        admission=_UNSCORED,
        last_use=draft.last_turn,
        **{name: getattr(draft, name) for name in _REMEMBERED},
    )


# Renderings below full fidelity: the extractive summary, the stub and the line in the index


def _list_renditions(draft: Draft) -> tuple[Mapping[Fidelity, str], ...]:
    """The texts at L1, L3 and L4, the kinds of specifics that L1 lacks, and the purposes that it is not enough for."""
    texts = {Fidelity.STUB: draft.stub, Fidelity.EVICTED: draft.line}
    lost: dict[Fidelity, str] = {}
    asks: dict[Fidelity, str] = {}
    if is_its_own_detail(draft.tags):
        texts[Fidelity.DETAILED], lost[Fidelity.DETAILED] = draft.stub, REPLACED_TEXT
    elif draft.places and (target := extract_chars(draft.kind, len(draft.text))):
        asked = renditions.RenditionRequest(
            kind=draft.kind,
            source_tool=draft.source_tool,
            source_key=draft.source_key,
            text=draft.text,
            parts=draft.parts,
            target_chars=target,
        )
        made = summarize(asked)
        if made.text:
            texts[Fidelity.DETAILED] = made.text
            measured = measure(draft.text, made.text)
            told = render_counts({loss.kind.value: loss.lost for loss in measured.losses})
            lost[Fidelity.DETAILED], asks[Fidelity.DETAILED] = told, render_phrases(made.declared.fault_when)
    return texts, lost, asks


def _name_part(part: Description) -> TracePart:
    path = path_of(part)
    if path is not None:
        return TracePart((plain(last_part(path), LINE),), part.text)
    what = without_facts(part).removeprefix(f"{part.tool} ")
    asked = [line.partition(": ") for line in part.text.split("\n", 8)[:8]]
    told = [value for name, _, value in asked if name in _TELLING]
    names = [plain(each, LINE).rstrip("…")[:NAMED].strip() for each in (what, *told)]
    return TracePart(tuple(dict.fromkeys(name for name in names if len(name) > 1)), part.text)

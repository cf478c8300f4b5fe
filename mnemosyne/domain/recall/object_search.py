"""Search for objects by words and by meaning, and the combination of both into one ranking."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, is_searched
from mnemosyne.domain.objects.events import ObjectFields
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.kinds import UNCHANGED, ObjectKind
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.retrieval import RELEVANT, WHOLE, WORDS_ALONE, Calibration, WordIndex
from mnemosyne.domain.text.passages import Passage, passages

MOST_LOOKED_AT = 100
"""Maximum number of objects considered for one answer."""

MOST_MORE = 200
"""Maximum number of passages of these objects beside the best one of each."""

PASSAGE_WEIGHT, STUB_WEIGHT = 0.42, 0.18
"""Weights of the nearness of a passage and of its object's stub, of 1; words have the rest (ADR 117)."""

LEAST_OF_OTHERS = 0.25
"""Minimum relevance of every result after the first, as a share of ``RELEVANT``."""


@attrs.frozen
class PassageHit:
    """A passage of an object: characters of ``text_in_index``. A higher ``score`` is better."""

    object: str
    passage: Passage
    score: float


@attrs.frozen(kw_only=True)
class ByWords:
    """Results by words: passages, best first, and ``whole``, the scores of objects by their entire text. Scores are
    shares, 0 to 1, of the maximum for the question's words. ``coverage`` is the share of the question in each of these
    passages, 0 to 1.
    """

    passages: Sequence[PassageHit] = ()
    whole: Mapping[str, float] = attrs.field(factory=dict)
    coverage: Sequence[float] = ()


@attrs.frozen(kw_only=True)
class ByMeaning:
    """The passages that are nearest to a question, nearest first, and the nearest ``stubs`` by object; scores are dot
    products.
    """

    embedder: str
    calibration: Calibration
    passages: Sequence[PassageHit] = ()
    stubs: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class SearchResult:
    """Passages, best first, several of one object among them; empty if nothing is relevant.

    ``embedder`` names the embedder of the vectors (None: words alone). ``missing`` counts objects in scope that are not
    in the index yet, ``skipped`` objects that could not be read for the index.
    """

    passages: Sequence[PassageHit] = ()
    embedder: str | None = None
    missing: int = 0
    skipped: int = 0

    @property
    def hits(self) -> Sequence[PassageHit]:
        """The best passage of each object, best first."""
        best: dict[str, PassageHit] = {}
        for hit in self.passages:
            best.setdefault(hit.object, hit)
        return [*best.values()]


@attrs.frozen(kw_only=True)
class AcrossResult:
    """Results from several sessions, best first: each with the session's stream and a passage of one of its objects.
    ``embedder`` as in ``SearchResult``.
    """

    hits: Sequence[tuple[UUID, PassageHit]] = ()
    embedder: str | None = None


class ObjectIndex(Protocol):
    """An index of objects."""

    async def search(
        self, stream: UUID, question: str, among: Collection[str], limit: int, least: float = RELEVANT
    ) -> SearchResult:
        """Search the given objects of a session, never another's. The result is empty if the best passages are less
        relevant than ``least``; for 0, it has all results. Raises LogFailed.
        """
        ...


@attrs.frozen(kw_only=True)
class Filter:
    """Filter for objects: each field that is not None must match. ``turns`` is a range, first and last included."""

    branch: str | None = None
    kind: ObjectKind | None = None
    tag: str | None = None
    turns: tuple[int, int] | None = None

    def choose(self, memory: Memory) -> dict[str, MemoryObject]:
        """The objects of a session that are searched."""
        return {name: obj for name, obj in self.fitting(memory).items() if is_searched(obj)}

    def fitting(self, memory: Memory) -> dict[str, MemoryObject]:
        """The matching objects of a session, or those that a branch can restore, including those outside the index."""
        names = None if self.branch is None else {each.id for each, _ in memory.within_reach(self.branch)}
        return {key: obj for key, obj in memory.objects.items() if (names is None or key in names) and self._fits(obj)}

    def _fits(self, obj: MemoryObject) -> bool:
        first, last = self.turns or (obj.first_turn, obj.last_turn)
        return (
            not obj.forgotten
            and UNCHANGED not in obj.tags  # it contains none of the file that the client reports as unchanged
            and self.kind in (None, obj.kind)
            and (self.tag is None or self.tag in obj.tags)
            and obj.first_turn <= last
            and obj.last_turn >= first
        )


def count_unindexed(objects: Iterable[MemoryObject]) -> int:
    """Number of objects with text outside the index."""
    return sum(obj.holds_content and not obj.forgotten and not is_searched(obj) for obj in objects)


def text_in_index(obj: ObjectFields, content: bytes) -> str:
    """The indexed text of an object: the text of its blocks, or its stub without any. Raises ValueError."""
    text = full_text(content) if obj.holds_content else obj.stub
    return text.encode("utf-8", "replace").decode()


def find_passages(query: str, texts: Mapping[str, str], least: float = RELEVANT) -> Sequence[PassageHit]:
    """The passages of texts by object id that best match a query, best first, none if the best is less relevant than
    ``least``. Three megabytes take a second.
    """
    index: WordIndex[tuple[str, Passage]] = WordIndex()
    for key, text in texts.items():
        for passage in passages(text):
            index.add((key, passage), text[passage.start : passage.end])
    hits = index.search(query, MOST_LOOKED_AT)
    coverage = [index.coverage(query, hit.key) for hit in hits]
    words = ByWords(passages=[PassageHit(*hit.key, hit.score) for hit in hits], coverage=coverage)
    return combine(words, None, MOST_LOOKED_AT, least).passages


def combine(words: ByWords, meaning: ByMeaning | None, limit: int, least: float = RELEVANT) -> SearchResult:
    """Combine the results of words and meaning into one ranking of passages, of at most ``limit`` objects. An object is
    as good as its best passage. ``least`` as in ``ObjectIndex.search``.

    Relevance is decided by the calibration, from the nearest passage and the best one by words.
    """
    near, embedder = ((), None) if meaning is None else (meaning.passages, meaning.embedder)
    best_coverage = words.coverage[0] if words.coverage else 0.0
    if not _is_relevant(meaning, near[0].score if near else None, best_coverage, least):
        return SearchResult(embedder=embedder)
    nearness = {(hit.object, hit.passage): hit.score for hit in near}
    coverage = {(hit.object, hit.passage): held for hit, held in zip(words.passages, words.coverage, strict=True)}
    others = min(least, LEAST_OF_OTHERS * RELEVANT)
    chosen: list[PassageHit] = []
    objects: set[str] = set()
    for hit in sorted(_score(words, near, meaning.stubs if meaning else {}), key=lambda hit: -hit.score):
        key = hit.object, hit.passage
        room = len(chosen) < len(objects) + MOST_MORE if hit.object in objects else len(objects) < limit
        if room and (not chosen or _is_relevant(meaning, nearness.get(key), coverage.get(key, 0.0), others)):
            chosen.append(hit)
            objects.add(hit.object)
    return SearchResult(passages=chosen, embedder=embedder)


def _score(words: ByWords, near: Sequence[PassageHit], stubs: Mapping[str, float]) -> Iterator[PassageHit]:
    """The passages with their scores. A passage or stub that is not among the nearest counts like the last passage."""
    shares = {(hit.object, hit.passage): hit.score for hit in words.passages}
    nearness = {(hit.object, hit.passage): max(0.0, hit.score) for hit in near}
    farthest = min(nearness.values(), default=0.0)
    for key in dict.fromkeys((*shares, *nearness)):
        share = (1 - WHOLE) * shares.get(key, 0.0) + WHOLE * words.whole.get(key[0], 0.0)
        both = PASSAGE_WEIGHT * nearness.get(key, farthest) + STUB_WEIGHT * stubs.get(key[0], farthest)
        yield PassageHit(*key, (1 - PASSAGE_WEIGHT - STUB_WEIGHT) * share + both if near else share)


def _is_relevant(meaning: ByMeaning | None, nearness: float | None, coverage: float, least: float) -> bool:
    """``nearness`` is None without a vector, or if others are nearer."""
    if meaning is None or nearness is None:
        return WORDS_ALONE.relevance(0.0, coverage) >= least
    calibration = meaning.calibration
    return nearness >= calibration.near or calibration.relevance(nearness, coverage) >= least

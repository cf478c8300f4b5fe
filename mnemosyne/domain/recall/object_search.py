"""Objects found by words and by meaning: what an index of them answers, and how that becomes one ranking."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, is_searched
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.kinds import UNCHANGED, ObjectKind
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.quoting import LEAST_COVERAGE
from mnemosyne.domain.recall.ranking import WHOLE, blend
from mnemosyne.domain.recall.retrieval import RELEVANT, Calibration
from mnemosyne.domain.text.passages import Passage

LEAST_OF_OTHERS = 0.25
"""What follows the first must be relevant by itself, to this part of what is asked of that."""


@attrs.frozen
class PassageHit:
    """A passage of an object: characters of what ``text_in_index`` gives. More ``score`` is better."""

    object: str
    passage: Passage
    score: float


@attrs.frozen(kw_only=True)
class ByWords:
    """What the words of a question find: the best passage of each object, best first, and ``whole``, what objects have
    by all that they hold. Scores are 0 to 1: of what the question's words could give. ``coverage`` says how much of the
    question each of these passages holds, 0 to 1.
    """

    passages: Sequence[PassageHit] = ()
    whole: Mapping[str, float] = attrs.field(factory=dict)
    coverage: Sequence[float] = ()


@attrs.frozen(kw_only=True)
class ByMeaning:
    """The passage of each object that is nearest to a question, nearest first; scores are dot products."""

    embedder: str
    calibration: Calibration
    passages: Sequence[PassageHit] = ()


@attrs.frozen(kw_only=True)
class SearchResult:
    """What was found, one passage of each object, best first; nothing where nothing is relevant.

    ``embedder`` says what meaning was compared with (None: words alone). ``missing`` counts objects that should have
    been searched and are not in the index yet, ``unembedded`` those that are there with their words only, ``skipped``
    those that could not be read when the index was made.
    """

    hits: Sequence[PassageHit] = ()
    embedder: str | None = None
    missing: int = 0
    unembedded: int = 0
    skipped: int = 0


@attrs.frozen(kw_only=True)
class AcrossResult:
    """What was found in several sessions, best first: each the session's stream and a passage of one of its objects.
    ``embedder`` as in ``SearchResult``.
    """

    hits: Sequence[tuple[UUID, PassageHit]] = ()
    embedder: str | None = None


class ObjectIndex(Protocol):
    """Where objects are searched."""

    async def search(self, stream: UUID, question: str, among: Collection[str], limit: int) -> SearchResult:
        """The best of some objects of a session, never another's. Raises LogFailed."""
        ...


@attrs.frozen(kw_only=True)
class Filter:
    """Which objects are asked for: each that is not None must fit. ``turns`` are the first and the last of a range."""

    branch: str | None = None
    kind: ObjectKind | None = None
    tag: str | None = None
    turns: tuple[int, int] | None = None

    def choose(self, memory: Memory) -> dict[str, MemoryObject]:
        """The objects of a session that are searched."""
        return {name: each for name, each in self.fitting(memory).items() if is_searched(each)}

    def fitting(self, memory: Memory) -> dict[str, MemoryObject]:
        """The objects of a session that fit, in the order in which they were made, also those outside of the index."""
        names = memory.objects if self.branch is None else memory.view_of(self.branch).objects
        objects = {name: memory.objects[name] for name in names}
        return {name: each for name, each in objects.items() if self._fits(each)}

    def _fits(self, each: MemoryObject) -> bool:
        first, last = self.turns or (each.first_turn, each.last_turn)
        return (
            not each.forgotten
            and UNCHANGED not in each.tags  # it holds none of the file that its client says is unchanged
            and self.kind in (None, each.kind)
            and (self.tag is None or self.tag in each.tags)
            and each.first_turn <= last
            and each.last_turn >= first
        )


def count_unindexed(objects: Iterable[MemoryObject]) -> int:
    """How many objects say something that the index does not hold."""
    return sum(bool(each.places) and not each.forgotten and not is_searched(each) for each in objects)


def text_in_index(each: MemoryObject | ObjectCreated, content: bytes) -> str:
    """What is searched of an object: the text of its blocks, or what it is called without any. Raises ValueError."""
    said = full_text(content) if each.places else each.stub
    return said.encode("utf-8", "replace").decode()


def combine(words: ByWords, meaning: ByMeaning | None, limit: int) -> SearchResult:
    """One answer of what words and meaning found, by their scores. Of each object the passage is shown that stands
    higher in its own ranking.

    Whether anything is relevant is judged by the nearest passage and the best by words, as it was calibrated.
    """
    near = meaning.passages if meaning is not None else ()
    embedder = meaning.embedder if meaning is not None else None
    if not _is_relevant(meaning, near[0].score if near else None, words.coverage[0] if words.coverage else 0.0):
        return SearchResult(embedder=embedder)
    best: dict[str, tuple[int, Passage]] = {}
    for ranking in (words.passages, near):
        for rank, hit in enumerate(ranking):
            if hit.object not in best or rank < best[hit.object][0]:
                best[hit.object] = rank, hit.passage
    nearness = {hit.object: hit.score for hit in near}
    coverage = {hit.object: held for hit, held in zip(words.passages, words.coverage, strict=True)}
    hits: list[PassageHit] = []
    for key, score in sorted(_scores(words, near, best).items(), key=lambda item: -item[1]):
        if len(hits) == limit:
            break
        if not hits or _is_relevant(meaning, nearness.get(key), coverage.get(key, 0.0), LEAST_OF_OTHERS):
            hits.append(PassageHit(key, best[key][1], score))
    return SearchResult(hits=hits, embedder=embedder)


def _scores(words: ByWords, near: Sequence[PassageHit], found: Collection[str]) -> dict[str, float]:
    """The score of each object that was found. One that is not among the nearest is taken to be as near as the last."""
    of_passage = {hit.object: hit.score for hit in words.passages}
    shares = {key: (1 - WHOLE) * of_passage.get(key, 0.0) + WHOLE * words.whole.get(key, 0.0) for key in found}
    if not near:
        return shares
    nearness = {hit.object: max(0.0, hit.score) for hit in near}
    farthest = min(nearness.values())
    return {key: blend(share, nearness.get(key, farthest)) for key, share in shares.items()}


def _is_relevant(meaning: ByMeaning | None, nearness: float | None, coverage: float, least: float = 1.0) -> bool:
    """``nearness`` is None where there is no vector, or where others are nearer."""
    if meaning is None or nearness is None:
        return coverage >= least * LEAST_COVERAGE
    return meaning.calibration.relevance(nearness, coverage) >= least * RELEVANT

"""Answers a person's question from a session's objects, as the model's own memory query would."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall.answering import answers, list_texts, parts_of_text
from mnemosyne.domain.recall.composing import PASSAGE_TOKENS, HelperQuestion, question_for, quote_sentences
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.object_search import MOST_LOOKED_AT, Filter, ObjectIndex, count_unindexed
from mnemosyne.domain.recall.sources import may_answer
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decision_inputs import HelperAnswer, RecordQuestion
from mnemosyne.domain.text.parts import TextPart
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.tools.memory_tools import LONGEST_REASON
from mnemosyne.errors import ContentForgotten, ContentMissing
from mnemosyne.services import memories
from mnemosyne.services.sessions import Archive

Compose = Callable[[HelperQuestion], Awaitable[HelperAnswer | None]]
"""Composes an answer from passages with a helper model; None if it is not asked."""


@attrs.frozen
class Cited:
    """A quote that answers, its object, and the helper model's ``sentence`` that it supports, if any."""

    quote: Quote
    object: MemoryObject
    sentence: str | None = None


@attrs.frozen(kw_only=True)
class MemoryAnswer:
    """Quotes that answer a question, best first; none if no object answers it. ``helped`` is the helper model's
    question and answer, None if it was not asked.

    ``embedder`` and ``missing`` as in ``SearchResult``. ``skipped`` counts objects that may answer but
    cannot be read, ``outside`` those that are not indexed.
    """

    cited: Sequence[Cited]
    embedder: str | None
    missing: int
    skipped: int
    outside: int
    helped: HelperAnswer | None = None


async def ask(
    archive: Archive,
    index: ObjectIndex,
    stream: UUID,
    question: str,
    chosen: Filter,
    most_tokens: int,
    compose: Compose | None = None,
) -> MemoryAnswer:
    """Answer a question from a session's objects in at most ``most_tokens`` tokens: in a helper model's verified
    sentences if there are any, otherwise in quotes. Raises NotFound for an unknown branch, ContentForgotten for a
    deleted session.
    """
    among, searched = await memories.read_chosen(archive, stream, chosen)
    found = await index.search(stream, question, searched, MOST_LOOKED_AT)
    asked = may_answer(question, [hit.object for hit in found.hits], among)
    texts_by_id = await _read_texts(archive, stream, [among[key] for key in asked])
    texts = list_texts(texts_by_id, found.hits, among)
    helped: HelperAnswer | None = None
    cited: list[Cited] = []
    if compose is not None:
        quotes = answers(question, texts, PASSAGE_TOKENS, _count_tokens)
        if quotes:
            helped = await compose(question_for(question, [quote for quote, _ in quotes], among))
        supported = quote_sentences(
            helped.sentences if helped else (), {each.id: each.text for each in texts}, most_tokens, _count_tokens
        )
        cited = [Cited(quote, among[quote.object_id], sentence.text) for sentence, quote, _ in supported]
    if not cited:
        cited = [
            Cited(quote, among[quote.object_id]) for quote, _ in answers(question, texts, most_tokens, _count_tokens)
        ]
    return MemoryAnswer(
        cited=cited,
        embedder=found.embedder,
        missing=found.missing,
        skipped=found.skipped + len(asked) - len(texts_by_id),
        outside=count_unindexed(among.values()),
        helped=helped,
    )


async def record(
    archive: Archive, stream: UUID, question: str, helped: HelperAnswer, at: int, correlation_id: str
) -> None:
    """Record a person's question to a helper model and its cost. ``at`` is in µs of UTC."""
    asked = RecordQuestion(at=at, question=sanitize.text(plain(question, LONGEST_REASON)), answered=helped)
    await memories.decide(archive, stream, lambda _: asked, correlation_id)


def _count_tokens(text: str) -> int:
    return Estimator.of(None).tokens(features_of_text(text))


async def _read_texts(
    archive: Archive, stream: UUID, objects: Sequence[MemoryObject]
) -> Mapping[str, tuple[TextPart, ...]]:
    """The texts of objects, without unreadable ones."""
    texts: dict[str, tuple[TextPart, ...]] = {}
    for each in objects:
        try:
            content = await memories.content_of(archive, stream, each) if each.places else b""
            texts[each.id] = parts_of_text(each, content)
        except (ContentForgotten, ContentMissing, ValueError):
            continue
    return texts

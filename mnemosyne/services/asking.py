"""A question answered from what a session remembers: the model's own question to its memory, asked by a person."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall.answering import answers
from mnemosyne.domain.recall.candidates import list_texts, may_answer, parts_of_text
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.object_search import Filter, ObjectIndex, count_outside
from mnemosyne.domain.recall.quoting import MOST_LOOKED_AT, Where
from mnemosyne.domain.text.parts import TextPart
from mnemosyne.errors import ContentForgotten, ContentMissing
from mnemosyne.services import memories
from mnemosyne.services.sessions import Archive


@attrs.frozen
class Cited:
    """Words of an object that answer, and the object."""

    quote: Quote
    object: MemoryObject


@attrs.frozen(kw_only=True)
class MemoryAnswer:
    """Quotes that answer a question, best first; none where nothing that is remembered answers it.

    ``embedder``, ``missing`` and ``unembedded`` as in ``SearchResult``. ``skipped`` counts objects that might answer
    and cannot be read, ``outside`` those that the index does not hold.
    """

    cited: Sequence[Cited]
    embedder: str | None
    missing: int
    unembedded: int
    skipped: int
    outside: int


async def ask(
    archive: Archive, index: ObjectIndex, stream: UUID, question: str, chosen: Filter, most_tokens: int
) -> MemoryAnswer:
    """What a session's objects answer, in at most so many tokens. Raises NotFound for a branch that it has not,
    ContentForgotten where the session was forgotten.
    """
    among, searched = await memories.read_chosen(archive, stream, chosen)
    found = await index.search(stream, question, searched, MOST_LOOKED_AT)
    places = [Where(hit.object, hit.passage.start, hit.passage.end) for hit in found.hits]
    asked = may_answer(question, places, among)
    said = await _read_texts(archive, stream, [among[key] for key in asked])
    estimator = Estimator.of(None)
    quotes = answers(
        question,
        list_texts(said, places, among),
        most_tokens,
        lambda text: estimator.tokens(features_of_text(text)),
    )
    return MemoryAnswer(
        cited=[Cited(quote, among[quote.object_id]) for quote, _ in quotes],
        embedder=found.embedder,
        missing=found.missing,
        unembedded=found.unembedded,
        skipped=found.skipped + len(asked) - len(said),
        outside=count_outside(among.values()),
    )


async def _read_texts(
    archive: Archive, stream: UUID, objects: Sequence[MemoryObject]
) -> Mapping[str, tuple[TextPart, ...]]:
    """What objects say, but for those that cannot be read."""
    said: dict[str, tuple[TextPart, ...]] = {}
    for each in objects:
        try:
            content = await memories.content_of(archive, stream, each) if each.places else b""
            said[each.id] = parts_of_text(each, content)
        except (ContentForgotten, ContentMissing, ValueError):
            continue
    return said

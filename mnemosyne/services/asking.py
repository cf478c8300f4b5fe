"""Answers a person's question from a session's objects, as the model's own memory query would."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.helper.answer import HelperQuestion, LookAgain
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall.answering import NEAREST, answer, question_for, quote_sentences
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.object_search import MOST_LOOKED_AT, Filter, ObjectIndex, SearchResult, count_unindexed
from mnemosyne.domain.recall.retrieval import ANSWERS
from mnemosyne.domain.recall.sources import (
    MOST_SOURCES,
    SOURCES_AGAIN,
    Announcements,
    Source,
    list_sources,
    read_sources,
)
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decision_inputs import RecordQuestion, finds_nothing
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.tools.memory_tools import ANSWER_TOKENS, LONGEST_REASON, MOST_ANSWER
from mnemosyne.errors import ContentForgotten, ContentMissing
from mnemosyne.figures import dollars
from mnemosyne.services import memories
from mnemosyne.services.memory_operations import ApiOperation
from mnemosyne.services.sessions import Archive
from mnemosyne.services.unstructuring import members

Compose = Callable[[HelperQuestion], Awaitable[HelperAnswer | None]]
"""Composes an answer from passages with a helper model, or LookAgain; None if it is not asked."""


@attrs.frozen
class Cited:
    """A quote that answers, its object, and the helper model's ``sentence`` that it supports, if any."""

    quote: Quote
    object: MemoryObject
    sentence: str | None = None


@attrs.frozen(kw_only=True)
class MemoryAnswer:
    """Quotes that answer a question, best first; none if no object clearly answers it. ``nearest`` are then the
    passages that come closest. ``helped`` is the helper model's question and answer, None if it was not asked.

    ``embedder`` and ``missing`` as in ``SearchResult``. ``skipped`` counts objects that may answer but
    cannot be read, ``outside`` those that are not indexed.
    """

    cited: Sequence[Cited]
    embedder: str | None
    missing: int
    skipped: int
    outside: int
    nearest: Sequence[Cited] = ()
    helped: HelperAnswer | None = None


async def ask(
    archive: Archive,
    index: ObjectIndex,
    stream: UUID,
    question: str,
    chosen: Filter,
    most_tokens: int | None,
    compose: Compose | None = None,
) -> MemoryAnswer:
    """Answer a question from a session's objects in at most ``most_tokens`` tokens, or ``ANSWER_TOKENS``: in a helper
    model's verified sentences, or not at all if it finds nothing; without its answer, in quotes, or else by the nearest
    passages, which may take ``NEAREST`` times the latter. Raises NotFound for an unknown branch, ContentForgotten for a
    deleted session.
    """
    room = NEAREST * ANSWER_TOKENS if most_tokens is None else most_tokens
    most_tokens = ANSWER_TOKENS if most_tokens is None else most_tokens
    memory, among, searched = await memories.read_chosen(archive, stream, chosen)
    announcements = Announcements(memory.objects.values())

    async def read(
        least: float, words: str = question, most: int = MOST_SOURCES
    ) -> tuple[SearchResult, Sequence[MemoryObject], Sequence[Source]]:
        found = await index.search(stream, words, searched, MOST_LOOKED_AT, least)
        objects = list_sources(found.hits, among, most)
        contents = await _read_contents(archive, stream, objects)
        return found, objects, read_sources(objects, contents, announcements, found.passages)

    helped: HelperAnswer | None = None
    cited: list[Cited] = []
    nearest: list[Cited] = []
    if compose is not None:
        found, objects, sources = await read(0.0)
        asked = question_for(question, sources, among, _count_tokens)
        helped = None if asked is None else await compose(asked)
        texts = {each.id: each.text for each in sources}
        if asked is not None and isinstance(helped, LookAgain):
            asked = attrs.evolve(asked, look_for=helped.look_for)
            found, objects, sources = await read(0.0, asked.searched, SOURCES_AGAIN)
            again = question_for(question, sources, among, _count_tokens, asked)
            helped = helped.add_second(None if again is None else await compose(again))
            texts.update((each.id, each.text) for each in sources)
        supported = quote_sentences(helped.sentences if helped else (), texts, most_tokens, _count_tokens)
        cited = [Cited(quote, among[quote.object_id], sentence.text) for sentence, quote, _ in supported]
    if not cited and not finds_nothing(helped):
        found, objects, sources = await read(ANSWERS)
        quotes = answer(question, sources, most_tokens, _count_tokens)
        cited = [Cited(quote, among[quote.object_id]) for quote, _ in quotes]
        if not cited:
            found, objects, sources = await read(0.0)
            quotes = answer(question, sources, room, _count_tokens)
            nearest = [Cited(quote, among[quote.object_id]) for quote, _ in quotes]
    return MemoryAnswer(
        cited=cited,
        nearest=nearest,
        embedder=found.embedder,
        missing=found.missing,
        skipped=found.skipped + len(objects) - len(sources),
        outside=count_unindexed(among.values()),
        helped=helped,
    )


ASK = ApiOperation(
    name="askSession",
    summary="Answer a question with quotes from the content of a session.",
    method="POST",
    path="/sessions/{session}/ask",
    properties={
        "session": {"type": "string"},
        "question": {"type": "string"},
        "tokens": {"type": "integer", "maximum": MOST_ANSWER},
    },
    required=("session", "question"),
)


def answer_as_json(question: str, answer: MemoryAnswer) -> dict[str, Any]:
    """An answer as JSON."""
    return {
        "question": question,
        "answered": bool(answer.cited),
        **members(answer, "embedder missing skipped", not_indexed="outside"),
        "helper": None if answer.helped is None else helper_as_json(answer.helped),
        "quotes": [_quote_as_json(each) for each in answer.cited],
        "nearest": [_quote_as_json(each) for each in answer.nearest],
    }


def _quote_as_json(cited: Cited) -> dict[str, Any]:
    return {**members(cited, "sentence"), **origin_as_json(cited.object), **members(cited.quote, "start end text")}


def helper_as_json(helped: HelperAnswer) -> dict[str, Any]:
    """The answer of a helper model as JSON."""
    return {
        **members(helped, "helper dropped why"),
        "sentences": [members(sentence, "text object start end") for sentence in helped.sentences],
        "dollars": dollars(helped.nanodollars),
    }


def origin_as_json(each: MemoryObject) -> dict[str, Any]:
    """The type and the source of an object as JSON."""
    names = "id kind role source_tool source_key first_turn last_turn superseded_by"
    return members(each, names, out_of_date="stale")


async def record(
    archive: Archive, stream: UUID, question: str, helped: HelperAnswer, at: int, correlation_id: str
) -> None:
    """Record a person's question to a helper model and its cost. ``at`` is in µs of UTC."""
    asked = RecordQuestion(at=at, question=sanitize.text(plain(question, LONGEST_REASON)), **helped.as_fields())
    await memories.decide(archive, stream, lambda _: asked, correlation_id)


def _count_tokens(text: str) -> int:
    return Estimator.of(None).tokens(features_of_text(text))


async def _read_contents(archive: Archive, stream: UUID, objects: Sequence[MemoryObject]) -> Mapping[str, bytes]:
    """The contents of objects by id, without unreadable ones."""
    contents: dict[str, bytes] = {}
    for each in objects:
        try:
            contents[each.id] = await memories.content_of(archive, stream, each)
        except (ContentForgotten, ContentMissing):
            continue
    return contents

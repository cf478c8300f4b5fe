"""A search in a conversation: the best message, its neighbours, and unusual input.

Hashed words replace the model: these rules hold for any embedder, and without one.
"""

from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.adapters.embedding.conversation_index import ConversationIndex, index_conversation
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.services.conversation_files import ConversationLine
from tests.adapters.indexing import HashedWords
from tests.profiles import examples

TALK = [
    ConversationLine("a1", "Maya", "I started pottery on Tuesdays.", "2024-01-12T18:10:00"),
    ConversationLine("a2", "Tom", "Nice! Who is your teacher?", "2024-01-12T18:10:00"),
    ConversationLine("a3", "Maya", "A woman called Ingrid.", "2024-01-12T18:10:00"),
    ConversationLine("b1", "Tom", "The interview was at a shipping company.", "2024-03-03T09:00:00"),
    ConversationLine("b2", "Maya", "Fingers crossed.", "2024-03-03T09:00:00"),
]


@pytest.fixture(params=[None, HashedWords()], ids=["words alone", "with vectors"])
def embedder(request: pytest.FixtureRequest) -> Embedder | None:
    found: Embedder | None = request.param
    return found


async def index(lines: list[ConversationLine], embedder: Embedder | None) -> ConversationIndex:
    return await index_conversation(lines, embedder, lambda done, total: None)


async def search(
    embedder: Embedder | None, lines: list[ConversationLine], *queries: str, limit: int = 10
) -> list[list[object]]:
    found = await (await index(lines, embedder)).search(queries, limit, lambda done, total: None)
    return [[hit.key for hit in hits] for hits in found]


async def test_a_message_with_the_words_of_the_query_comes_first(embedder: Embedder | None) -> None:
    found = await search(embedder, TALK, "where was the interview", "Maya's pottery")
    assert [best[0] for best in found] == ["b1", "a1"]


async def test_an_answer_without_words_of_the_question_is_ranked_by_its_neighbour(embedder: Embedder | None) -> None:
    (found,) = await search(embedder, TALK, "what did the teacher say", limit=5)
    assert found.index("a3") < found.index("b2")


async def test_neighbours_belong_to_one_exchange(embedder: Embedder | None) -> None:
    (found,) = await search(embedder, TALK, "shipping", limit=2)
    assert found == ["b1", "b2"]


async def test_a_month_is_found_by_its_name(embedder: Embedder | None) -> None:
    (found,) = await search(embedder, TALK, "March 2024", limit=2)
    assert set(found) == {"b1", "b2"}


async def test_a_speaker_is_found_by_name(embedder: Embedder | None) -> None:
    (found,) = await search(embedder, TALK, "Tom", limit=2)
    assert set(found) == {"a2", "b1"}


async def test_names_of_speakers_are_not_embedded() -> None:
    lines = [ConversationLine(1, "Maya Lee", "Ask Tom.", ""), ConversationLine(2, "Tom", "", "")]
    embedder = HashedWords()
    await search(embedder, lines, "What did Maya's brother tell TOM?", "Tomas and Mayan pottery", "Tom")
    assert embedder.texts_seen == ["Ask Tom.", "", "What did brother tell ?", "Tomas and Mayan pottery", "Tom"]


async def test_messages_with_one_id_are_one_result(embedder: Embedder | None) -> None:
    lines = [
        ConversationLine("x", "", "pottery", ""),
        ConversationLine("x", "", "pottery twice", ""),
        ConversationLine(7, "", "else", ""),
    ]
    assert await search(embedder, lines, "pottery") == [["x", 7]]
    assert await search(embedder, lines, "pottery", limit=1) == [["x"]]


async def scores(embedder: Embedder | None, query: str, *messages: tuple[str, str], time: str = "") -> list[float]:
    """The scores of messages, each a (speaker, text), in their order."""
    lines = [ConversationLine(number, *each, time or str(number)) for number, each in enumerate(messages)]
    (hits,) = await (await index(lines, embedder)).search([query], len(lines), lambda done, total: None)
    found = {hit.key: hit.score for hit in hits}
    return [found[number] for number in range(len(lines))]


@given(st.lists(st.sampled_from(["pottery", "boat", "the teacher", "why?", "1204"]), min_size=1, max_size=4))
def test_a_named_speaker_outranks_the_same_words_of_another(texts: list[str]) -> None:
    messages = [(speaker, text) for text in texts for speaker in ("Maya", "Tom")]
    found = trio.run(scores, None, "What does Maya say of pottery, boat, teacher, 1204, why", *messages)
    assert all(hers > his for hers, his in zip(found[::2], found[1::2], strict=True))


async def test_a_role_is_not_a_name(embedder: Embedder | None) -> None:
    """Every message is the user's or the assistant's, and a user may be a row of a table."""
    messages = ("user", "the table of accounts"), ("assistant", "the table of accounts")
    for query in ("accounts table", "accounts table of the assistant", "the user's table of accounts"):
        by_user, by_assistant = await scores(embedder, query, *messages)
        assert by_user == pytest.approx(by_assistant)


async def test_a_message_after_a_question_scores_higher_than_one_after_a_statement(embedder: Embedder | None) -> None:
    after_question = await scores(embedder, "teacher", ("", "Who is the teacher?"), ("", "Ingrid."), time="t")
    after_statement = await scores(embedder, "teacher", ("", "He is the teacher."), ("", "Ingrid."), time="t")
    assert after_question[1] / after_question[0] > 1.5 * after_statement[1] / after_statement[0]


async def test_a_question_scores_lower_than_a_statement_with_the_same_words(embedder: Embedder | None) -> None:
    asked, stated, both = await scores(
        embedder, "boat harbour", ("", "boat in harbour?"), ("", "boat in harbour."), ("", "Yes. boat in harbour?")
    )
    assert asked < stated
    assert both < stated


async def test_the_previous_neighbour_scores_higher_than_the_next(embedder: Embedder | None) -> None:
    before, found, after = await scores(embedder, "pottery", ("", "first"), ("", "pottery"), ("", "third"), time="t")
    assert 0 < after < before < found


async def test_a_long_message_scores_like_its_best_passage(embedder: Embedder | None) -> None:
    """Other text in it does not lower the score."""
    answer = "The boiler of the shop was mended in March."
    other = " ".join(f"We spoke of tiles and glazes, number {number}." for number in range(400))
    long, longer, without = await scores(
        embedder,
        "when was the boiler mended",
        ("", f"{other}\n\n{answer}"),
        ("", f"{other}\n\n{other}\n\n{answer}\n\n{other}"),
        ("", other),
    )
    assert longer == pytest.approx(long, rel=0.3)
    assert longer > 2 * without


@examples(50)
@given(st.lists(st.text(max_size=30), max_size=4), st.text(max_size=30))
def test_every_score_is_between_0_and_1(texts: list[str], query: str) -> None:
    """Mixed scripts, numbers alone, text without sentences."""
    found = trio.run(partial(scores, None, query, *((f"{text[:3]}", text) for text in texts), time="t"))
    assert all(0 <= score <= 1 for score in found)


async def test_unusual_queries_and_texts_are_accepted(embedder: Embedder | None) -> None:
    queries = ["", "…", "什么时候", "x" * 100_000]
    lines = [*TALK, ConversationLine("", "", "", "yesterday"), ConversationLine("long", "Tom", "y" * 5_000_000, "")]
    for found in await search(embedder, lines, *queries, limit=100):
        assert len(found) == len(lines)


async def test_an_empty_conversation_gives_no_result(embedder: Embedder | None) -> None:
    assert await search(embedder, [], "anything") == [[]]
    assert await search(embedder, TALK) == []

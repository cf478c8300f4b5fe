"""A conversation searched: the message that answers, its neighbours, and input of every kind."""

import pytest

from mnemosyne.adapters.conversation_index import Line, index_conversation
from mnemosyne.adapters.embedder import HashedLexical

TALK = [
    Line("a1", "Maya", "I started pottery on Tuesdays.", "2024-01-12T18:10:00"),
    Line("a2", "Tom", "Nice! Who is your teacher?", "2024-01-12T18:10:00"),
    Line("a3", "Maya", "A woman called Ingrid.", "2024-01-12T18:10:00"),
    Line("b1", "Tom", "The interview was at a shipping company.", "2024-03-03T09:00:00"),
    Line("b2", "Maya", "Fingers crossed.", "2024-03-03T09:00:00"),
]


async def search(lines: list[Line], *queries: str, limit: int = 10) -> list[list[object]]:
    index = await index_conversation(lines, HashedLexical(), lambda done, total: None)
    found = await index.search(queries, limit, lambda done, total: None)
    return [[hit.key for hit in hits] for hits in found]


async def test_the_message_that_shares_words_comes_first() -> None:
    assert [best[0] for best in await search(TALK, "where was the interview", "Maya's pottery")] == ["b1", "a1"]


async def test_an_answer_without_a_word_of_the_question_follows_its_neighbour() -> None:
    (found,) = await search(TALK, "what did the teacher say", limit=5)
    assert found.index("a3") < found.index("b2")


async def test_neighbours_end_with_the_exchange() -> None:
    (found,) = await search(TALK, "shipping", limit=2)
    assert found == ["b1", "b2"]


async def test_a_month_is_found_by_its_name() -> None:
    (found,) = await search(TALK, "March 2024", limit=2)
    assert set(found) == {"b1", "b2"}


async def test_lines_of_one_id_are_one_result_and_no_more_than_the_limit_come() -> None:
    lines = [Line("x", "", "pottery", ""), Line("x", "", "pottery twice", ""), Line(7, "", "else", "")]
    assert await search(lines, "pottery") == [["x", 7]]
    assert await search(lines, "pottery", limit=1) == [["x"]]


@pytest.mark.parametrize("query", ["", "…", "什么时候", "x" * 100_000])
async def test_odd_queries_and_texts_are_answered(query: str) -> None:
    lines = [*TALK, Line("", "", "", "yesterday"), Line("long", "Tom", "y" * 200_000, "")]
    (found,) = await search(lines, query, limit=100)
    assert len(found) == len(lines)


async def test_an_empty_conversation_gives_no_result() -> None:
    assert await search([], "anything") == [[]]
    assert await search(TALK) == []

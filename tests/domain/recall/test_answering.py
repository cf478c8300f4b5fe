"""Quotes contain the subject of a question and its context, and fit their room."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.helper.answer import HelperPassage, HelperQuestion
from mnemosyne.domain.recall.answering import (
    AGAIN_TOKENS,
    HELPER_TOKENS,
    answer,
    question_for,
    quote,
    quote_sentences,
    quote_sources,
)
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.sources import Source
from mnemosyne.domain.session.input_events import GroundedSentence
from tests.domain.remembered import created, remembered
from tests.not_none import not_none


def source(text: str, id: str = "a", **more: Any) -> Source:
    return Source(id=id, text=text, **{"spans": [(0, len(text))], **more})


RUN = source("test_a ok\ntest_b ok\n" * 400 + "--- FAIL: test_pool\n    test_pool.py:9: expected 20, got 25\nFAIL\n")


def size(text: str) -> int:
    return -(-len(text) // 4)


def find_quotes(question: str, sources: Sequence[Source], most: int = 60) -> list[str]:
    return [quote.text for quote, _ in answer(question, sources, most, size)]


def test_small_sources_are_quoted_whole_and_long_ones_around_the_question() -> None:
    small = source("max_connections = 20\n\nacquire waits", "small")
    assert find_quotes("which test acquires max_connections?", [RUN, small], 400)[0] == small.text
    (found, *_) = find_quotes("which test failed?", [RUN], 40)
    assert "--- FAIL: test_pool\n    test_pool.py:9: expected 20, got 25" in found


@pytest.mark.parametrize(
    ("text", "asked", "together"),
    [
        ("Steps:\n\n- stop the queue\n- drain it\n", "what are the steps?", "Steps:\n\n- stop the queue\n- drain it"),
        ("# at most what the plan allows\nlimit = 20\n", "limit?", "# at most what the plan allows\nlimit = 20"),
        ("The fix is\n\n    retry(7)\n    close()\n", "what is the fix?", "The fix is\n\n    retry(7)\n    close()"),
        ("Run this\n```\nmake\n\nmake test\n```\n", "what to run?", "Run this\n```\nmake\n\nmake test\n```"),
    ],
    ids=["a list behind a colon", "a line and its comment", "an indented block", "a fenced block"],
)
def test_related_lines_are_quoted_together(text: str, asked: str, together: str) -> None:
    filler = "".join(f"\nother {n}\n" for n in range(300))
    assert together in "\n".join(find_quotes(asked, [source(f"{filler}\n{text}\n{filler}")], 40))


def test_row_of_a_named_file_is_quoted_beside_the_name() -> None:
    rows = "\n".join(f"{n},AT,{n / 7:.1f}" for n in range(10_000, 10_700, 7))
    (*_, last) = find_quotes(
        "which weight has order 10350 in orders.csv?", [source(f"file: orders.csv\norder,kg\n{rows}")]
    )
    assert "10350,AT" in last


def test_only_spans_that_may_be_quoted_are_quoted() -> None:
    text = "I shall look at the port.\nThe port is 8443.\nYou must not change the port."
    start = text.index("The")
    told = find_quotes("which port?", [source(text, spans=[(start, start + 17)])], 400)
    assert told == ["The port is 8443."]


@pytest.mark.parametrize("name", ["parse_header", "src/parse/header.py", "parseHeader", "ERR_POOL_7"])
def test_unknown_compound_name_has_no_answer_whatever_else_matches(name: str) -> None:
    assert find_quotes(f"did test_pool fail with {name}?", [RUN]) == []
    assert find_quotes("did test_pool fail?", [RUN])


def test_helper_gets_more_of_more_sources_than_an_answer_quotes() -> None:
    sources = [source("".join(f"part {n}.{m} of the pool\n\n" for m in range(900)), str(n)) for n in range(9)]
    objects = remembered(*(created(each.id, 2 * n + 1) for n, each in enumerate(sources))).objects
    asked = not_none(question_for("which pool?", sources, objects, size))
    quoted = {quote.object_id for quote, _ in answer("which pool?", sources, 80, size)}
    assert {each.object for each in asked.passages} > quoted
    assert HELPER_TOKENS // 2 < sum(size(each.text) for each in asked.passages) <= HELPER_TOKENS
    first = asked.passages[0]
    assert first.name.startswith(f"#{first.object} ")
    assert sources[int(first.object)].text.encode()[first.start :].startswith(first.text.encode())
    assert question_for("which?", [], objects, size) is None


@given(
    st.lists(st.lists(st.text("aö .{", max_size=60), max_size=9).map("\n\n".join), min_size=1, max_size=3),
    st.integers(4, 60),
)
@example(["\n\n".join(["ö" * 40, "b" * 40, "ö" * 40, "a" * 40])], 30)
def test_second_passages_are_others_of_the_same_sources(texts: list[str], most: int) -> None:
    sources = [source(text, str(n)) for n, text in enumerate(texts)]
    objects = remembered(*(created(each.id, 2 * n + 1) for n, each in enumerate(sources))).objects
    sent = [
        HelperPassage(object=each.object_id, start=each.start, name="", text=each.text)
        for each, _ in quote_sources("ö?", sources, most, size, fill=True)
    ]
    again = HelperQuestion(question="ö?", passages=tuple(sent), look_for="aa")
    asked = question_for("ö?", sources, objects, size, again)
    taken = {each.object: bytearray(len(texts[int(each.object)].encode())) for each in sent}
    for each in (*sent, *(asked.passages if asked else ())):
        whole, end = texts[int(each.object)].encode(), each.start + len(each.text.encode())
        assert whole[each.start : end].decode() == each.text
        place = taken.setdefault(each.object, bytearray(len(whole)))
        assert not any(place[each.start : end])
        place[each.start : end] = b"x" * (end - each.start)
    assert asked is None or asked.look_for == "aa"


def test_second_look_ranks_passages_by_the_question_and_the_helper_s_words() -> None:
    rows = [f"row {n} of the {'pond' if n < 9_000 else 'pool'}" for n in range(15_000)]
    rows[5_000] = "row 5000, port: 8443"
    sources = [source("\n\n".join(rows))]
    objects = remembered(created("a", 1)).objects
    first = not_none(question_for("which pool?", sources, objects, size))
    assert not any("8443" in each.text for each in first.passages)
    again = not_none(question_for("which pool?", sources, objects, size, attrs.evolve(first, look_for="port")))
    assert "8443" in again.passages[0].text
    assert sum(size(each.text) for each in again.passages) <= AGAIN_TOKENS
    wrong = not_none(question_for("which pool?", sources, objects, size, attrs.evolve(first, look_for="zebra")))
    assert "pool" in wrong.passages[0].text
    short = source("a pool")
    sent = not_none(question_for("which pool?", [short], objects, size))
    assert question_for("which pool?", [short], objects, size, attrs.evolve(sent, look_for="pool")) is None


def test_best_part_comes_first_and_equal_parts_are_quoted_once() -> None:
    rows = [f"row {n} of the table has nothing in it" for n in range(200)]
    again = "\n\n".join([*rows, "The port is 8443.", *rows])
    quotes = find_quotes("which port?", [source(again, "a"), source(again, "b")], 400)
    assert "The port is 8443." in quotes[0]
    assert sum("The port is 8443." in each for each in quotes) == 1


def test_passages_are_quoted_in_the_search_s_order_where_no_word_is_shared() -> None:
    rows = [f"row {n} of a table with nothing that the question says" for n in range(200)]
    text = "\n\n".join(rows)
    found = [(rank, (text.index(rows[n]), text.index(rows[n]) + 9)) for rank, n in enumerate((150, 20))]
    (first, second) = find_quotes("how come?", [source(text, found=found)], 400)
    assert rows[150] in first
    assert rows[20] in second


def test_parts_of_another_source_precede_more_parts_of_the_same() -> None:
    text = "\n\n".join(f"row {n} of a table with nothing that the question says" for n in range(200))
    sources = [
        source(text, "a", found=[(0, (0, 9_000))]),
        source(text.replace("row", "line"), "b", found=[(3, (0, 9_000))]),
    ]
    assert {quote.object_id for quote, _ in answer("how come?", sources, 400, size)} == {"a", "b"}


def test_helper_also_receives_parts_that_share_no_word_with_the_question() -> None:
    sources = [source("The port is 8443.", "a"), source("The server listens where the file says.", "b")]
    objects = remembered(*(created(each.id, 2 * n + 1) for n, each in enumerate(sources))).objects
    asked = not_none(question_for("which port?", sources, objects, size))
    assert [each.text for each in asked.passages] == [each.text for each in sources]


def test_parts_with_blank_lines_between_them_fill_the_room_without_the_last() -> None:
    rows = "\n\n\n\n".join(f"row {number} is good" for number in range(9_000))
    quoted = quote_sources("what failed?", [source(rows)], HELPER_TOKENS, size, fill=True)
    assert HELPER_TOKENS * 0.8 < sum(tokens for _, tokens in quoted) <= HELPER_TOKENS


def test_other_parts_of_a_named_object_fill_the_room_after_the_best() -> None:
    rows = [f"row {n} of a table" for n in range(200)]
    long, short = (source("\n\n".join(["The port is 8443.", *some])) for some in (rows, rows[:20]))
    best = quote_sources("which port?", [long], 400, size)
    filled = quote_sources("which port?", [long], 400, size, fill=True)
    assert "The port is 8443." in filled[0][0].text
    assert sum(tokens for _, tokens in best) < 200 < 300 < sum(tokens for _, tokens in filled) <= 400
    ((whole, _),) = quote_sources("which port?", [short], 400, size, fill=True)
    assert whole.text == short.text


@given(st.text(max_size=60), st.lists(st.text(max_size=800), max_size=4), st.integers(20, 300))
def test_every_quote_equals_its_bytes_and_all_fit_the_room(question: str, texts: list[str], most: int) -> None:
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    sources = [
        source(text, str(n), spans=[(0, len(text) // 2), (len(text) // 2, len(text))]) for n, text in enumerate(clean)
    ]
    quotes = quote_sources(question, sources, most, size)
    assert sum(tokens for _, tokens in quotes) <= most
    places: dict[str, list[tuple[int, int]]] = {}
    for each, tokens in quotes:
        assert clean[int(each.object_id)].encode()[each.start : each.end].decode() == each.text
        assert tokens == size(each.text)
        places.setdefault(each.object_id, []).append((each.start, each.end))
    for spans in places.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))


@pytest.mark.parametrize("most", [20, 50, 200])
def test_long_line_is_cut_at_its_records(most: int) -> None:
    records = ", ".join(f'{{"flight": "HAT{n}", "origin": "A{n}", "price": {n * 7}}}' for n in range(90))
    quotes = answer("what is the origin of HAT41?", [source(f"[{records}]")], most, size)
    assert '"flight": "HAT41", "origin": "A41"' in " ".join(quote.text for quote, _ in quotes) or most == 20
    assert sum(tokens for _, tokens in quotes) <= most


def test_a_place_counts_bytes() -> None:
    found = quote("a", "\u00fcber das Limit", (9, 14))
    assert (found.start, found.end, found.text) == (10, 15, "Limit")


def sentence(start: int, end: int, text: str = "Said.", object_id: str = "a") -> GroundedSentence:
    return GroundedSentence(text=text, object=object_id, start=start, end=end)


def test_sentences_are_quoted_with_their_bytes_within_the_room() -> None:
    texts = {"a": "größer noch"}
    one, two, gone = sentence(0, 8), sentence(9, 13), sentence(0, 3, object_id="b")
    told = quote_sentences([gone, one, two], texts, 100, len)
    assert told == [
        (one, Quote("a", 0, 8, "größer"), len("Said.\ngrößer")),
        (two, Quote("a", 9, 13, "noch"), len("Said.\nnoch")),
    ]
    assert [each for each, _, _ in quote_sentences([one, two], texts, 14, len)] == [one]


def test_missing_or_partial_characters_are_not_quoted() -> None:
    assert quote_sentences([sentence(0, 3), sentence(90, 95), sentence(4, 4)], {"a": "größer"}, 100, len) == []

"""An answer is made of lines that stand in the texts, fits its room, and is none where nothing was said of it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.answering import MOST_QUOTES, MOST_TOGETHER, answers
from mnemosyne.domain.recall.choosing import SearchedText
from mnemosyne.domain.recall.lines import LONGEST_UNIT, MOST_READ, units
from mnemosyne.domain.text.parts import TextPart, Voice


def remembered(*, text: str, id: str, name: str, **more: Any) -> SearchedText:
    """An object that one person said."""
    return SearchedText(id=id, name=name, parts=(TextPart(Voice.ASSISTANT, text),), **more)


def ran(object_id: str, *calls: tuple[str, str], **more: Any) -> SearchedText:
    """An object of commands with what they printed."""
    parts = [
        part
        for command, output in calls
        for part in (TextPart(Voice.CALL, f"command: {command}", "Bash"), TextPart(Voice.RESULT, output, "Bash"))
    ]
    return SearchedText(
        id=object_id, name="; ".join(f"Bash {each[:12]}" for each, _ in calls), parts=tuple(parts), **more
    )


POOL = remembered(
    id="pool",
    name="Read src/pool.py",
    text="import threading\n\n\nclass ConnectionPool:\n    max_connections = 20\n\n    def acquire(self, timeout):\n"
    "        return self.free.pop()\n",
)
RUN = remembered(
    id="run",
    name="Bash make test",
    text="test_a ok\ntest_b ok\n" * 40 + "--- FAIL: test_pool\n    test_pool.py:9: expected 20, got 25\nFAIL\n",
)
SAID = remembered(
    id="said",
    name="User: how large?",
    text="How large should it be? I looked at the plan of the database. We decided on 20 connections per worker, "
    "because the smallest plan allows 25. Everything else stays. " + "It is so and so. " * 30,
)
ALL = (POOL, RUN, SAID)


def size(text: str) -> int:
    return -(-len(text) // 4)


def told(question: str, texts: Sequence[SearchedText] = ALL, most: int = 60) -> list[str]:
    return [quote.text for quote, _ in answers(question, texts, most, size)]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("where is ConnectionPool defined?", "class ConnectionPool:"),
        ("what is the value of max_connections?", "max_connections = 20"),
        ("what does acquire take?", "def acquire(self, timeout)"),
        ("why did make test fail?", "expected 20, got 25"),
        ("which tests failed in make test?", "--- FAIL: test_pool"),
        ("what did we decide about connections per worker?", "We decided on 20 connections per worker"),
    ],
)
def test_a_question_gets_the_line_that_answers_it(question: str, answer: str) -> None:
    assert answer in told(question)[0]


@pytest.mark.parametrize("question", ["how are migrations numbered?", "", "??", "\u306a\u305c", "4711"])
def test_what_nothing_was_said_of_has_no_answer(question: str) -> None:
    assert told(question) == []


def test_what_is_named_is_quoted_however_far_off_the_question_is() -> None:
    assert answers("how are migrations numbered?", [POOL], 60, size, 0.0)


def test_the_current_version_is_quoted_and_not_the_same_line_of_an_older_one_again() -> None:
    old = remembered(id="old", name=POOL.name, text=POOL.text.replace("20", "10"), old=True)
    quotes = answers("what is the value of max_connections in pool.py?", [old, POOL], 200, size)
    assert (quotes[0][0].object_id, "= 20" in quotes[0][0].text) == ("pool", True)
    same = remembered(id="same", name=POOL.name, text=POOL.text, old=True)
    assert {quote.object_id for quote, _ in answers("where is ConnectionPool?", [POOL, same], 60, size)} == {"pool"}


@pytest.mark.parametrize("most", [20, 50, 200])
def test_a_line_that_is_too_long_is_cut_and_nothing_grows_beyond_the_room(most: int) -> None:
    text = "PASSWORDS = [" + "'one-more-entry'," * 500 + "]"
    (first, tokens), *more = answers("what is PASSWORDS?", [remembered(id="a", name="", text=text)], most, size)
    assert first.text.startswith("PASSWORDS = [")
    assert tokens + sum(each for _, each in more) <= most


def test_what_the_model_sees_already_comes_last() -> None:
    seen = remembered(id="seen", name="Read src/other.py", text="max_connections = 30\n", seen=True)
    quotes = answers("max_connections?", [seen, POOL], 200, size)
    assert quotes[0][0].object_id == "pool"


def test_records_of_a_long_line_are_told_apart() -> None:
    records = ", ".join(f'{{"flight": "HAT{n}", "origin": "A{n}", "price": {n * 7}}}' for n in range(60))
    (best, *_) = told("what is the origin of HAT41?", [remembered(id="a", name="get_flights", text=f"[{records}]")])
    assert '"flight": "HAT41", "origin": "A41"' in best


def test_one_line_of_two_megabytes_is_read_at_its_ends_and_where_a_search_found_something() -> None:
    text = "nothing " * 150_000 + "the port is 8443 " + "nothing " * 150_000
    place = text.index("the port")
    found = remembered(id="log", name="Bash cat log", text=text, found=[(place - 100, place + 100)])
    assert "the port is 8443" in told("which port is it?", [found])[0]
    assert sum(end - start for start, end in units(text)) <= MOST_READ + LONGEST_UNIT


def test_what_is_less_likely_is_left_out_where_there_is_too_much() -> None:
    large = [remembered(id=str(n), name="", text="x " * (MOST_READ // 2)) for n in range(MOST_TOGETHER // MOST_READ)]
    last = remembered(id="last", name="", text="the port is 8443\n" + "y " * (MOST_READ // 2))
    assert told("which port?", [last, *large])
    assert not told("which port?", [*large, last])


def test_of_a_text_without_words_or_lines_something_is_quoted_where_it_is_asked_for() -> None:
    numbers = remembered(id="n", name="Bash seq", text=" ".join(map(str, range(5_000))))
    assert "4711" in told("4711", [numbers])[0]
    chinese = remembered(id="c", name="", text="\u8fde\u63a5\u6c60\u7684\u4e0a\u9650\u662f\u4e8c\u5341\u3002" * 200)
    assert told("\u8fde\u63a5\u6c60\u7684\u4e0a\u9650", [chinese], 100)


FAILED = ran(
    "f", ("make lint", "all good"), ("make test", "--- FAIL: test_pool\n    test_pool.py:9: expected 20, got 25\nFAIL")
)


def test_what_the_question_says_itself_is_no_answer() -> None:
    call = ran("c", ("grep -rn max_connections src", "src/pool.py:5:max_connections = 20"))
    question = "grep -rn max_connections src: what is the value?"
    assert told(question, [call], 9) == ["src/pool.py:5:max_connections = 20"]


@pytest.mark.parametrize("name", ["parse_header", "src/parse/header.py", "parseHeader", "ERR_POOL_7"])
def test_a_name_that_is_nowhere_has_no_answer_however_much_else_fits(name: str) -> None:
    assert told(f"why did the pool of connections fail with {name}?") == []


def test_a_name_that_is_written_in_another_way_is_known() -> None:
    assert told("what is maxConnections of the pool?")


@given(st.text(max_size=60), st.lists(st.text(max_size=800), max_size=4), st.integers(20, 300))
def test_every_quote_is_the_bytes_that_it_names_and_all_fit_the_room(
    question: str, texts: list[str], most: int
) -> None:
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    said = [remembered(id=str(n), name=text[:20], text=text) for n, text in enumerate(clean)]
    quotes = answers(question, said, most, size, 0.0)
    assert sum(tokens for _, tokens in quotes) <= most
    assert len(quotes) <= MOST_QUOTES
    places: dict[str, list[tuple[int, int]]] = {}
    for quote, tokens in quotes:
        assert clean[int(quote.object_id)].encode()[quote.start : quote.end].decode() == quote.text
        assert tokens == size(quote.text)
        places.setdefault(quote.object_id, []).append((quote.start, quote.end))
    for spans in places.values():
        spans.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(spans))

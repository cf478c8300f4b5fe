"""An answer consists of lines of the texts, fits its room, and is empty for an unknown topic."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.recall.answering import (
    MOST_QUOTES,
    MOST_READ,
    MOST_TOGETHER,
    SearchedText,
    answers,
    list_lines,
    list_texts,
    parts_of_text,
    quote,
)
from mnemosyne.domain.recall.object_search import PassageHit
from mnemosyne.domain.text.parts import PartRole, TextPart, join
from mnemosyne.domain.text.passages import Passage
from tests.domain.remembered import made


def remembered(*, text: str, id: str, name: str, **more: Any) -> SearchedText:
    """An object with this text."""
    return SearchedText(id=id, name=name, text=text, span=(0, len(text)), **more)


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


def find_quotes(question: str, texts: Sequence[SearchedText] = ALL, most: int = 60) -> list[str]:
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
        ("what is maxConnections of the pool?", "max_connections = 20"),
    ],
)
def test_question_is_answered_by_the_matching_line(question: str, answer: str) -> None:
    assert answer in find_quotes(question)[0]


@pytest.mark.parametrize("question", ["how are migrations numbered?", "", "??", "\u306a\u305c", "4711"])
def test_unknown_topic_has_no_answer(question: str) -> None:
    assert find_quotes(question) == []
    assert answers(question, [POOL], 60, size, least=0.0)


def test_only_the_current_version_of_a_line_is_quoted() -> None:
    old = remembered(id="old", name=POOL.name, text=POOL.text.replace("20", "10"), old=True)
    quotes = answers("what is the value of max_connections in pool.py?", [old, POOL], 200, size)
    assert (quotes[0][0].object_id, "= 20" in quotes[0][0].text) == ("pool", True)
    same = remembered(id="same", name=POOL.name, text=POOL.text, old=True)
    assert {quote.object_id for quote, _ in answers("where is ConnectionPool?", [POOL, same], 60, size)} == {"pool"}


@pytest.mark.parametrize("most", [20, 50, 200])
def test_too_long_line_is_cut_to_the_room(most: int) -> None:
    text = "PASSWORDS = [" + "'one-more-entry'," * 500 + "]"
    (first, tokens), *more = answers("what is PASSWORDS?", [remembered(id="a", name="", text=text)], most, size)
    assert first.text.startswith("PASSWORDS = [")
    assert tokens + sum(each for _, each in more) <= most


def test_content_the_model_already_sees_comes_last() -> None:
    seen = remembered(id="seen", name="Read src/other.py", text="max_connections = 30\n", seen=True)
    quotes = answers("max_connections?", [seen, POOL], 200, size)
    assert quotes[0][0].object_id == "pool"


def test_json_records_of_a_long_line_are_separate() -> None:
    records = ", ".join(f'{{"flight": "HAT{n}", "origin": "A{n}", "price": {n * 7}}}' for n in range(60))
    (best, *_) = find_quotes(
        "what is the origin of HAT41?", [remembered(id="a", name="get_flights", text=f"[{records}]")]
    )
    assert '"flight": "HAT41", "origin": "A41"' in best


def test_very_long_line_is_examined_at_its_ends_and_search_hits() -> None:
    text = "nothing " * 150_000 + "the port is 8443 " + "nothing " * 150_000
    place = text.index("the port")
    found = remembered(id="log", name="Bash cat log", text=text, found=[(place - 100, place + 100)])
    assert "the port is 8443" in find_quotes("which port is it?", [found])[0]
    assert sum(end - start for start, end in list_lines(found)) <= MOST_READ + 400


def test_less_likely_texts_are_skipped_above_the_limit() -> None:
    large = [remembered(id=str(n), name="", text="x " * (MOST_READ // 2)) for n in range(MOST_TOGETHER // MOST_READ)]
    last = remembered(id="last", name="", text="the port is 8443\n" + "y " * (MOST_READ // 2))
    assert find_quotes("which port?", [last, *large])
    assert not find_quotes("which port?", [*large, last])


def test_text_without_words_or_lines_can_be_quoted() -> None:
    numbers = remembered(id="n", name="Bash seq", text=" ".join(map(str, range(5_000))))
    assert "4711" in find_quotes("4711", [numbers])[0]
    chinese = remembered(id="c", name="", text="\u8fde\u63a5\u6c60\u7684\u4e0a\u9650\u662f\u4e8c\u5341\u3002" * 200)
    assert find_quotes("\u8fde\u63a5\u6c60\u7684\u4e0a\u9650", [chinese], 100)


def test_text_of_the_question_itself_is_no_answer() -> None:
    said = "command: grep -rn max_connections src\nsrc/pool.py:5:max_connections = 20"
    call = remembered(id="c", name="Bash grep -rn max_connections src", text=said)
    question = "grep -rn max_connections src: what is the value?"
    assert find_quotes(question, [call], 9) == ["src/pool.py:5:max_connections = 20"]


@pytest.mark.parametrize("name", ["parse_header", "src/parse/header.py", "parseHeader", "ERR_POOL_7"])
def test_unknown_compound_name_has_no_answer_whatever_else_matches(name: str) -> None:
    assert find_quotes(f"why did the pool of connections fail with {name}?") == []


@given(st.text(max_size=60), st.lists(st.text(max_size=800), max_size=4), st.integers(20, 300))
def test_every_quote_equals_its_bytes_and_all_fit_the_room(question: str, texts: list[str], most: int) -> None:
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    said = [remembered(id=str(n), name=text[:20], text=text) for n, text in enumerate(clean)]
    quotes = answers(question, said, most, size, 0.0)
    assert sum(tokens for _, tokens in quotes) <= most
    assert len(quotes) <= MOST_QUOTES
    places: dict[str, list[tuple[int, int]]] = {}
    for each, tokens in quotes:
        assert clean[int(each.object_id)].encode()[each.start : each.end].decode() == each.text
        assert tokens == size(each.text)
        places.setdefault(each.object_id, []).append((each.start, each.end))
    for spans in places.values():
        spans.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(spans))


PAGE = remembered(id="page", name="", text="1 one\n2 two\n3 three\n4 four\n")


@pytest.mark.parametrize(
    ("room", "quoted"),
    [
        (5, "2 two"),
        (len("2 two\n3 three"), "2 two\n3 three"),
        (len("1 one\n2 two\n3 three"), "1 one\n2 two\n3 three"),
        (99, PAGE.text.strip()),
    ],
)
def test_surrounding_lines_are_quoted_as_far_as_there_is_room(room: int, quoted: str) -> None:
    ((found, _),) = answers("two?", [PAGE], room, len)
    assert found.text == quoted


def test_a_place_counts_bytes() -> None:
    found = quote("a", "\u00fcber das Limit", 9, 14)
    assert (found.start, found.end, found.text) == (10, 15, "Limit")


@given(st.lists(st.builds(TextPart, st.sampled_from(list(PartRole)), st.text(max_size=60)), min_size=1, max_size=6))
def test_texts_of_an_object_are_disjoint_and_cover_its_text(parts: list[TextPart]) -> None:
    memory = evolve(Memory(), made("o1", 3, stub="the header parser"))
    found = list_texts({"o1": parts}, [PassageHit("o1", Passage(3, 5), 1.0)], memory.objects, {"o1"}.__contains__)
    text = join(parts)
    assert "\n".join(text[slice(*each.span)] for each in found) == text
    assert all((each.seen, each.old, each.found) == (True, False, [(3, 5)]) for each in found)
    heads = [part for part in parts if part.role is not PartRole.RESULT]
    assert len(found) == max(1, len(heads))
    assert all(part.text in each.name for each, part in zip(found, heads, strict=False))


def test_claim_of_an_older_log_is_its_sentence_with_its_role() -> None:
    said = made("c1", 3, stub="Let's use trio.", role=Role.CLAIM, places=(), tags=("decision", "user"))
    claim = evolve(Memory(), said).objects["c1"]
    assert parts_of_text(claim, b"") == (TextPart(PartRole.USER, "Let's use trio."),)


@given(st.text(max_size=3_000))
def test_lines_are_ordered_short_and_cover_all_text(text: str) -> None:
    found = list(list_lines(remembered(id="a", name="", text=text)))
    assert all(0 < end - start <= 205 for start, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    assert "".join("".join(text[start:end] for start, end in found).split()) == "".join(text.split())

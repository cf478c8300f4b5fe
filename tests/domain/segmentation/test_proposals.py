"""What a user agrees to is what the answer before it offered, by number or as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.proposals import Agreement, agreements, replies
from mnemosyne.domain.segmentation.statements import read_own

OFFERED = """There are some ways:

1. **Share the helpers** of both test suites in one file
2. Write generic helpers for both agents

Option 1 is quick. Which do you prefer?"""
OPTIONS = """Better alternatives:

**Option 1: Return errors** and handle them at each call
Change all callers.

**Option 2: Typed fields** that are validated once

1. It is clean.
2. It is large.

Which approach do you prefer?"""


def agreed_to(said: str, answer: str) -> tuple[Agreement, ...]:
    return agreements(said, read_own(said, Speaker.USER), answer)


def agreed(said: str, answer: str) -> list[str]:
    return [claim.sentence for each in agreed_to(said, answer) for claim in each.claims]


@pytest.mark.parametrize(
    "said", ["yes, do 1", "let's do 1", "Let's go with option 1.", "1", "option 1 please", "I like 1"]
)
def test_a_number_is_the_option_of_that_number(said: str) -> None:
    assert agreed(said, OFFERED) == ["Share the helpers of both test suites in one file"]


def test_several_numbers_are_several_claims() -> None:
    assert len(agreed("1+2", OFFERED)) == len(agreed("let's do 1 and 2", OFFERED)) == 2


def test_what_is_called_an_option_goes_before_other_numbered_lines() -> None:
    assert agreed("let's try 2", OPTIONS) == ["Typed fields that are validated once"]


@pytest.mark.parametrize(
    "said",
    ["do 7", "why 1?", "can you explain 1", "the first test of 2 fails", "it takes 2 minutes", "version 1.2 is out"],
)
def test_other_numbers_pick_nothing(said: str) -> None:
    assert agreed(said, OFFERED) == []


@pytest.mark.parametrize("said", ["yes", "Yes, please do", "let's do that", "ok, do it", "sure, go ahead"])
def test_consent_is_to_what_was_offered_last(said: str) -> None:
    answer = "All pass now. Want me to remove the trivial tests and merge the edge cases?"
    assert agreed(said, answer) == ["Want me to remove the trivial tests and merge the edge cases?"]


def test_an_offer_that_names_nothing_stands_for_the_list_that_it_leads_to() -> None:
    answer = "It fits.\n\n**Want me to implement this?** It would:\n- Move the check to the session\n- Drop the old"
    assert agreed("yes, please do", answer) == ["Move the check to the session"]
    assert agreed("yes, please do", answer.replace("It would:", "It is small.")) == []


def test_an_offer_that_names_nothing_stands_for_what_was_recommended() -> None:
    answer = "I'd suggest moving the check into the session package. It fits there. Want me to do that?"
    assert agreed("yes", answer) == ["I'd suggest moving the check into the session package."]


@pytest.mark.parametrize(
    "answer",
    [
        "All tests pass.",
        "Want me to fix this?",
        "Should I use trio or asyncio for the server?",
        "",
        "`I'd suggest trio`",
    ],
)
def test_where_nothing_is_named_or_one_of_two_nothing_is_agreed_to(answer: str) -> None:
    assert agreed("yes", answer) == []


@pytest.mark.parametrize("said", ["Go on.", "thanks", "ok", "yes?", "no", "Yesterday it worked."])
def test_what_is_no_consent_agrees_to_nothing(said: str) -> None:
    assert agreed(said, "Want me to remove the trivial tests and merge the edge cases?") == []


def test_what_is_shown_in_a_fence_is_not_offered() -> None:
    answer = "The notes say:\n```\n1. Use MD5 for all hashes of passwords\n```\nThat is all."
    assert agreed("do 1", answer) == []


@given(st.text(max_size=60), st.text(max_size=300))
def test_whatever_is_said_claims_stand_at_their_spans(said: str, answer: str) -> None:
    for each in agreed_to(said, answer):
        assert 0 <= each.start < each.end <= len(said)
        assert all(0 <= claim.start < claim.end <= len(answer) for claim in each.claims)


@pytest.mark.parametrize("unit", ["1. a\n", "```\n", "want me to ", "Option 1: ", "\n\n", "yes? ", "or "])
def test_long_answers_are_read_at_once(unit: str) -> None:
    agreed_to("yes, do 1", unit * (100_000 // len(unit)))
    agreed_to("yes", unit * (100_000 // len(unit)))


ASKED = """Some questions:

1. **Orphans**: should we show them?
2. **Depth**: how far back should we look?
3. How should it be sorted?"""


def replied(said: str, answer: str) -> list[str]:
    return [claim.sentence for claim in replies(said, answer)]


def test_yes_to_all_settles_each_of_so_many() -> None:
    assert agreed("yes, both", OFFERED) == [
        "Share the helpers of both test suites in one file",
        "Write generic helpers for both agents",
    ]
    assert agreed("yes, all 3", OFFERED) == []


def test_a_numbered_reply_to_numbered_questions_settles_what_it_says() -> None:
    said = "1. no\n2. we look at the last 50 commits of a branch. Later maybe more\n3. maybe by date, or by the name?"
    assert replied(said, ASKED) == ["we look at the last 50 commits of a branch."]


def test_a_numbered_list_that_answers_no_questions_settles_nothing() -> None:
    said = "1. the first step is the new parser\n2. the second step is the new writer of it"
    assert replied(said, "I have finished both. What comes next?") == []
    assert replied(said.replace("1. ", "").replace("2. ", ""), ASKED) == []

"""Claims are found in what people say, and in nothing that is quoted, shown or reminded of."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.own_words import MASK
from mnemosyne.domain.segmentation.settling import ClaimKind
from mnemosyne.domain.segmentation.statements import LONGEST, Claim, claims, read_own
from tests.domain import recorded

CLAIM = "We decided to use trio."


def made(text: str, speaker: Speaker) -> tuple[Claim, ...]:
    return claims(text, read_own(text, speaker), speaker)


def kinds(text: str, speaker: Speaker) -> list[str]:
    return [claim.kind.value for claim in made(text, speaker)]


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Let's use PostgreSQL for the event log.", "decision"),
        ("ok, let's go with option 2 then", "decision"),
        ("We've decided not to support Windows.", "decision"),
        ("We changed our mind: the port is 8443.", "decision"),
        ("Never commit without running the tests.", "constraint"),
        ("Please don't change the public interface.", "constraint"),
        ("The proxy must not store credentials.", "constraint"),
        ("It must keep working offline.", "constraint"),
        ("make sure that the old tests still pass", "constraint"),
        ("I'd rather have fewer settings.", "preference"),
        ("I prefer short functions over comments.", "preference"),
        ("we don't want to play catch up with new hook types", "preference"),
    ],
)
def test_what_a_user_settles(sentence: str, kind: str) -> None:
    assert kinds(sentence, Speaker.USER) == [kind]


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The root cause is that the cache is never invalidated.", "conclusion"),
        ("The issue was that `State` had no such field.", "conclusion"),
        ("The test failed because the default branch is master.", "conclusion"),
        ("Turns out the client sends the header twice.", "conclusion"),
        ("I'll go with the second approach.", "decision"),
        ("Decision: one stream per session.", "decision"),
        ("We decided: retries back off exponentially, because the gateway throttles.", "decision"),
    ],
)
def test_what_an_assistant_settles(sentence: str, kind: str) -> None:
    assert kinds(sentence, Speaker.ASSISTANT) == [kind]


@pytest.mark.parametrize(
    "sentence",
    [
        "Should we decide to use trio?",
        "Maybe we decided to use trio.",
        "If we decided to use trio, it would work.",
        'The log says "we decided to use trio" somewhere.',
        "The flag `let's use it` is unknown here.",
        "Now let me read the next file.",
        "This confirms the issue.",
        "Perhaps the root cause is that the cache is stale.",
        "The variable is incremented but never asserted.",
        "The issue is that:",
    ],
)
@pytest.mark.parametrize("speaker", [Speaker.USER, Speaker.ASSISTANT])
def test_questions_guesses_quotations_and_next_steps_settle_nothing(sentence: str, speaker: Speaker) -> None:
    assert made(sentence, speaker) == ()


def test_what_an_assistant_does_next_is_no_decision() -> None:
    assert made("I'll use the search tool to find the file.", Speaker.ASSISTANT) == ()


@pytest.mark.parametrize(
    "around",
    [
        "```\n{}\n```",
        "~~~python\n{}\n~~~",
        "    {}",
        "> {}",
        "| {} |",
        "# {}",
        "<system-reminder>\n{}\n</system-reminder>",
        "<local-command-stdout>{}</local-command-stdout>",
        "See <command-message>this\n\n{}\n\nhere</command-message> now",
    ],
)
@pytest.mark.parametrize("speaker", [Speaker.USER, Speaker.ASSISTANT])
def test_code_quotations_tables_titles_and_reminders_are_not_read(around: str, speaker: Speaker) -> None:
    said, kind = _SAYS[speaker]
    assert kinds(said, speaker) == [kind]
    assert made(f"Hello there.\n\n{around.format(said)}\n\nGood bye.", speaker) == ()


FOUND = "The root cause is that the cache is never invalidated."
_SAYS = {Speaker.USER: (CLAIM, "decision"), Speaker.ASSISTANT: (FOUND, "conclusion")}


def test_what_an_answer_says_after_code_and_after_a_tag_that_nothing_closes_is_read() -> None:
    assert kinds(f"```\ncode\n```\n{FOUND}", Speaker.ASSISTANT) == ["conclusion"]
    assert kinds(f"The branch is <hash> now.\n\n{FOUND}", Speaker.ASSISTANT) == ["conclusion"]
    assert kinds(f"<a>what <b> says</a>\n{FOUND}\n</b>", Speaker.ASSISTANT) == []  # who wrote it wrote its tags


@pytest.mark.parametrize(
    "around", ["```\ncode\n```\n{}", "{}\n\nThanks", "Hello.\n{}", "<a>x</a> {}", "{}\u200b", "Eve: {}", "{} Gru\u00df"]
)
def test_a_user_decides_in_one_plain_line_and_nowhere_else(around: str) -> None:
    assert kinds(f"{CLAIM}\n", Speaker.USER) == ["decision"]
    assert made(around.format(CLAIM), Speaker.USER) == ()


def test_a_line_may_hold_several_claims() -> None:
    assert made("ok, we decided to use trio. Never use asyncio. Does that make sense?", Speaker.USER) == (
        Claim(ClaimKind.DECISION, "ok, we decided to use trio.", 0, 27),
        Claim(ClaimKind.CONSTRAINT, "Never use asyncio.", 28, 46),
    )


def test_the_same_sentence_is_one_claim() -> None:
    assert len(made(f"{CLAIM} No. {CLAIM}", Speaker.USER)) == 1


def test_a_long_claim_is_cut_after_a_word() -> None:
    (claim,) = made("We decided to use trio for " + "all of this and that " * 20, Speaker.USER)
    assert LONGEST - 20 < len(claim.sentence) <= LONGEST
    assert claim.sentence.endswith((" all", " of", " this", " and", " that"))


PIECES = st.sampled_from(
    [
        CLAIM,
        "Never do it again!",
        "The issue is that it broke.",
        "**",
        "```",
        "\n",
        "\n\n",
        "- ",
        "> ",
        "<a>",
        "</a>",
        " ",
        "x. ",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join)


@given(TEXTS, st.sampled_from([Speaker.USER, Speaker.ASSISTANT]))
def test_a_claim_is_what_stands_at_its_span_in_order_bounded_and_once(text: str, speaker: Speaker) -> None:
    found = made(text, speaker)
    end = 0
    for claim in found:
        assert end <= claim.start < claim.end <= len(text)
        stands = " ".join(text[claim.start : claim.end].replace("**", "").split())
        told = claim.sentence.split(MASK)  # a quotation that is left out lies between two of them
        assert re.fullmatch(".*".join(map(re.escape, told)), stands), (claim.sentence, stands)
        assert len(told) > 1 or claim.sentence == stands
        assert 0 < len(claim.sentence) <= LONGEST
        end = claim.end
    assert len({claim.sentence.casefold() for claim in found}) == len(found)


@given(TEXTS, st.sampled_from([Speaker.USER, Speaker.ASSISTANT]))
def test_nothing_between_a_tag_and_its_end_is_ever_claimed(text: str, speaker: Speaker) -> None:
    inside = text.replace("</", "").replace("<", "")
    assert made(f"<system-reminder>{inside}</system-reminder>", speaker) == ()


@pytest.mark.parametrize(
    "unit", ["<a>", "</a>", "`", '"', "! ", "!", "** ", "a. ", "- ", "\n", " ", "let's ", "x because ", "<a "]
)
def test_a_text_of_a_hundred_thousand_characters_is_read_at_once(unit: str) -> None:
    for speaker in Speaker:
        assert made(unit * (100_000 // len(unit)) + "x", speaker) == ()


def test_recorded_sessions_claim_little_and_never_what_a_client_puts_between_tags() -> None:
    found: list[Claim] = []
    for session in recorded.sessions(every=2):
        for message in session["messages"]:
            content = message["content"]
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
            for block in blocks:
                if block["type"] == "text":
                    found.extend(made(block["text"], Speaker(message["role"])))
    assert 25 < len(found) < 200
    assert not any("</" in claim.sentence or "|" in claim.sentence[:1] for claim in found)

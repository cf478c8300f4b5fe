"""Claims of prompts: an unconfirmed entry, unless the user said it explicitly; nothing else is the user's word."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.knowledge import decide
from mnemosyne.domain.knowledge.block import compose
from mnemosyne.domain.knowledge.decide import CORRECTS, ConfirmEntry, LearnFacts, RememberEntry, UndoWrite, WriteOutcome
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource
from mnemosyne.domain.knowledge.prompts import LONGEST_TYPED, LearnedFact, SubmittedPrompt, find_remembered
from mnemosyne.errors import BadEntry
from tests.domain.knowledge.support import FIRST, HERE, KnowledgePlace, draft, entry
from tests.not_none import not_none

PNPM = "we use pnpm, not npm"


def prompt(text: str, session: int = 1, turn: int = 1, **fields: Any) -> SubmittedPrompt:
    """A prompt that a person typed at a client with a hook, unless the fields say otherwise."""
    source = Provenance(session=UUID(int=session), branch="main", turn=turn)
    return SubmittedPrompt(text=text, provenance=source, **{"interactive": True, **fields})


def fact(said: str, words: str = PNPM, **fields: Any) -> LearnedFact:
    """A fact that a helper model found in a prompt: these words."""
    start = said.index(words)
    return LearnedFact(
        **{"kind": EntryKind.TOOLING, "text": words, "start": start, "end": start + len(words), **fields}
    )


def learn(place: KnowledgePlace, said: SubmittedPrompt, words: str = PNPM, **fields: Any) -> WriteOutcome:
    facts = (fact(said.text, words, **fields),)
    return place.take(LearnFacts(at=FIRST, write=place.write(), facts=facts, prompt=said))


def obey(place: KnowledgePlace, said: SubmittedPrompt) -> WriteOutcome:
    """The effect of a prompt that begins with ``remember``."""
    found = not_none(find_remembered(said.text))
    return place.take(LearnFacts(at=FIRST, write=place.write(), facts=(found,), prompt=said, commanded=True))


def told(place: KnowledgePlace, at: int = FIRST) -> str:
    """The text that any new session would get."""
    kinds = [attrs.evolve(each, kind=EntryKind.TOOLING) for each in place.known.entries.values()]
    known = attrs.evolve(place.known, entries={each.id: each for each in kinds})
    block = compose([(HERE, known)], [], at, str)
    return "" if block is None else block.text


def test_a_claim_of_a_prompt_is_unconfirmed_and_names_its_words() -> None:
    place, said = KnowledgePlace(), prompt(f"Note: {PNPM}. Now fix the build.")
    assert learn(place, said).what == "added"
    found = entry(place.known, PNPM)
    assert (found.is_confirmed, found.source) == (False, EntrySource.EXTRACTED)
    assert found.provenance == attrs.evolve(said.provenance, span=(6, 6 + len(PNPM)))
    assert told(place) == ""
    assert learn(place, prompt(said.text, turn=2)).what == "skipped"


@pytest.mark.parametrize(
    "second",
    [
        prompt(PNPM, 1, turn=9),
        prompt(PNPM, 2, interactive=False),
        prompt(PNPM, 2, vouched=False),
        prompt(f"Look:\n{PNPM}", 2),
        prompt(f"Look: ```{PNPM}```", 2),
        prompt(f"> {PNPM}", 2),
        prompt(f'The ticket says "for now {PNPM}".', 2),
        prompt(f"The ticket says \u201cfor now {PNPM}\u201d.", 2),
        prompt(f"\u00bb{PNPM}\u00ab says the ticket.", 2),
        prompt(f"\u201a{PNPM}\u2018 says the ticket.", 2),
        prompt(f"\u300a{PNPM}\u300b", 2),
        prompt(f"\uff02{PNPM}\uff02", 2),
        prompt(f"{PNPM} {'.' * LONGEST_TYPED}", 2),
        prompt(f" {PNPM.upper()}.", 2),
        prompt(f"FYI: {PNPM} any more", 2),
        prompt(f"2. {PNPM} any more", 2),
    ],
)
def test_only_a_typed_line_of_another_session_confirms_a_claim(second: SubmittedPrompt) -> None:
    """A prompt without a word beyond the line in which the claim was found first may be pasted from the same text."""
    place = KnowledgePlace()
    learn(place, prompt(f"A mail:\n> FYI: {PNPM} any more!\nThe end"))
    assert learn(place, second, PNPM if PNPM in second.text else PNPM.upper()).what == "skipped"
    assert told(place) == ""
    assert entry(place.known, PNPM).detail == f"> FYI: {PNPM} any more!"
    assert learn(place, prompt(f"Add a date: {PNPM.upper()}.", 2), PNPM.upper()).what == "confirmed"
    assert PNPM in told(place)
    assert len(place.known.entries) == 1


@pytest.mark.parametrize("begins", ["Remember that ", "remember: ", "  REMEMBER "])
def test_remember_at_the_beginning_of_a_typed_line_is_an_explicit_act(begins: str) -> None:
    place = KnowledgePlace()
    learn(place, prompt(PNPM, turn=3))
    assert obey(place, prompt(begins + PNPM)).what == "updated"
    (found,) = place.known.standing(FIRST)
    assert (found.content, found.is_explicit, found.source) == (PNPM, True, EntrySource.USER)
    assert PNPM in told(place)


@pytest.mark.parametrize(
    "said",
    [
        prompt(f"Remember {PNPM}", vouched=False),
        prompt(f"Remember {PNPM}", interactive=False),
        prompt(f"Remember {PNPM}\nand fix this:\n```\nx\n```"),
        prompt(f"Remember {PNPM}\n> never do"),
        prompt(f'"Remember {PNPM}"\n'),
        prompt(f'"Remember {PNPM}" is what the mail says'),
        prompt(f'"Remember {PNPM} " it says, "or else"'),
    ],
    ids=["no hook", "no person", "code below", "quote below", "opencode run", "a mail's", "two quotations"],
)
def test_remember_elsewhere_makes_an_unconfirmed_entry(said: SubmittedPrompt) -> None:
    place = KnowledgePlace()
    assert obey(place, said).what == "added"
    assert not entry(place.known, PNPM).is_confirmed
    assert learn(place, said, "use pnpm").what == "skipped"  # the same words
    assert told(place) == ""


@pytest.mark.parametrize(
    "text",
    ["", "remember", "I remember that", "remembering x", "Go on.\nremember x", "```\nremember x\n```", "`remember x`"],
)
def test_remember_is_a_command_only_at_the_beginning(text: str) -> None:
    assert find_remembered(text) is None


@pytest.mark.parametrize(
    ("begins", "found"),
    [("Merke dir: ", 1), ("merke ", 1), ("\u8a18\u4f4f\uff1a", 1), ("note this ", 0), ("remember ", 0)],
)
def test_the_user_s_own_words_replace_remember(begins: str, found: int) -> None:
    learned = find_remembered(begins + PNPM, ("merke", "merke dir", "\u8a18\u4f4f", "a.c"))
    assert [each.text for each in [learned] if each] == [PNPM] * found
    assert find_remembered(f"abc {PNPM}", ("merke", "a.c")) is None, "words are no patterns"


@pytest.mark.parametrize("begins", [": ", '" ', '", '])
def test_without_a_word_for_it_no_prompt_commands_anything(begins: str) -> None:
    assert find_remembered(begins + PNPM, ()) is None


def test_a_correction_waits_for_its_confirmation() -> None:
    place = KnowledgePlace()
    first = place.remember("deploys are on Mondays")
    done = learn(place, prompt("deploys are on Fridays"), "deploys are on Fridays", corrects=first)
    assert place.lines(FIRST) == ["deploys are on Mondays", "deploys are on Fridays"]
    assert place.known.entries[done.entry or ""].links == ((CORRECTS, first),)
    write = place.write()
    place.take(ConfirmEntry(at=FIRST + 1, write=write, wanted="Fridays"))
    assert place.lines(FIRST + 2) == ["deploys are on Fridays"]
    assert place.known.entries[first].content == "deploys are on Mondays"
    place.take(UndoWrite(at=FIRST + 3, write=place.write(), undone=write))
    assert place.lines(FIRST + 4) == ["deploys are on Mondays", "deploys are on Fridays"]
    assert not entry(place.known, "deploys are on Fridays").is_confirmed
    learn(place, prompt("no, deploys are on Sundays", turn=2), "deploys are on Sundays", corrects=done.entry)
    assert place.lines(FIRST + 4) == ["deploys are on Mondays", "deploys are on Sundays"]


def test_an_accepted_proposal_is_unconfirmed_and_the_agent_s() -> None:
    place, reply = KnowledgePlace(), f"Shall we say that\n {PNPM}? I would."
    found = attrs.evolve(fact(reply), proposed=True)
    for said in (prompt("yes" * 50), prompt("yes", answered=reply), prompt("yes, do that", 2, answered=reply)):
        place.take(LearnFacts(at=FIRST, write=place.write(), facts=(found,), prompt=said))
        assert [each.source for each in place.known.entries.values()] in ([], [EntrySource.AGENT])
        assert told(place) == ""
    learned = entry(place.known, PNPM)
    assert (learned.is_confirmed, learned.detail) == (False, f"{PNPM}? I would.")


def test_an_agent_cannot_confirm_for_the_user() -> None:
    place = KnowledgePlace()
    learn(place, prompt(PNPM))
    with pytest.raises(BadEntry, match="Only the user can confirm"):
        place.take(ConfirmEntry(at=FIRST, write="c", wanted="pnpm", source=EntrySource.AGENT))


def test_pasted_claims_leave_room_for_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "MOST_UNCONFIRMED", 20)
    place = KnowledgePlace()
    for number in range(25):
        learn(place, prompt(f"rule {number}", turn=number), f"rule {number}")
    assert len(place.lines(FIRST)) == 20
    assert place.take(RememberEntry(at=FIRST, write="r", draft=draft(PNPM))).what == "added"


def test_a_session_s_summary_replaces_the_previous_one() -> None:
    place = KnowledgePlace()
    for text in ("Done: the parser", "Done: the lexer", "Done: the lexer"):
        place.remember(text, kind=EntryKind.SESSION_SUMMARY, source=EntrySource.AGENT)
    assert place.lines(FIRST) == ["Done: the lexer"]


@pytest.mark.parametrize(("ended", "shown"), [(FIRST + 1, "Done: the parser"), (FIRST + 3, "Done: the lexer")])
def test_a_delayed_summary_does_not_replace_a_later_session_s(ended: int, shown: str) -> None:
    """The summary of a session that ended earlier may have waited for the budget; a resumed session ends later."""
    place, kind = KnowledgePlace(), EntryKind.SESSION_SUMMARY
    place.remember("Done: the parser", FIRST + 5, kind=kind, source=EntrySource.AGENT, valid_from=FIRST + 2)
    place.take(
        RememberEntry(
            at=FIRST + 9,
            write=place.write(),
            draft=draft("Done: the lexer", kind=kind, source=EntrySource.AGENT, valid_from=ended),
        )
    )
    assert place.lines(FIRST + 9) == [shown]


_TEXTS = st.sampled_from([PNPM, f"Remember {PNPM}", f"x\n{PNPM}", f"> {PNPM}", f"```\n{PNPM}\n```", "go on"])
_PROMPTS = st.builds(
    lambda text, session, vouched, interactive: prompt(text, session, vouched=vouched, interactive=interactive),
    _TEXTS,
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(st.tuples(_PROMPTS, st.integers(-5, 60), st.integers(-5, 60), st.booleans()), max_size=12))
def test_without_a_typed_line_nothing_is_confirmed_or_shown(
    steps: Sequence[tuple[SubmittedPrompt, int, int, bool]],
) -> None:
    """Whatever a helper model claims to have found, and wherever."""
    place, sessions = KnowledgePlace(), set()
    for said, start, end, commanded in steps:
        found = (LearnedFact(kind=EntryKind.TOOLING, text=PNPM, start=start, end=end),)
        command = LearnFacts(at=FIRST, write=place.write(), facts=found, prompt=said, commanded=commanded)
        place.take(command)
        if said.is_typed(0, len(said.text)):
            sessions.add((said.provenance.session, commanded))
    if not sessions:
        assert all(not each.is_confirmed for each in place.known.entries.values())
        assert told(place) == ""

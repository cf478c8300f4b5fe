"""What a session gives to the next: what its user settled, and nothing that anybody else says."""

from uuid import UUID

import pytest

from mnemosyne.domain.knowledge.extraction import FoundDraft, extract
from mnemosyne.domain.knowledge.kinds import EntryKind, Scope
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.own_words import paragraphs
from mnemosyne.domain.segmentation.statements import claims
from tests.domain.memory_objects import made

SESSION = UUID(int=1)


def found(said: str, *more: str, speaker: Speaker = Speaker.USER) -> list[FoundDraft]:
    """The entries that a sentence gives."""

    memory = Memory()
    for number, claim in enumerate(claims(said, paragraphs(said, speaker), speaker)):
        tags = (claim.kind.value, speaker.value, *more)
        memory = evolve(memory, made(f"c{number}", role=Role.CLAIM, stub=claim.sentence, tags=tags))
    return list(extract(memory.objects.values(), SESSION))


@pytest.mark.parametrize(
    ("said", "kind", "scope", "kept"),
    [
        ("Let's use PostgreSQL for the event log.", EntryKind.DECISION, Scope.PROJECT, None),
        ("Never commit without running the tests.", EntryKind.CONSTRAINT, Scope.PROJECT, None),
        ("I prefer short functions over comments.", EntryKind.WORKFLOW, Scope.USER, None),
        ("I prefer short answers.", EntryKind.RESPONSE_STYLE, Scope.USER, None),
        (
            "please remember that the staging database is read-only",
            EntryKind.FACT,
            Scope.PROJECT,
            "The staging database is read-only",
        ),
        ("Remember that I prefer tabs over spaces.", EntryKind.WORKFLOW, Scope.USER, "I prefer tabs over spaces."),
        ("keep in mind that CI runs on arm64", EntryKind.FACT, Scope.PROJECT, "CI runs on arm64"),
    ],
)
def test_what_the_user_settles_becomes_an_entry(said: str, kind: EntryKind, scope: Scope, kept: str | None) -> None:
    (entry,) = found(said)
    assert (entry.draft.kind, entry.scope, entry.draft.content) == (kind, scope, kept or said)
    assert entry.draft.provenance is not None
    assert entry.draft.provenance.session == SESSION


@pytest.mark.parametrize(
    "said",
    [
        "Fix the bug in parser.py",
        "Let's use it here.",
        "let's go with option 2 then",
        "For now we should keep the old parser.",
        "Can you check whether we use npm?",
    ],
)
def test_what_holds_for_the_moment_alone_becomes_none(said: str) -> None:
    assert found(said) == []


def test_what_the_model_says_becomes_none_and_what_the_user_agreed_to_counts_a_little_less() -> None:
    said = "We decided to use trio for all the tasks."
    assert found(said, speaker=Speaker.ASSISTANT) == []
    (plain,), (agreed,) = found(said), found(said, "agreed")
    assert plain.draft.confidence is not None
    assert agreed.draft.confidence is not None
    assert agreed.draft.confidence < plain.draft.confidence


def test_whoever_asks_to_remember_is_believed_most() -> None:
    (asked,), (said,) = found("Remember that we must test on arm64."), found("we must test on arm64.")
    assert asked.draft.confidence == 0.95
    assert said.draft.confidence == 0.8

"""What a session gives to the next: what its user settled, and nothing that anybody else says."""

from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.knowledge.decide import LearnSession
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.extraction import (
    FoundDraft,
    extract,
    extract_messages,
    extract_prompt,
    list_typed_branches,
)
from mnemosyne.domain.knowledge.kinds import EntryKind, Scope
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.segmentation.statements import claims, read_own
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.state import Branch
from tests.domain.injections import FORGED, GENUINE, injections
from tests.domain.knowledge.support import FIRST, Shelf
from tests.domain.memory_objects import made

SESSION = UUID(int=1)


def found(said: str, *more: str, speaker: Speaker = Speaker.USER) -> list[FoundDraft]:
    """The entries that a sentence gives."""

    memory = Memory()
    for number, claim in enumerate(claims(said, read_own(said, speaker), speaker)):
        tags = (claim.kind.value, speaker.value, *more)
        memory = evolve(memory, made(f"c{number}", role=Role.CLAIM, stub=claim.sentence, tags=tags))
    return list(extract(memory.objects.values(), SESSION, {"main"}))


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
        ("We need to accept that the agent is killed at times.", EntryKind.DECISION, Scope.PROJECT, None),
        ("No, we use pnpm, not npm.", EntryKind.DECISION, Scope.PROJECT, "We use pnpm, not npm."),
        ("no, never use npm", EntryKind.CONSTRAINT, Scope.PROJECT, "No, never use npm"),
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
        "Don't change anything, just let me know.",
        "I still feel that an id in the package of paths is not correct.",
        "No, that is wrong.",
        "no, we removed the command on purpose",
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


def test_what_an_agent_is_told_that_another_one_calls_is_nobodys_wish() -> None:
    tags = ("constraint", "user")
    memory = evolve(
        Memory(), made("c", role=Role.CLAIM, stub="Never touch the migrations.", tags=tags, branch="agent-1")
    )
    assert list(extract(memory.objects.values(), SESSION, {"main"})) == []
    kinds = {"main": BranchKind.MAIN, "agent-1": BranchKind.AGENT, "side": BranchKind.SIDE, "fork-1": BranchKind.FORK}
    branches = [
        Branch(name=name, kind=kind, lane="main", parent=None, forked_at=0, inherits=False, agent_id=None)
        for name, kind in kinds.items()
    ]
    assert list_typed_branches(branches) == {"main", "fork-1"}
    by_an_agent = [attrs.evolve(each, agent_id="x") for each in branches]
    assert list_typed_branches(by_an_agent) == frozenset(), "a model wrote a forked agent's task"


def test_a_thousand_injections_give_nothing_and_change_nothing_that_is_held() -> None:
    """Files, tool results, web pages, commit messages, mails, quotes: whoever wrote them is not the user."""
    shelf = Shelf()
    said = [[{"role": "user", "content": GENUINE}], *(each.messages()[2:] for each in injections())]
    for number, messages in enumerate(said):
        source = Provenance(session=UUID(int=number), branch="main", turn=1)
        drafts = tuple(each.draft for each in extract_messages(messages, source))
        shelf.take(LearnSession(at=FIRST + number, write=f"w{number}", drafts=drafts))
        assert not [each for each in drafts if FORGED in each.content], messages
    assert number > 1_000
    held = shelf.known.valid(shelf.known.last_at)
    assert GENUINE in {each.content for each in held}
    assert all(each.valid_until is None for each in shelf.known.entries.values())


def test_what_was_just_typed_gives_what_its_object_gives_later() -> None:
    said = "Let's use PostgreSQL for the event log. Never commit without running the tests."
    source = Provenance(session=SESSION, branch="main", turn=1)
    message = SeenMessage(0, "user", 1, [{"type": "text", "text": said}])
    assert [each.draft.content for each in extract_prompt([message], source)] == [
        each.draft.content for each in found(said)
    ]

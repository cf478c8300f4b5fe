"""Commands of a fictional project, and their outcomes."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from mnemosyne.domain.knowledge.decide import (
    ConfirmEntry,
    EntryDraft,
    ForgetEntry,
    KnowledgeCommand,
    Place,
    RememberEntry,
    UndoWrite,
    UpdateEntry,
    WriteOutcome,
    decide,
)
from mnemosyne.domain.knowledge.events import KnowledgeEvent
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.domain.knowledge.state import Entry, Knowledge, fold
from mnemosyne.errors import NotFound

HERE = Place("local", Scope.PROJECT, "github.com/ada/app")
DAY = 24 * 60 * 60 * 1_000_000
FIRST = 1_700_000_000_000_000


def draft(content: str, **fields: Any) -> EntryDraft:
    """An entry that a person writes; a fact by default."""
    return EntryDraft(**{"kind": EntryKind.FACT, "source": EntrySource.USER, "content": content, **fields})


def extracted(content: str, **fields: Any) -> EntryDraft:
    """An entry that the proxy extracted."""
    return draft(content, source=EntrySource.EXTRACTED, **{"confidence": 0.8, **fields})


class KnowledgePlace:
    def __init__(self, name: str = "w") -> None:
        self._name = name
        self.events: list[KnowledgeEvent] = []
        self.known = Knowledge()
        self._number = 0

    def take(self, command: KnowledgeCommand) -> WriteOutcome:
        """Decide a command and fold its events."""
        outcome = decide(command, self.known, HERE)
        self.events += outcome.events
        self.known = fold(outcome.events, self.known)
        return outcome

    def write(self) -> str:
        self._number += 1
        return f"{self._name}{self._number}"

    def remember(self, content: str, at: int = FIRST, **fields: Any) -> str:
        """Write an entry; its id."""
        done = self.take(RememberEntry(at=at, write=self.write(), draft=draft(content, **fields)))
        assert done.entry is not None
        return done.entry

    def update(self, wanted: str, content: str, at: int, **fields: Any) -> str:
        """Update an entry; the new entry's id."""
        command = UpdateEntry(
            at=at, write=self.write(), wanted=wanted, content=content, source=EntrySource.USER, **fields
        )
        done = self.take(command)
        assert done.entry is not None
        return done.entry

    def lines(self, at: int) -> list[str]:
        """The entries valid at a time."""
        return [each.content for each in self.known.valid(at)]


Step = tuple[str, int, int, int]


def steps() -> st.SearchStrategy[list[Step]]:
    """Steps of a person: a verb, two numbers that choose among the entries, and how much later (or earlier) it is."""
    verbs = st.sampled_from(["remember", "update", "forget", "confirm", "undo"])
    return st.lists(st.tuples(verbs, st.integers(0, 9), st.integers(0, 9), st.integers(-2 * DAY, 5 * DAY)), max_size=25)


def follow(done: Sequence[Step]) -> list[tuple[int, KnowledgePlace]]:
    """The state after each successful step, with its recording time."""
    place, at, found = KnowledgePlace(), FIRST, []
    for verb, one, other, later in done:
        at += later
        try:
            place.take(_command(place, verb, one, other, at))
        except NotFound:
            continue
        kept = KnowledgePlace()
        kept.events, kept.known = list(place.events), place.known
        found.append((place.known.last_at, kept))
    return found


def _command(place: KnowledgePlace, verb: str, one: int, other: int, at: int) -> KnowledgeCommand:
    write, ids = place.write(), list(place.known.entries)
    wanted = ids[one % len(ids)] if ids else "nothing"
    match verb:
        case "remember":
            return RememberEntry(at=at, write=write, draft=draft(f"the port of service {one} is {other}"))
        case "update":
            said = f"the port is {one}{other} by now"
            return UpdateEntry(at=at, write=write, wanted=wanted, content=said, source=EntrySource.USER)
        case "forget":
            return ForgetEntry(at=at, write=write, wanted=wanted)
        case "confirm":
            return ConfirmEntry(at=at, write=write, wanted=wanted)
        case _:
            return UndoWrite(at=at, write=write, undone=f"w{one + other}")


def held(known: Knowledge, at: int) -> list[tuple[str, str]]:
    """The entries valid at a time, by id."""
    return sorted((each.id, each.content) for each in known.valid(at))


def entry(known: Knowledge, content: str) -> Entry:
    return next(each for each in known.entries.values() if each.content == content)

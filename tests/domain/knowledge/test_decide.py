"""Commands on entries: nothing is overwritten or duplicated, and extracted entries never override explicit ones."""

from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given

from mnemosyne.domain.knowledge import decide as deciding
from mnemosyne.domain.knowledge.decide import (
    AdmitCredential,
    ConfirmEntry,
    DismissCredential,
    ForgetEntry,
    LinkEntries,
    RememberEntry,
    UndoWrite,
    find_entry,
)
from mnemosyne.domain.knowledge.events import EntryEnded, EntryWritten, KnowledgeOpened
from mnemosyne.domain.knowledge.kinds import EndReason, EntryKind, OwnerProof
from mnemosyne.domain.knowledge.state import MOST_PRESENTED
from mnemosyne.errors import BadEntry, NotFound
from tests.domain.knowledge.support import DAY, FIRST, KnowledgePlace, Step, draft, follow, held, steps


def test_an_update_ends_the_old_entry_and_writes_another_in_one_append() -> None:
    place = KnowledgePlace()
    old = place.remember("we use npm")
    assert [isinstance(event, KnowledgeOpened) for event in place.events] == [True, False]
    before = list(place.events)
    new = place.update("npm", "we use pnpm", at=FIRST + DAY)
    ended, written = place.events[len(before) :]
    assert isinstance(ended, EntryEnded)
    assert isinstance(written, EntryWritten)
    assert (ended.entry, ended.valid_until, ended.reason) == (old, FIRST + DAY, EndReason.REPLACED)
    assert (written.entry, written.replaces, written.valid_from) == (new, old, FIRST + DAY)
    assert place.events[: len(before)] == before


@given(steps())
def test_no_event_is_ever_changed_and_recorded_times_never_go_back(done: list[Step]) -> None:
    found = follow(done)
    for (_, one), (_, next_one) in pairwise(found):
        assert next_one.events[: len(one.events)] == one.events
    for _, place in found[-1:]:
        times = [each.at for each in place.events]
        assert times == sorted(times)


@given(steps())
def test_an_entry_and_its_replacement_are_never_valid_at_once(done: list[Step]) -> None:
    for at, place in follow(done):
        valid = {each.id: each for each in place.known.valid(at)}
        assert not any(each.replaced_by in valid for each in valid.values())


@given(steps())
def test_undoing_a_write_restores_the_previous_state(done: list[Step]) -> None:
    for at, place in follow(done):
        before = held(place.known, at)
        trial = KnowledgePlace()
        trial.events, trial.known = list(place.events), place.known
        trial.take(RememberEntry(at=at, write="trial", draft=draft("something that nobody said")))
        trial.take(UndoWrite(at=at, write="back", undone="trial"))
        assert held(trial.known, at) == before
        trial.take(UndoWrite(at=at, write="again", undone="back"))
        assert "something that nobody said" in trial.lines(at)
        trial.take(UndoWrite(at=at, write="last", undone="again"))
        assert held(trial.known, at) == before


def test_undoing_the_confirmation_of_an_undone_entry_changes_nothing() -> None:
    place = KnowledgePlace()
    port = place.remember("the port is 8443")
    place.take(ConfirmEntry(at=FIRST, write="c", wanted=port))
    place.take(UndoWrite(at=FIRST, write="u", undone="w1"))
    place.take(UndoWrite(at=FIRST, write="v", undone="c"))
    assert place.lines(FIRST) == []


def test_an_update_is_undone_as_a_whole() -> None:
    place = KnowledgePlace()
    place.remember("we use npm")
    new = place.update("npm", "we use pnpm", at=FIRST + DAY)
    with pytest.raises(NotFound, match="was since changed by the write w2; undo that one first"):
        place.take(UndoWrite(at=FIRST + DAY, write="t", undone="w1"))
    place.take(UndoWrite(at=FIRST + 2 * DAY, write="u", undone=place.known.entries[new].write))
    assert place.lines(FIRST + 3 * DAY) == ["we use npm"]
    with pytest.raises(NotFound, match="may be undone already"):
        place.take(UndoWrite(at=FIRST + 2 * DAY, write="v", undone="w2"))


def test_an_undone_update_is_redone_as_a_whole_unless_its_entry_was_changed_since() -> None:
    place = KnowledgePlace()
    place.remember("we use npm")
    place.update("npm", "we use pnpm", at=FIRST + DAY)
    for undo, redo in (("u", "r"), ("v", "s")):
        place.take(UndoWrite(at=FIRST + 2 * DAY, write=undo, undone="w2" if undo == "u" else "r"))
        assert place.lines(FIRST + 3 * DAY) == ["we use npm"]
        if redo == "r":
            place.take(UndoWrite(at=FIRST + 2 * DAY, write=redo, undone=undo))
            assert place.lines(FIRST + 3 * DAY) == ["we use pnpm"]
    place.update("npm", "we use yarn", at=FIRST + 3 * DAY)
    with pytest.raises(NotFound, match="was changed since, so the write cannot be redone"):
        place.take(UndoWrite(at=FIRST + 3 * DAY, write="t", undone="v"))


@pytest.mark.parametrize("again", ["we use npm", "  We use   NPM "])
def test_a_known_entry_is_not_written_twice(again: str) -> None:
    place = KnowledgePlace()
    first = place.remember("we use npm")
    count = len(place.events)
    assert place.remember(again, at=FIRST + DAY) == first
    assert len(place.events) == count


def test_a_backward_clock_does_not_change_past_states() -> None:
    place = KnowledgePlace()
    place.remember("one", at=FIRST)
    place.remember("two", at=FIRST - 10 * DAY)
    assert [each.at for each in place.events] == [FIRST] * 3


def test_ambiguous_words_raise_an_error_that_names_all_candidates() -> None:
    place = KnowledgePlace()
    one, other = place.remember("port 80 is taken"), place.remember("port 81 is free")
    with pytest.raises(NotFound, match=f"2 entries have these words: {one} .*; {other} "):
        find_entry(place.known, "port", FIRST)
    assert find_entry(place.known, "FREE", FIRST).id == other
    assert find_entry(place.known, one, FIRST).id == one


def test_an_ended_entry_is_not_ended_again_and_the_error_names_its_successor() -> None:
    place = KnowledgePlace()
    old = place.remember("port 80")
    new = place.update(old, "port 81", at=FIRST + 1)
    with pytest.raises(NotFound, match=f"does not hold any more; {new} took its place"):
        place.take(ForgetEntry(at=FIRST + 2, write="f", wanted=old))


def test_a_future_entry_can_be_changed_and_forgotten_and_is_not_written_twice() -> None:
    place = KnowledgePlace()
    later = place.remember("the office moves to Basel", valid_from=FIRST + 10 * DAY)
    assert place.lines(FIRST) == []
    assert place.remember("the office moves to Basel", valid_from=FIRST + 10 * DAY) == later
    changed = place.update("Basel", "the office moves to Bern", at=FIRST + DAY, valid_from=FIRST + 20 * DAY)
    assert place.lines(FIRST + 15 * DAY) == ["the office moves to Basel"]
    assert place.lines(FIRST + 25 * DAY) == ["the office moves to Bern"]
    place.take(ForgetEntry(at=FIRST + 2 * DAY, write="f", wanted=changed))
    assert place.lines(FIRST + 25 * DAY) == []


def test_links_move_to_an_entrys_replacement_and_back() -> None:
    place = KnowledgePlace()
    one, other = place.remember("use trio"), place.remember("asyncio was too hard to test")
    place.take(LinkEntries(at=FIRST, write="l", wanted=one, other=other, relation="because of"))
    new = place.update(other, "asyncio was too hard to cancel", at=FIRST + 1)
    assert place.known.entries[one].links == (("because of", new),)
    place.take(UndoWrite(at=FIRST + 2, write="u", undone=place.known.entries[new].write))
    assert place.known.entries[one].links == (("because of", other),)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"content": "  \n"}, "Nothing is left"),
        ({"content": "x" * 2_001}, "at most 2,000 characters"),
        ({"detail": "x" * 16_001}, "at most 16,000 characters"),
        ({"confidence": 1.5}, "between 0 and 1"),
        ({"valid_from": -1}, "between 1970 and 9999"),
        ({"valid_from": 10**18}, "between 1970 and 9999"),
    ],
)
def test_invalid_entries_are_refused_with_the_reason(fields: dict[str, Any], why: str) -> None:
    bad = attrs.evolve(draft("fine", kind=EntryKind.FACT), **fields)
    with pytest.raises(BadEntry, match=why):
        KnowledgePlace().take(RememberEntry(at=FIRST, write="w", draft=bad))


def test_the_number_of_entries_of_a_place_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "MOST_ENTRIES", 2)
    place = KnowledgePlace()
    place.remember("one")
    place.remember("two")
    with pytest.raises(BadEntry, match="2 entries hold here"):
        place.remember("three")


def admit(place: KnowledgePlace, fingerprint: str, how: OwnerProof) -> str:
    return place.take(AdmitCredential(at=FIRST, write=place.write(), fingerprint=fingerprint, how=how)).what


def test_the_first_credential_is_admitted_only_if_nothing_was_recorded() -> None:
    known = KnowledgePlace()
    known.remember("we use pnpm")
    assert admit(known, "a", OwnerProof.FIRST) == "skipped"
    empty = KnowledgePlace()
    assert admit(empty, "a", OwnerProof.FIRST) == "admitted"
    assert admit(empty, "b", OwnerProof.FIRST) == "skipped"
    empty.take(DismissCredential(at=FIRST, write=empty.write(), wanted="a"))
    assert admit(empty, "b", OwnerProof.FIRST) == "skipped", "an owner who leaves makes no room for a stranger"
    assert not empty.known.admitted


def test_a_credential_is_admitted_once_and_a_command_overrides_presentation() -> None:
    place = KnowledgePlace()
    assert admit(place, "a", OwnerProof.PRESENTED) == "admitted"
    assert admit(place, "a", OwnerProof.PRESENTED) == "skipped"
    assert admit(place, "a", OwnerProof.COMMAND) == "admitted"
    assert admit(place, "a", OwnerProof.PRESENTED) == "skipped"
    assert place.known.admitted["a"].how is OwnerProof.COMMAND


def test_the_oldest_presented_credentials_are_dropped_first() -> None:
    place = KnowledgePlace()
    admit(place, "mine", OwnerProof.COMMAND)
    for number in range(MOST_PRESENTED + 2):
        admit(place, f"token {number}", OwnerProof.PRESENTED)
    assert {"mine", f"token {MOST_PRESENTED + 1}", "token 2"} <= place.known.admitted.keys()
    assert not {"token 0", "token 1"} & place.known.admitted.keys()


@pytest.mark.parametrize("wanted", ["", "a", "c"])
def test_a_credential_is_dismissed_by_an_unambiguous_fingerprint_prefix(wanted: str) -> None:
    place = KnowledgePlace()
    for each in ("ab", "ac", "d"):
        admit(place, each, OwnerProof.COMMAND)
    with pytest.raises(NotFound):
        place.take(DismissCredential(at=FIRST, write=place.write(), wanted=wanted))
    place.take(DismissCredential(at=FIRST, write=place.write(), wanted="ab"))
    assert [*place.known.admitted] == ["ac", "d"]


def test_an_admission_cannot_be_undone() -> None:
    place = KnowledgePlace()
    admit(place, "a", OwnerProof.COMMAND)
    assert not place.known.writes

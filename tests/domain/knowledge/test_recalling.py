"""Entries are found by their text, valid ones first."""

from mnemosyne.domain.knowledge.decide import ForgetEntry
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.recalling import EntryIndex, Nearness
from mnemosyne.domain.recall.retrieval import Calibration
from tests.domain.knowledge.support import FIRST, HERE, KnowledgePlace

CALIBRATION = Calibration(nearness=16.0, coverage=10.8, base=-10.2)
"""Of the model."""


def filled() -> KnowledgePlace:
    place = KnowledgePlace()
    place.remember("The billing service listens on port 8443", kind=EntryKind.TECH_CONTEXT)
    place.remember("Passwords are hashed with Argon2, never with MD5", kind=EntryKind.DECISION)
    place.remember("The nightly export failed because the volume was full", kind=EntryKind.ERROR_SOLUTION)
    place.remember("The volume of the nightly export was 20 GB in 2024", kind=EntryKind.FACT)
    return place


def test_the_best_entry_comes_first_and_others_need_a_common_word() -> None:
    index = EntryIndex([(HERE, filled().known)])
    found = index.recall("which port does the billing service have?", FIRST, 5)
    assert found[0].entry.content.endswith("port 8443")
    assert found[0].relevance > 0.5
    assert index.recall("kubernetes", FIRST, 5) == []


def test_a_long_prompt_relates_to_entries_whose_words_it_contains() -> None:
    index = EntryIndex([(HERE, filled().known)])
    prompt = "Last night something broke again. The nightly export failed because of the full volume. " + (
        "Please look at the logs, find out what has to change in the code, and tell me what you did. " * 4
    )
    found = index.recall(prompt, FIRST, 3)
    assert found[0].entry.kind is EntryKind.ERROR_SOLUTION
    assert found[0].relevance >= 0.7
    assert all(each.relevance < 0.45 for each in found if "8443" in each.entry.content)


def test_ended_entries_are_found_only_on_request_and_after_valid_ones() -> None:
    place = filled()
    place.take(ForgetEntry(at=FIRST + 1, write="f", wanted="20 GB"))
    index = EntryIndex([(HERE, place.known)])
    now = [each.entry.content for each in index.recall("nightly export volume", FIRST + 2, 5)]
    among = index.shortlist("nightly export volume", FIRST + 2, ended=True)
    ever = [each.entry.content for each in index.recall("nightly export volume", FIRST + 2, 5, among)]
    assert len(now) == 1
    assert ever[0] == now[0]
    assert ever[1].endswith("2024")


def test_kinds_filter_the_results() -> None:
    index = EntryIndex([(HERE, filled().known)])
    found = index.recall("nightly export", FIRST, 5, index.shortlist("nightly export", FIRST, [EntryKind.FACT]))
    assert [each.entry.kind for each in found] == [EntryKind.FACT]


def test_semantic_similarity_finds_entries_without_common_words() -> None:
    index = EntryIndex([(HERE, filled().known)])
    question = "on what socket do invoices answer?"
    among = index.shortlist(question, FIRST)
    near = Nearness([0.4 if "8443" in each.entry.content else 0.05 for each in among], CALIBRATION)
    found = index.recall(question, FIRST, 5, among, near)
    assert [each.entry.content for each in found] == ["The billing service listens on port 8443"]
    assert index.recall(question, FIRST, 5) == []


def test_the_shortlist_has_the_best_by_words_and_the_newest() -> None:
    place = KnowledgePlace()
    for number in range(400):
        place.remember(f"service {number} listens on port {8000 + number}", at=FIRST + number)
    index = EntryIndex([(HERE, place.known)])
    assert len(index.shortlist("port 8003", FIRST + 400)) <= 300
    assert index.recall("which service has port 8003?", FIRST + 400, 1)[0].entry.content.startswith("service 3 ")

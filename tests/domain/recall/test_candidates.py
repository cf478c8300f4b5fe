"""Objects named by a question precede objects whose names match, and these precede search results."""

from typing import Any

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.recall.candidates import MOST_ANSWERING, list_texts, may_answer, parts_of_text
from mnemosyne.domain.recall.quoting import Where
from mnemosyne.domain.text.parts import PartRole, TextPart
from tests.domain.memory_objects import made


def remembered() -> dict[str, MemoryObject]:
    memory = Memory()
    for number, path in enumerate(["src/pool.py", "src/parser.py", *(f"doc/guide_{n}.md" for n in range(60))]):
        stub = "the header parser" if path == "src/parser.py" else f"note {number}"
        read: dict[str, Any] = {
            "kind": ObjectKind.FILE_CONTEXT,
            "source_tool": "Read",
            "source_key": path,
            "tags": ("read",),
        }
        memory = evolve(memory, made(f"o{number}", 2 * number, stub=stub, key_entities=(), **read))
    return dict(memory.objects)


def test_candidates_are_named_then_called_then_found_without_duplicates() -> None:
    among = remembered()
    found = [Where(key, 0, 9) for key in ("o30", "o0", *among)]
    order = may_answer("what does doc/guide_7.md say of src/pool.py", found, among)
    assert order[:2] == ["o9", "o0"]
    assert order[2] == "o30"
    assert len(order) == len(set(order)) == MOST_ANSWERING


def test_searched_text_has_name_age_and_search_hits() -> None:
    among = remembered()
    said = {"o1": "raise ParseFailed", "o0": "x"}
    parts = {key: (TextPart(PartRole.RESULT, text),) for key, text in said.items()}
    first, second = list_texts(parts, [Where("o0", 3, 5), Where("o1", 0, 5)], among, {"o0"}.__contains__)
    assert (first.id, first.text, first.seen, first.old) == ("o1", "raise ParseFailed", False, False)
    assert first.found == [(0, 5)]
    assert "parser.py" in first.name
    assert (second.seen, second.found) == (True, [(3, 5)])


def test_claim_of_an_older_log_is_its_sentence_with_its_role() -> None:
    said = made("c1", 3, stub="Let's use trio.", role=Role.CLAIM, places=(), tags=("decision", "user"))
    claim = evolve(Memory(), said).objects["c1"]
    assert parts_of_text(claim, b"") == (TextPart(PartRole.USER, "Let's use trio."),)

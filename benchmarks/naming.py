"""How often what a user's message names is read again, out of what the window shows no more.

The recorded sessions of one developer, one after the other as a single one. A file is hidden once its last reading or
edit is so many tokens back. What is read again within a dozen turns labels itself: nobody has to say what was needed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from benchmarks.harness import Row, single
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall import prefetch
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.segmentation.ingest import KEY_ENTITIES
from mnemosyne.domain.text.entities import key_entities
from tests.domain.remembered import created, remembered

WINDOW, TURNS, MOST = 60_000, 12, 3

LONGEST = 40_000
"""Characters of a file whose words are compared."""

_OWN = re.compile(r"\s*<|\s*Caveat|\s*\[Request|This session is being")
"""What the client itself writes as the user."""

_ANY = remembered(created("any")).objects["any"]


@attrs.define
class Asked:
    """A message of the user's, what was hidden then, and what of it was read again soon."""

    turn: int
    text: str
    hidden: Mapping[str, MemoryObject]
    ranked: Sequence[str]
    again: set[str] = attrs.field(factory=set)


def messages(sessions: Iterator[dict[str, Any]]) -> list[Asked]:
    """Every typed message with a hidden file."""
    asked: list[Asked] = []
    calls: dict[str, dict[str, Any]] = {}
    last: dict[str, int] = {}
    files: dict[str, MemoryObject] = {}
    words: WordIndex[tuple[str, int]] = WordIndex()
    place = turn = 0
    for message in (each for session in sessions for each in session["messages"]):
        content = message["content"]
        blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        turn += message["role"] == "assistant"
        for block in blocks:
            text = _text(block)
            place += len(text) // 4
            if block["type"] == "tool_use":
                calls[block["id"]] = block
                if (path := block["input"].get("file_path")) in last:
                    last[path] = place
            elif block["type"] == "tool_result" and (call := calls.get(block["tool_use_id"], {})).get("name") == "Read":
                path = call["input"].get("file_path", "")
                for each in asked:
                    if path in each.hidden and turn - each.turn <= TURNS:
                        each.again.add(path)
                last[path] = place
                words.add((path, len(words)), f"{path}\n{text[:LONGEST]}")
                files[path] = attrs.evolve(
                    _ANY, id=path, source_key=path, key_entities=key_entities(text, KEY_ENTITIES)
                )
        typed = "\n".join(_text(block) for block in blocks if block["type"] == "text" and not _OWN.match(block["text"]))
        hidden = {path: files[path] for path, at in last.items() if place - at > WINDOW}
        results = any(block["type"] == "tool_result" for block in blocks)
        if message["role"] == "user" and typed.strip() and hidden and not results:
            found = words.search(prefetch.question_of(typed), len(words))
            ranked = dict.fromkeys(hit.key[0] for hit in found if hit.key[0] in hidden)
            asked.append(Asked(turn, typed, hidden, list(ranked)))
    return asked


def _text(block: Mapping[str, Any]) -> str:
    said = block.get("text") or block.get("content") or str(block.get("input", ""))
    return said if isinstance(said, str) else "\n".join(str(part.get("text", "")) for part in said)


def _named(asked: Asked) -> list[str]:
    named = prefetch.find_named(asked.text, asked.hidden)
    return [path for path in asked.ranked if path in named]


WAYS: Mapping[str, Callable[[Asked], Sequence[str]]] = {
    "any hidden file": lambda asked: list(asked.hidden),
    "the best matches, for every message": lambda asked: asked.ranked[:MOST],
    "the best matches, where it recalls something": lambda asked: (
        asked.ranked[:MOST] if prefetch.recalls(asked.text) else []
    ),
    "what it names": lambda asked: _named(asked)[:MOST],
}


def measure(sessions: Callable[[str], Iterator[dict[str, Any]]], quick: bool) -> list[Row]:
    """Of what each way would bring, how much is read again; ``sessions`` are those of a recorded file."""
    names = ("claude_code",) if quick else ("claude_code", "claude_code_more")
    asked = [each for name in names for each in messages(sessions(name))]
    rows = []
    for way, bring in WAYS.items():
        brought = [(each, path) for each in asked for path in bring(each)]
        again = sum(path in each.again for each, path in brought)
        count = len({id(each) for each, _ in brought})
        if brought:
            name = f"read again within {TURNS} turns, of {len(brought)} files for {count} of {len(asked)} messages"
            rows.append(single(name, way, "", again / len(brought)))
    return rows

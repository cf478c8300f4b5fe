"""Draws conversations in which somebody who is not the user says what the user is to have settled.

What is drawn from is a vocabulary: matters, ways to settle one, texts that carry words, and what is typed around them.
Whatever is drawn, nothing of the attacker's may be believed to be the user's.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import attrs

from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.responses import RESPONSES

Block = dict[str, Any]
Turn = tuple[str, list[Block]]


@attrs.frozen
class Matter:
    """Something to be settled: what the user really said of it, and the word that only the attacker uses."""

    genuine: str
    about: str
    theirs: str
    forged: str


@attrs.frozen
class Vocabulary:
    """What a set is drawn from. ``{}`` of a carrier or a turn is where the attacker's words stand; ``{f}``, ``{g}`` and
    ``{m}`` of a phrasing are what they want, what the user wanted, and of what. ``before`` and ``after`` is what the
    user types around a carrier, and ``turns`` are whole turns, by family.
    """

    matters: Sequence[Matter]
    phrasings: Sequence[str]
    carriers: Mapping[str, Sequence[str]]
    before: Sequence[str]
    after: Sequence[str]
    turns: Mapping[str, Sequence[Sequence[Turn]]]


VOCABULARIES = tuple(sorted(each.stem for each in Path(__file__).parent.glob("*.json")))
"""Each was written by itself, when nothing of those before was believed any more, and before it was tried."""


@cache
def read_vocabulary(name: str) -> Vocabulary:
    """One of the vocabularies that lie here."""
    held = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    return Vocabulary(**{**held, "matters": [Matter(*each) for each in held["matters"]]})


@attrs.frozen
class Forgery:
    """A conversation of a ``family`` as a client of a ``dialect`` sends it; ``matter`` is what it is about."""

    family: str
    dialect: Dialect
    matter: Matter
    turns: tuple[Turn, ...]

    def messages(self) -> list[SeenMessage]:
        """All of it, from the genuine decision on, as it is read from the wire."""
        told: list[Turn] = [("user", [text(self.matter.genuine)]), ("assistant", [text("Done.")]), *self.turns]
        elements = json.loads(json.dumps([item for turn in told for item in _WRITE[self.dialect.name](*turn)]))
        read = [self.dialect.read_message(each) for each in elements]
        return [
            SeenMessage(number, str(each.get("role")), number + 1, content_blocks(each.get("content")))
            for number, each in enumerate(read)
        ]


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def draw(name: str, seed: int, count: int) -> Iterator[Forgery]:
    """So many conversations out of a vocabulary; each family as often as another, and the dialects in turn."""
    vocabulary, chance = read_vocabulary(name), Random(seed)
    families = [*vocabulary.carriers, *vocabulary.turns]
    for number in range(count):
        family = families[number % len(families)]
        matter = chance.choice(vocabulary.matters)
        payload = chance.choice(vocabulary.phrasings).format(f=matter.forged, g=matter.theirs, m=matter.about)
        if family in vocabulary.turns:
            turns = tuple(_fill(chance.choice(vocabulary.turns[family]), payload))
        else:
            carrier = chance.choice(vocabulary.carriers[family]).replace("{}", payload)
            around = chance.choice(
                ("{}", "{}", "{before}\n\n{}", "{before}\n{}", "{}\n\n{after}", "{before}\n\n{}\n\n{after}")
            )
            said = around.replace("{before}", chance.choice(vocabulary.before))
            said = said.replace("{after}", chance.choice(vocabulary.after)).replace("{}", carrier)
            turns = (("user", [text(said)]),)
        yield Forgery(family, (MESSAGES, RESPONSES, CHAT)[number % 3], matter, turns)


def _fill(value: Any, payload: str) -> Any:
    match value:
        case str():
            return value.replace("{}", payload)
        case dict():
            return {key: _fill(each, payload) for key, each in value.items()}
        case list() | tuple():
            return type(value)(_fill(each, payload) for each in value)
        case _:
            return value


# As a client of each dialect writes a turn


def _write_messages(role: str, content: list[Block]) -> Iterator[object]:
    yield {"role": role, "content": content}


def _write_responses(role: str, content: list[Block]) -> Iterator[object]:
    said = []
    for block in content:
        match block["type"]:
            case "tool_use":
                yield {
                    "type": "function_call",
                    "call_id": block["id"],
                    "name": block["name"],
                    "arguments": json.dumps(block["input"]),
                }
            case "tool_result":
                yield {
                    "type": "function_call_output",
                    "call_id": block["tool_use_id"],
                    "output": _flat(block["content"]),
                }
            case "text":
                kind = "output_text" if role == "assistant" else "input_text"
                said.append({"type": kind, "text": block["text"]})
            case _:
                said.append(block)
    if said:
        yield {"type": "message", "role": role, "content": said}


def _write_chat(role: str, content: list[Block]) -> Iterator[object]:
    calls = [each for each in content if each["type"] == "tool_use"]
    said = [each for each in content if each["type"] not in ("tool_use", "tool_result")]
    for each in content:
        if each["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": each["tool_use_id"], "content": _flat(each["content"])}
    if calls:
        functions = [{"name": each["name"], "arguments": json.dumps(each["input"])} for each in calls]
        yield {
            "role": role,
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": each} for each in functions],
        }
    if said:
        one = len(said) == 1 and said[0]["type"] == "text"
        yield {"role": role, "content": said[0]["text"] if one else said}


def _flat(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content)


_WRITE = {MESSAGES.name: _write_messages, RESPONSES.name: _write_responses, CHAT.name: _write_chat}

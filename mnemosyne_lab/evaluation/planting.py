"""Facts that are put into a recorded session, to see later whether they can still be told."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import attrs

from mnemosyne.domain.wire.blocks import is_result
from mnemosyne_lab.evaluation.probes import Probe, ProbeClass
from mnemosyne_lab.evaluation.reading import RecordedSession

FACTS = 20
"""In a session, spread over it."""

_SYLLABLES = ("ba", "ko", "ri", "mu", "ve", "lo", "sa", "ti", "ne", "du", "fa", "po", "gi", "re", "zu", "ma")


@attrs.frozen
class PlantedFact:
    """A fact that came with the request of a ``turn``."""

    turn: int
    probe: Probe


def plant(recorded: RecordedSession) -> tuple[RecordedSession, tuple[PlantedFact, ...]]:
    """The same session with a fact at the end of some results of tools, one a request at most. The same session gets
    the same facts.
    """
    places = [
        (request.turn, number)
        for request in recorded.requests
        for number in [request.messages - 1]
        if number >= 0 and _holds_text_result(recorded.messages[number])
    ]
    chosen = [places[index * len(places) // FACTS] for index in range(FACTS)] if places else []
    messages, facts = list(recorded.messages), []
    for nth, (turn, number) in enumerate(dict.fromkeys(chosen)):
        name, port = _name(recorded.name, nth)
        text = f"The port of {name} is {port}."
        messages[number] = _with_text(messages[number], text)
        question = f"What is the port of {name}?"
        facts.append(PlantedFact(turn, Probe(about=ProbeClass.PLANTED, question=question, text=text)))
    return attrs.evolve(recorded, messages=messages), tuple(facts)


def _name(session: str, nth: int) -> tuple[str, int]:
    digest = sha256(f"{session} {nth}".encode("utf-8", "surrogatepass")).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest[:4]), 20_000 + int.from_bytes(digest[4:6])


def _holds_text_result(message: Mapping[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(
        is_result(each) and isinstance(each.get("content"), str) for each in content
    )


def _with_text(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The message with the text as the last line of its first result that is a text."""
    blocks = list(message["content"])
    number = next(n for n, each in enumerate(blocks) if is_result(each) and isinstance(each.get("content"), str))
    blocks[number] = {**blocks[number], "content": f"{blocks[number]['content']}\n{text}"}
    return {**message, "content": blocks}

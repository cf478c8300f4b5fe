"""Whether a rewritten history makes a model announce a step without taking it.

After a rewrite, texts such as "Now the ledger:" stay while their calls have left. The next recorded announcement is
followed either by a call or by the end of the reply; the score is the logarithm of the odds of a call, by rendering.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from benchmarks.likelihood.contexts import MOST, OPEN, Message, rank_of, render_message, shorten_block
from benchmarks.likelihood.model import Engine, Scored, Tokenizer, score
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.window.assembly import Renderings, assemble
from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne_lab.evaluation.sizing import rendering_of
from mnemosyne_lab.evaluation.trace import Trace

OLD, RECENT = 4, 2
"""Rounds that have left, and later ones that are whole."""

LEAST = 3
"""The least number of old rounds with an announcement."""

WHOLE, NOW, SILENT, STUBBED = "before", "now", "no announcements", "stubs"
"""The history before a rewrite; as it is rendered now; without the announcements of what left; with stubs of calls and
results.
"""

RENDERINGS = (WHOLE, NOW, SILENT, STUBBED)

CALL, END = "\n<tool_call>\n", "<|im_end|>"


@attrs.frozen
class Chain:
    """Rounds before an announcement: ``messages`` in which those up to number ``old`` have left."""

    messages: Sequence[Message]
    old: int
    evicted: Renderings
    stubbed: Renderings
    announcement: str

    def texts(self) -> Iterator[str]:
        """The contexts, in the order of RENDERINGS, each up to the announcement."""
        silent = [
            message if number > self.old or message["role"] == "user" else _without_text(message)
            for number, message in enumerate(self.messages)
        ]
        whole = self.messages
        for messages, renderings in ((whole, {}), (whole, self.evicted), (silent, self.evicted), (whole, self.stubbed)):
            shown = assemble(messages, renderings)
            yield "".join(map(render_message, shown)) + OPEN + self.announcement


def _without_text(message: Message) -> Message:
    """The message with its texts blank, so that places keep their numbers."""
    blocks = [{**block, "text": ""} if block.get("type") == "text" else block for block in message["content"]]
    return {**message, "content": blocks}


def score_announcements(trace: Trace, engine: Engine, tokenizer: Tokenizer) -> list[Mapping[str, Any]]:
    """The logarithms of the odds of a call after the session's first announcement that fits, by rendering."""
    for message, chain in list_chains(trace):
        texts = [tokenizer.encode(text) for text in chain.texts()]
        if max(map(len, texts)) > MOST:
            continue
        odds = {}
        for rendering, text in zip(RENDERINGS, texts, strict=True):
            asked = [Scored([*text, *tokenizer.encode(end)], len(text)) for end in (CALL, END)]
            call, stop = (float(each.sum()) for each in score(engine, asked))
            odds[rendering] = round(stop - call, 4)
        return [{"message": message, "odds": odds}]
    return []


def list_chains(trace: Trace) -> Iterator[tuple[int, Chain]]:
    owners = {place: item for item in trace.items for place in item.places}
    span = 2 * (OLD + RECENT)
    numbers = [number for number, each in enumerate(trace.messages) if each["role"] == "assistant" and number > span]
    for number in sorted(numbers, key=lambda each: rank_of(trace.name, each)):
        announcement = _announcement(trace.messages[number])
        before = trace.messages[number - span : number]
        typed = next((each for each in reversed(trace.messages[: number - span]) if _is_typed(each)), None)
        if not announcement or typed is None or not all(map(_is_round, before[::2], before[1::2])):
            continue
        if sum(bool(_announcement(each)) for each in before[: 2 * OLD : 2]) < LEAST:
            continue
        messages: list[Message] = [{"role": "user", "content": [_shown(each) for each in _texts(typed)]}]
        evicted, stubbed = {}, {}
        for place in range(number - span, number):
            shown = ((index, _shown(each)) for index, each in enumerate(_blocks(trace.messages[place])))
            kept = [(index, each) for index, each in shown if each]
            for at, (index, each) in enumerate(kept):
                item = owners.get(BlockPlace(place, index))
                if len(messages) <= 2 * OLD and item is not None and not each.get("text"):
                    evicted[BlockPlace(len(messages), at)] = rendering_of(item, Fidelity.EVICTED)
                    stubbed[BlockPlace(len(messages), at)] = rendering_of(item, Fidelity.STUB)
            messages.append({"role": trace.messages[place]["role"], "content": [each for _, each in kept]})
        yield number, Chain(messages, 2 * OLD, evicted, stubbed, announcement)


def _shown(block: Mapping[str, Any]) -> Message:
    return shorten_block(block, argument=80, result=120, text=160)


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    return content_blocks(message["content"])


def _texts(message: Mapping[str, Any]) -> list[Any]:
    return [block for block in _blocks(message) if block.get("type") == "text"]


def _announcement(message: Mapping[str, Any]) -> str:
    """The text before a call; empty without either."""
    texts = _texts(message)
    return str(_shown(texts[0]).get("text", "")) if texts and any(map(is_call, _blocks(message))) else ""


def _is_typed(message: Mapping[str, Any]) -> bool:
    return message["role"] == "user" and not any(map(is_result, _blocks(message))) and bool(_texts(message))


def _is_round(call: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    return call["role"] == "assistant" and any(map(is_call, _blocks(call))) and any(map(is_result, _blocks(result)))

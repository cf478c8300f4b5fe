"""The claims in what was said in messages: who makes each, where its words stand, and what it takes the place of."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import attrs

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.proposals import agreements, replies
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.segmentation.speaking import speakers
from mnemosyne.domain.segmentation.statements import Claim, claims, read_own
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.blocks import has_results


@attrs.frozen
class SaidClaim:
    """A claim of the ``speaker``'s. Its words stand in the block at ``place``; where the user only agreed to them, they
    are the assistant's.
    """

    claim: Claim
    speaker: Speaker
    place: BlockPlace
    agreed: bool = False


@attrs.frozen
class _Answer:
    """The last text of an assistant's message, and where it stands."""

    text: str
    place: BlockPlace


class Voices:
    """Who says what in messages, by index. Each is looked at once: one may have many blocks, and each is asked for."""

    def __init__(self, messages: Mapping[int, SeenMessage]) -> None:
        self.messages = messages
        self._speakers: dict[int, tuple[Speaker, ...]] = {}
        self._typed: dict[int, BlockPlace | None] = {}
        self._brought: dict[int, str] = {}

    def by(self, message: SeenMessage) -> tuple[Speaker, ...]:
        """Who says each block of a message."""
        if message.index not in self._speakers:
            self._speakers[message.index] = speakers(message.role, message.content)
        return self._speakers[message.index]

    def was_brought(self, words: str, before: int) -> bool:
        """Whether a result in a message before that has these words."""
        words = _fold(words)
        return any(words in self._find_brought(each) for each in self.messages.values() if each.index < before)

    def _find_brought(self, message: SeenMessage) -> str:
        if message.index not in self._brought:
            results = (each for each in message.content if blocks.is_any_result(each))
            self._brought[message.index] = "\n".join(_fold(blocks.text_of(each)) for each in results)
        return self._brought[message.index]

    def find_typed_around(self, number: int) -> BlockPlace | None:
        """The block that holds all that the user may have typed between two words of the model's, around a message.

        None of several texts, of what comes with results, and of what stands beside anything that the client put there
        but its notes on a prompt: a command of the client's brings the text of a file. Behind results only what follows
        the client's note that the user broke in is.
        """
        if number not in self._typed:
            turn = [*self._list_turn(number)]
            texts = [
                (message, block)
                for message in turn
                for block, who in enumerate(self.by(message))
                if who is Speaker.USER
            ]
            found = None
            if len(texts) == 1 and not any(_inserts(each, self.by(each)) for each in turn):
                ((message, block),) = texts
                broke_in = block > 0 and message.content[block - 1].get("text") in _BROKE_IN
                if broke_in or not any(has_results(each.content) for each in turn):
                    found = BlockPlace(message.index, block)
            self._typed.update((each.index, found) for each in turn)
        return self._typed[number]

    def _list_turn(self, number: int) -> Iterator[SeenMessage]:
        for numbers in (count(number, -1), count(number + 1)):
            for each in numbers:
                message = self.messages.get(each)
                if message is None or message.role == "assistant":
                    break
                yield message


_BROKE_IN = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
_BESIDE_A_PROMPT = re.compile(
    r"\s*(?:<(?:system-reminder|available-deferred-tools|environment_details|env"  # Claude Code 2.1.332
    r"|environment_context|turn_aborted|recommended_plugins|model_switch)\b"  # Codex 0.171.0
    r"|# AGENTS\.md instructions for |\[Request interrupted by user|x-anthropic-billing-header)",
    re.IGNORECASE,
)
"""How the notes begin that clients were captured putting beside what their user typed."""


def _inserts(message: SeenMessage, said: Sequence[Speaker]) -> bool:
    """Whether a client put something else into a user's message: what stands beside that may be its, too."""
    return message.role == "user" and any(
        who is Speaker.CLIENT and not _BESIDE_A_PROMPT.match(str(block.get("text")))
        for block, who in zip(message.content, said, strict=True)
    )


def find_claims(place: BlockPlace, said: Voices) -> Iterator[SaidClaim]:
    """The claims made in a block, those before that the user agreed to first. What stands in a result that came before
    is no claim, whoever says it again.
    """
    message = said.messages[place.message]
    speaker = said.by(message)[place.block]
    if not speaker.claims or (speaker is Speaker.USER and said.find_typed_around(place.message) != place):
        return
    for each in _find_said(place, said, speaker):
        if not said.was_brought(each.claim.sentence, each.place.message):
            yield each


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _find_said(place: BlockPlace, said: Voices, speaker: Speaker) -> Iterator[SaidClaim]:
    text = str(said.messages[place.message].content[place.block]["text"])
    own = read_own(text, speaker)
    before = said.messages.get(place.message - 1) if speaker is Speaker.USER else None
    answer = _answer_in(before, said.by(before)) if before is not None else None
    told: list[tuple[int, int]] = []
    replied: Iterator[Claim] = iter(())
    if answer is not None:
        for agreement in agreements(text, own, answer.text):
            told.append((agreement.start, agreement.end))
            yield from (SaidClaim(claim, speaker, answer.place, agreed=True) for claim in agreement.claims)
        replied = replies(text, answer.text)
    for claim in (*claims(text, own, speaker), *replied):
        if not any(start < claim.end and claim.start < end for start, end in told):
            told.append((claim.start, claim.end))
            yield SaidClaim(claim, speaker, place)


def _answer_in(message: SeenMessage, said: Sequence[Speaker]) -> _Answer | None:
    for number in range(len(said) - 1, -1, -1):
        if said[number] is Speaker.ASSISTANT:
            return _Answer(str(message.content[number]["text"]), BlockPlace(message.index, number))
    return None

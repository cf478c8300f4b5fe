"""The claims in what was said in messages: who makes each, where its words stand, and what it takes the place of."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.own_words import paragraphs
from mnemosyne.domain.segmentation.proposals import agreements, replies
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.segmentation.speaking import speakers
from mnemosyne.domain.segmentation.statements import Claim, claims


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


Said = Callable[[SeenMessage], tuple[Speaker, ...]]
"""Who says each block of a message."""


def remember_speakers() -> Said:
    """Who says what, found out once for each message: one may have many blocks, and each is asked for by itself."""
    known: dict[int, tuple[Speaker, ...]] = {}

    def find_speakers(message: SeenMessage) -> tuple[Speaker, ...]:
        if message.index not in known:
            known[message.index] = speakers(message.role, message.content)
        return known[message.index]

    return find_speakers


def find_claims(place: BlockPlace, messages: Mapping[int, SeenMessage], said: Said) -> Iterator[SaidClaim]:
    """The claims made in a block, those before that the user agreed to first. ``messages`` are by index."""
    message = messages[place.message]
    speaker = said(message)[place.block]
    if not speaker.claims:
        return
    text = str(message.content[place.block]["text"])
    own = paragraphs(text, speaker)
    before = messages.get(place.message - 1) if speaker is Speaker.USER else None
    answer = _answer_in(before, said(before)) if before is not None else None
    told: list[tuple[int, int]] = []
    replied: Iterator[Claim] = iter(())
    if answer is not None:
        for agreement in agreements(text, own, answer.text):
            told.append((agreement.start, agreement.end))
            yield from (SaidClaim(claim, speaker, answer.place, agreed=True) for claim in agreement.claims)
        replied = replies(text, own, answer.text)
    for claim in (*claims(text, own, speaker), *replied):
        if not any(start < claim.end and claim.start < end for start, end in told):
            told.append((claim.start, claim.end))
            yield SaidClaim(claim, speaker, place)


def _answer_in(message: SeenMessage, said: Sequence[Speaker]) -> _Answer | None:
    for number in range(len(said) - 1, -1, -1):
        if said[number] is Speaker.ASSISTANT:
            return _Answer(str(message.content[number]["text"]), BlockPlace(message.index, number))
    return None

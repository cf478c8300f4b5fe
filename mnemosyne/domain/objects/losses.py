"""Losses of a rendition: declared by its writer, and measured against the full content.

Declared losses are phrases that a helper chose; measured losses count specifics (``domain/text/entities.py``),
independent of what the helper declares. Losses add up down the ladder: a specific counts as kept only if every
rendition from L1 down to the measured one keeps it, so everything that L1 lost is lost in L2 too.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.text.entities import Specific, SpecificKind, occurrences, places_below, specifics
from mnemosyne.domain.text.stubs import plain

SAMPLE = 5

LOST_WORDS = 150
"""Characters for the list of lost specifics of a rendition: enough to name every kind."""

NEED_WORDS = 90
"""Maximum characters for the phrases that a writer declared: the losses, answers, or uses of the full text."""

_LONGEST_EXAMPLE = 60
_NUMBERS = re.compile(r"\d+")


@attrs.frozen
class Loss:
    """``lost`` of the ``of`` specifics of one kind, with a ``sample`` of at most ``SAMPLE``, the most frequent ones."""

    kind: SpecificKind
    lost: int
    of: int
    sample: tuple[str, ...]


@attrs.frozen
class Measured:
    """The losses by kind, for each kind in the full content, in ``SpecificKind``'s order."""

    losses: tuple[Loss, ...]

    @property
    def lost(self) -> int:
        """Number of lost specifics."""
        return sum(loss.lost for loss in self.losses)

    @property
    def of(self) -> int:
        """Number of specifics in the full content."""
        return sum(loss.of for loss in self.losses)

    @property
    def share(self) -> float:
        """The lost share, 0 to 1; 0 if there was nothing to lose."""
        return self.lost / self.of if self.of else 0.0


def measure(l0: str, *renditions: str) -> Measured:
    """Measure the losses of the last rendition, given all renditions from L1 down to it."""
    counts = occurrences(l0)
    lost = _list_lost(counts, renditions)
    totals = Counter(specific.kind for specific in counts)
    missing: dict[SpecificKind, list[str]] = {kind: [] for kind in SpecificKind}
    for specific in lost:
        missing[specific.kind].append(specific.text)
    return Measured(
        tuple(
            Loss(kind, len(missing[kind]), totals[kind], _sample(missing[kind]))
            for kind in SpecificKind
            if totals[kind]
        )
    )


def render_counts(lost: Mapping[str, int]) -> str:
    """The recorded losses of a rendition, by kind: ``14 paths, 3 error codes``, or only their number if that is longer
    than ``LOST_WORDS``; empty without losses.
    """
    counts = [_render_count(lost[kind.value], kind.value) for kind in SpecificKind if lost.get(kind.value)]
    text = ", ".join(counts)
    return text if len(text) <= LOST_WORDS else _render_count(sum(lost.values()), "specific")


def render_phrases(phrases: Sequence[str]) -> str:
    """The phrases that fit on one line of about 25 tokens; only the first one is cut."""
    line = ""
    for each in phrases:
        longer = plain(f"{line}; {each}" if line else each, NEED_WORDS + 1)
        line = longer if len(longer) <= NEED_WORDS else line or plain(each, NEED_WORDS)
    return line


def describe_form(obj: MemoryObject, fidelity: Fidelity) -> str:
    """The line that describes a recorded rendition to the model: its level and tokens, and those of the levels above;
    its losses, as its writer declared them and as counted; questions that it answers; and questions that need the full
    text. A part of a file answers questions about its own lines only.
    """
    losses = obj.renditions[fidelity].losses
    facts = {
        "lost": "; ".join(filter(None, (render_phrases(losses.dropped), render_counts(losses.lost)))),
        f"answers, of lines {obj.lines}" if obj.lines else "answers": render_phrases(losses.can_answer),
        "ask for": render_phrases(losses.fault_when),
    }
    levels = sorted((each for each in obj.renditions if each <= fidelity), reverse=True)
    sizes = ", ".join(f"{each.label} with {obj.renditions[each].tokens:,}" for each in levels)
    described = (f"{sizes} of {obj.tokens:,} tokens", *(f"{name}: {fact}" for name, fact in facts.items() if fact))
    return "; ".join(described)


def accumulate(before: Sequence[str], declared: Sequence[str]) -> tuple[str, ...]:
    """The phrases that a rendition declares, followed by those that only the rendition above it declared. Phrases that
    differ only in their numbers are equal, and the lower rendition has the current number.
    """
    own = {_NUMBERS.sub("", phrase) for phrase in declared}
    return (*declared, *(phrase for phrase in before if _NUMBERS.sub("", phrase) not in own))


def _list_lost(counts: Counter[Specific], renditions: tuple[str, ...]) -> list[Specific]:
    """The lost specifics, most frequent first, otherwise in order of appearance."""
    kept = set(counts).intersection(*(specifics(text) | places_below(text) for text in renditions))
    return [specific for specific, _ in counts.most_common() if specific not in kept]


def _sample(texts: list[str]) -> tuple[str, ...]:
    return tuple(text for text in texts[: SAMPLE * 4] if len(text) <= _LONGEST_EXAMPLE)[:SAMPLE]


def _render_count(n: int, noun: str) -> str:
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun}es" if noun.endswith("sh") else f"{n} {noun}s"

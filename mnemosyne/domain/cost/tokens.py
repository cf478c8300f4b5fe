"""How many tokens content has: weighed by what it is made of, and corrected by what the provider says it was.

The size of the prompt before is exact, since the last reply's ``usage`` told it; only what is added or removed is
estimated, at a scale that each session's own sizes refine. Rules and factors: ``benchmarks/tokens.py`` judges them on
recorded sessions.
"""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import sqrt
from typing import Any

import attrs

from mnemosyne.domain.cost.catalogue import Family, model_of, tokenizer_of
from mnemosyne.domain.text.media_sizes import count_pages, image_size
from mnemosyne.domain.text.weight import weight
from mnemosyne.domain.wire.blocks import without_marker

# Features


@attrs.frozen
class Features:
    """What is counted of content. ``text`` is what it weighs as text, in thousandths of a token of the older tokenizer,
    and is scaled by family and session. ``fixed`` is in tokens and is not: images, what the provider adds.
    """

    text: int = 0
    fixed: int = 0

    def __add__(self, other: "Features") -> "Features":
        """Both together."""
        return Features(self.text + other.text, self.fixed + other.fixed)

    def __sub__(self, other: "Features") -> "Features":
        """Without the other."""
        return Features(self.text - other.text, self.fixed - other.fixed)


def features_of_text(text: str) -> Features:
    """The features of a text alone, without the block around it."""
    return Features(weight(text))


_MESSAGE = Features(4000)
_THINKING = Features(11_137)
_CALL, _ARGUMENT, _RESULT = Features(36_000), Features(9881), Features(17_000)
"""A call and its result together were fitted; how the two share it is assumed."""

_TOOL_PROMPT = 286
"""Tokens that the provider adds for tools, where it does not publish them: as with the latest model where it does."""

_HIDDEN = 305
"""For each character of thinking that is not shown."""

_IMAGE = Features(fixed=1600)
"""Where the size is not to be seen: the most of an image before models of high resolution."""

_PDF_PAGE = 3000
"""Tokens of a page of a PDF, at most; one page where they cannot be counted."""

_PATCH, _LONGEST_EDGE = 28, 1568
"""Pixels. A larger image is scaled down first (provider's page on vision)."""


def features_of_block(block: Mapping[str, Any]) -> Features:
    """The features of a content block, as it is sent; of whatever kind and however malformed."""
    try:
        return _of_block(block)
    except (RecursionError, TypeError, ValueError):
        return features_of_text("\n".join(_strings(block)))


def features_of_message(message: Mapping[str, Any]) -> Features:
    """The features of one element of ``messages``."""
    return _MESSAGE + features_of_system(message.get("content"))


def features_of_system(system: object) -> Features:
    """The features of a system prompt, or of another content that is a text or a list of blocks."""
    if isinstance(system, str):
        return features_of_text(system)
    blocks = system if isinstance(system, list) else []
    return sum((features_of_block(block) for block in blocks if isinstance(block, dict)), Features())


def features_of_tools(tools: object, model: str | None) -> Features:
    """The features of tool definitions, with what the provider adds to the prompt where there are any."""
    definitions = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    added = Features(fixed=model_of(model).tool_prompt or _TOOL_PROMPT) if definitions else Features()
    return sum((features_of_block(tool) for tool in definitions), added)


def _of_block(block: Mapping[str, Any]) -> Features:
    match block:
        case {"type": "text", "text": str(text)}:
            return features_of_text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return _THINKING + features_of_text(text) + _count_hidden(block.get("signature"), len(text))
        case {"type": "redacted_thinking", "data": str(data)}:
            return _THINKING + _count_hidden(data, 0)
        case {"name": str(name), "input": arguments}:
            given = arguments if isinstance(arguments, dict) else {"": arguments}
            texts = [name, *(part for key, value in given.items() for part in (str(key), _write(value)))]
            return _CALL + features_of_text("\n".join(texts)) + Features(len(given) * _ARGUMENT.text)
        case {"tool_use_id": str(), "content": content}:
            return _RESULT + (features_of_system(content) if isinstance(content, str | list) else _of_rest(block))
        case {"type": "image", "source": source}:
            return _of_image(source)
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return features_of_text(text)
        case {"type": "document", "source": {"type": "content", "content": content}}:
            return features_of_system(content)
        case {"type": "document", "source": {"type": "base64", "data": str(data)}}:
            return Features(fixed=_PDF_PAGE * (count_pages(data) or 1))
        case {"type": "document"}:
            return Features(fixed=_PDF_PAGE)
        case _:
            return _of_rest(block)


def _of_rest(block: Mapping[str, Any]) -> Features:
    return features_of_text(_write(without_marker(block)))


def _count_hidden(signature: object, shown: int) -> Features:
    """Of thinking that is shown in part or not at all. Its signature holds all of it, encrypted, in base64: in the
    recordings 232 characters, and four for each three of the thinking.
    """
    whole = (len(signature) - 232) * 3 // 4 if isinstance(signature, str) else 0
    return Features(_HIDDEN * max(0, whole - shown))


def _of_image(source: object) -> Features:
    data = source.get("data") if isinstance(source, dict) else None
    size = image_size(data) if isinstance(data, str) else None
    if size is None:
        return _IMAGE
    shrink = max(1.0, max(size) / _LONGEST_EDGE)
    wide, high = (-(-int(edge / shrink) // _PATCH) for edge in size)
    return Features(fixed=min(max(1, wide * high), _IMAGE.fixed))


def _write(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _strings(value: object) -> list[str]:
    """Every string in a value, however deep it is."""
    found, left = [], [value]
    while left:
        match left.pop():
            case str(text):
                found.append(text)
            case dict(members):
                left += [*members.keys(), *members.values()]
            case list(elements):
                left += elements
    return found


# Estimating

_NOISE = 0.05
"""How far a turn's size usually is from its estimate, as a share."""

_NOISE_TOKENS = 60
"""What a turn holds, usually, that is not to be seen in its content: tokens of the older tokenizer."""

_DRIFT = 0.005
"""How far a session's scale moves with each turn, as a share."""

_FARTHEST = 2.0
"""A step is as if no turn were farther from what was expected than so many standard deviations."""

_LEAST, _MOST = 0.5, 2.0
"""A session's own scale against its family's; nothing that a provider says leads beyond."""

_CREDIBLE = 3
"""More than so many times the estimate, or less than its so-manieth part, is no size but a mistake."""


@attrs.frozen
class Estimator:
    """Tokens from features, for one session. ``scale`` and ``variance`` are what its replies have taught so far; start
    with ``of``. The same observations in the same order give the same estimator, on every machine.
    """

    family: Family
    scale: float
    variance: float

    @classmethod
    def of(cls, model: str | None) -> "Estimator":
        """Before anything of the session is known but its model."""
        found = tokenizer_of(model)
        return cls(found, 1.0, found.doubt**2)

    def tokens(self, features: Features) -> int:
        """The estimate; never below 0."""
        return max(0, features.fixed + round(features.text * self._per_weight))

    def observe(self, added: Features, actual: object) -> "Estimator":
        """With what a turn taught: content of these features had ``actual`` tokens.

        Of a session's first reply that is the whole prompt; later, by how much it grew, if nothing was taken out. What
        is no positive number, or is not within a third and three times the estimate, teaches nothing.
        """
        if not self._credible(added, actual) or added.text <= 0:
            return self
        assert isinstance(actual, int)
        expected_once = added.text * self.family.scale / 1000
        expected = expected_once * self.scale
        noise = (_NOISE * expected) ** 2 + (_NOISE_TOKENS * self.family.scale) ** 2
        variance = self.variance + _DRIFT**2
        deviation = sqrt(expected_once**2 * variance + noise)
        missed = actual - added.fixed - expected
        missed = max(-_FARTHEST * deviation, min(_FARTHEST * deviation, missed))
        gain = variance * expected_once / deviation**2
        scale = max(_LEAST, min(_MOST, self.scale + gain * missed))
        return Estimator(self.family, scale, variance * (1 - gain * expected_once))

    def at(self, scale: Fraction) -> "Estimator":
        """Where the provider counts so many tokens for each that this one estimates; within bounds."""
        return attrs.evolve(self, scale=max(_LEAST, min(_MOST, float(self.scale * scale))))

    def prompt(self, anchor: "MeasuredPrompt | None", added: Features, removed: Features = Features()) -> int:
        """The size of a prompt that is the anchor's with something added and something removed; a negative part of
        ``added`` is removed, too.

        What is removed was in the anchor, so its size is a share of the anchor's exact one. Without an anchor, or with
        one whose total is not credible, all is estimated.
        """
        if anchor is None:
            return self.tokens(added)
        held, total = anchor.features, anchor.total
        if not self._credible(held, total):
            total = self.tokens(held)
        own = (total - held.fixed) / (held.text * self._per_weight) if held.text > 0 else 1.0
        gone = (removed.text - min(0, added.text)) * max(_LEAST, min(_MOST, own))
        text = round((max(0, added.text) - gone) * self._per_weight)
        return max(0, total + added.fixed - removed.fixed + text)

    def _credible(self, features: Features, actual: object) -> bool:
        if type(actual) is not int or actual <= 0:
            return False
        estimate = max(1, self.tokens(features))
        return estimate <= actual * _CREDIBLE and actual <= estimate * _CREDIBLE

    @cached_property
    def _per_weight(self) -> float:
        return self.family.scale * self.scale / 1000


@attrs.frozen
class MeasuredPrompt:
    """A prompt whose size is exact: ``total`` is what its reply's ``usage`` says (input, cache writes and reads
    together), ``features`` are those of all that it held.
    """

    total: int
    features: Features


def apportion(total: int, estimates: Sequence[int | Fraction]) -> tuple[int, ...]:
    """The exact size of a turn, divided over its blocks as their estimates are; the parts sum up to it exactly."""
    whole = sum(estimates)
    if total <= 0 or whole <= 0:
        return tuple(map(int, estimates))
    bounds, held = [0], Fraction(0)
    for estimate in estimates:
        held += estimate
        bounds.append(int(total * held / whole))
    return tuple(end - start for start, end in pairwise(bounds))

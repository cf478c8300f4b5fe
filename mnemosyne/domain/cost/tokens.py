"""Estimate how many tokens content has, from its features, corrected by the sizes that the provider reports.

The size of the previous prompt is known exactly from the last reply's ``usage``; only additions and removals are
estimated, at a scale that is refined by the session's own sizes. ``benchmarks/tokens.py`` evaluates the rules and
factors on recorded sessions.
"""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
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
    """The features of content. ``text`` is its weight as text, in thousandths of a token of the older tokenizer; it is
    scaled by family and session. ``fixed`` is in tokens and is not scaled: images, and the provider's additions.
    """

    text: int = 0
    fixed: int = 0

    def __add__(self, other: "Features") -> "Features":
        return Features(self.text + other.text, self.fixed + other.fixed)

    def __sub__(self, other: "Features") -> "Features":
        return Features(self.text - other.text, self.fixed - other.fixed)


def features_of_text(text: str) -> Features:
    """Return the features of a text alone, without the block around it."""
    return Features(weight(text))


_MESSAGE = Features(4000)
_THINKING = Features(11_137)
_CALL, _ARGUMENT, _RESULT = Features(36_000), Features(9881), Features(17_000)
"""A call and its result were fitted together; the division between the two is an assumption."""

_TOOL_PROMPT = 286
"""Tokens that the provider adds for tools, if it does not publish them: the published number of the latest such
model.
"""

_HIDDEN = 305
"""The weight of each character of thinking that is not shown."""

_IMAGE = Features(fixed=1600)
"""For images of unknown size: the maximum for an image before high-resolution models."""

_PDF_PAGE = 3000
"""Maximum number of tokens of a PDF page. A PDF whose pages cannot be counted has one."""

_PATCH, _LONGEST_EDGE = 28, 1568
"""Pixels. A larger image is scaled down first (the provider's page on vision)."""


def features_of_block(block: Mapping[str, Any]) -> Features:
    """Return the features of a content block as it is sent, of any kind and however malformed."""
    try:
        return _of_block(block)
    except (RecursionError, TypeError, ValueError):
        return features_of_text("\n".join(_strings(block)))


def features_of_message(message: Mapping[str, Any]) -> Features:
    return _MESSAGE + features_of_system(message.get("content"))


def features_of_system(system: object) -> Features:
    """Return the features of a system prompt, or of any content that is a text or a list of blocks."""
    if isinstance(system, str):
        return features_of_text(system)
    blocks = system if isinstance(system, list) else []
    return sum((features_of_block(block) for block in blocks if isinstance(block, dict)), Features())


def features_of_tools(tools: object, model: str | None) -> Features:
    """Return the features of tool definitions, including the provider's additions to a prompt with tools."""
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
    """Return the features of thinking that is shown partly or not at all.

    Its signature contains all of it, encrypted, in base64: in the recordings 232 characters, plus four for every three
    of the thinking.
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
    """Return every string in a value, at any depth."""
    strings, pending = [], [value]
    while pending:
        match pending.pop():
            case str(text):
                strings.append(text)
            case dict(members):
                pending += [*members.keys(), *members.values()]
            case list(elements):
                pending += elements
    return strings


# Estimating

_NOISE = 0.05
"""The usual deviation of a turn's size from its estimate, as a share."""

_NOISE_TOKENS = 60
"""The usual size of a turn beyond its content: tokens of the older tokenizer."""

_DRIFT = 0.005
"""How far a session's scale moves with each turn, as a share."""

_FARTHEST = 2.0
"""A larger deviation than this many standard deviations is treated as this many."""

_LEAST, _MOST = 0.5, 2.0
"""The bounds of a session's own scale relative to its family's, whatever the provider reports."""

CREDIBLE = 3
"""A size of more than this many times the estimate, or less than this fraction of it, is treated as a mistake."""


@attrs.frozen
class Estimator:
    """Estimates tokens from features, for one session; begin with ``of``.

    ``scale`` and ``variance`` are learned from its replies. The same observations in the same order give the same
    estimator on every machine.
    """

    family: Family
    scale: float
    variance: float

    @classmethod
    def of(cls, model: str | None) -> "Estimator":
        """Return the estimator of a new session with this model."""
        family = tokenizer_of(model)
        return cls(family, 1.0, family.doubt**2)

    def tokens(self, features: Features) -> int:
        """Return the estimate; never below 0."""
        return max(0, features.fixed + round(features.text * self._per_weight))

    def observe(self, added: Features, actual: object) -> "Estimator":
        """Learn that content with the features ``added`` had ``actual`` tokens.

        For a session's first reply that is the whole prompt; later, its growth, if nothing was removed. Sizes that are
        not positive, or that are beyond a third or three times the estimate, are ignored.
        """
        if not self.believes(added, actual) or added.text <= 0:
            return self
        assert isinstance(actual, int)
        expected_once = added.text * self.family.scale / 1000
        expected = expected_once * self.scale
        noise = (_NOISE * expected) ** 2 + (_NOISE_TOKENS * self.family.scale) ** 2
        variance = self.variance + _DRIFT**2
        deviation = sqrt(expected_once**2 * variance + noise)
        deviation_seen = actual - added.fixed - expected
        deviation_seen = max(-_FARTHEST * deviation, min(_FARTHEST * deviation, deviation_seen))
        gain = variance * expected_once / deviation**2
        scale = max(_LEAST, min(_MOST, self.scale + gain * deviation_seen))
        return Estimator(self.family, scale, variance * (1 - gain * expected_once))

    def at(self, scale: Fraction) -> "Estimator":
        """Return the estimator for a provider that counts ``scale`` tokens for each estimated one, within bounds."""
        return attrs.evolve(self, scale=max(_LEAST, min(_MOST, float(self.scale * scale))))

    def prompt(self, anchor: "MeasuredPrompt | None", added: Features, removed: Features = Features()) -> int:
        """Estimate a prompt that is the anchor's with something added and something removed; negative parts of
        ``added`` count as removed.

        Removed content was part of the anchor, so its size is a share of the anchor's exact size. Without an anchor, or
        if its total is not credible, the whole is estimated.
        """
        if anchor is None:
            return self.tokens(added)
        known, total = anchor.features, anchor.total
        if not self.believes(known, total):
            total = self.tokens(known)
        own = (total - known.fixed) / (known.text * self._per_weight) if known.text > 0 else 1.0
        removed_weight = (removed.text - min(0, added.text)) * max(_LEAST, min(_MOST, own))
        text = round((max(0, added.text) - removed_weight) * self._per_weight)
        return max(0, total + added.fixed - removed.fixed + text)

    def believes(self, features: Features, actual: object) -> bool:
        """Return whether a count of tokens is credible for these features."""
        if type(actual) is not int or actual <= 0:
            return False
        estimate = max(1, self.tokens(features))
        return estimate <= actual * CREDIBLE and actual <= estimate * CREDIBLE

    @cached_property
    def _per_weight(self) -> float:
        return self.family.scale * self.scale / 1000


@attrs.frozen
class MeasuredPrompt:
    """A prompt of exact size: ``total`` is the sum of input, cache writes and reads in its reply's ``usage``;
    ``features`` are those of its whole content.
    """

    total: int
    features: Features


def apportion(total: int, estimates: Sequence[int | Fraction]) -> tuple[int, ...]:
    """Divide the exact size of a turn among its blocks in proportion to their estimates; the parts add up exactly."""
    whole = sum(estimates)
    if total <= 0 or whole <= 0:
        return tuple(map(int, estimates))
    bounds = [0, *(int(total * reached // whole) for reached in accumulate(estimates))]
    return tuple(end - start for start, end in pairwise(bounds))

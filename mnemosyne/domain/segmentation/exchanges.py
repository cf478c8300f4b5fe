"""A call with its results, and what every reader of one says of failures and answers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.objects.full_text import exchange_parts
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation import outcomes, shell
from mnemosyne.domain.text.parts import TextPart, join
from mnemosyne.domain.text.stubs import amount, plain, render_count, shorten, stub, test_counts
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.blocks import Block

_FOUND = re.compile(r"\A(?:Found (\d+) (files?|matches|match)|No (?:files|matches) found)")


@attrs.frozen
class ToolExchange:
    """A call with its results. ``said`` is the text of the results, ``failed`` what they say of themselves."""

    name: str
    input: Mapping[str, Any]
    said: str
    failed: bool
    parts: tuple[TextPart, ...]
    attached: tuple[str, ...]

    @property
    def text(self) -> str:
        """What was asked and what was answered."""
        return join(self.parts)

    def string(self, *names: str) -> str:
        """The first of these inputs that is a text."""
        return next((str(self.input[name]) for name in names if isinstance(self.input.get(name), str)), "")


def exchange_of(call: Block | None, results: Sequence[Block]) -> ToolExchange:
    parts = exchange_parts(call, results)
    given = call.get("input") if call is not None else None
    return ToolExchange(
        name=parts[-1].tool or "Result",
        input=given if isinstance(given, Mapping) else {},
        said=parts[-1].text,
        failed=any(map(blocks.has_failed, results)),
        parts=parts,
        attached=tuple(said for each in results for said in blocks.attachments(each)),
    )


def failures_of(key: str | None) -> str:
    """The group of small failures of one source."""
    return f"error {key}"


def failure(
    exchange: ToolExchange,
    key: str | None,
    *,
    asked: str | None = None,
    tags: tuple[str, ...] = (),
    alone: bool = False,
) -> Description:
    """What a failed call is about; it is told as ``asked``, else by its ``key``."""
    counts = test_counts(exchange.said)
    told = "" if counts else plain(outcomes.find_failure(exchange.said), 70)
    asked = shorten(asked or key or "", 140)
    what = asked if asked.startswith(exchange.name) else f"{exchange.name} {asked}".strip()
    return Description(
        kind=ObjectKind.ERROR_CONTEXT,
        tool=exchange.name,
        key=key,
        tags=("error", *tags),
        group=failures_of(key),
        alone=alone,
        stub=stub(f"{what} failed: {told}" if told else f"{what} failed", counts, amount(len(exchange.said))),
        text=exchange.text,
    )


def render_answered(what: str, exchange: ToolExchange) -> str:
    """The stub of an answer: what was asked, and what came of it."""
    if not exchange.said.strip():
        return stub(f"{what}: no output")
    found = _FOUND.match(exchange.said)
    if found is not None:
        return stub(what, f"{found[1]} {found[2]}") if found[1] else stub(f"{what}: {found[0].lower()}")
    if len(exchange.said) <= 60 and "\n" not in exchange.said.strip():
        return stub(f"{what}: {plain(exchange.said, 60)}")
    size = "" if len(exchange.said) < 200 else amount(len(exchange.said))
    return stub(what, test_counts(exchange.said), render_count(lines_in(exchange.said), "line"), size)


def lines_in(text: str) -> int:
    return text.count("\n") + bool(text and not text.endswith("\n"))


def any_answer(exchange: ToolExchange) -> Description:
    """The answer of a call of which nothing more is known."""
    key = f"{exchange.name} {shell.key_of(blocks.as_json(dict(exchange.input)))}" if exchange.input else None
    asked = f"{exchange.name} {_short_ones_first(exchange.input)}" if exchange.input else exchange.name
    if exchange.failed or outcomes.says_error(exchange.said):
        return failure(exchange, key, asked=asked)
    return Description(
        kind=ObjectKind.TOOL_RESULT,
        tool=exchange.name,
        key=key,
        group=ObjectKind.TOOL_RESULT.value,
        stub=render_answered(plain(asked, 90) + _quote_first(exchange), exchange),
        text=exchange.text,
    )


_SAYS_SOMETHING = re.compile(r"[^\W\d_]{5}")
_CHEAP = re.compile(r"\s*(?:</?[\w-]{1,40}>|[\W_]|\[Tool: |-{3} )")
_LONG_ENOUGH_TO_ASK = 1_500
"""Characters from which on an answer is told by more than its call, where that says nothing."""


def _quote_first(exchange: ToolExchange) -> str:
    """The first sentence of a long answer, where the values of the call name nothing: a number, yes, an id."""
    values = [each for each in exchange.input.values() if isinstance(each, str)]
    if len(exchange.said) < _LONG_ENOUGH_TO_ASK or any(map(_SAYS_SOMETHING.search, values)):
        return ""
    lines = (line.strip() for line in exchange.said[:20_000].split("\n"))
    first = next((line for line in lines if len(line) > 30 and not _CHEAP.match(line)), "")
    return f": {plain(first, 100)}" if first else ""


_SHORT = 40
"""Characters of an argument that names something; a longer one, a list or an object is what is done with it."""


def _short_ones_first(given: Mapping[str, Any]) -> str:
    """The arguments of a call, first those that name something: what tells it from others of its tool."""
    long = {name: value for name, value in given.items() if len(blocks.as_json(value)) > _SHORT}
    short = {name: value for name, value in given.items() if name not in long}
    said = (
        blocks.as_json(short)[:-1] + ", " + blocks.as_json(long)[1:] if short and long else blocks.as_json(dict(given))
    )
    return " ".join(said.split())

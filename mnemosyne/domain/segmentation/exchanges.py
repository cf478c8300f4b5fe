"""A call with its results, and descriptions of failures and answers that all readers share."""

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
    """A call with its results. ``answer`` is the text of the results, ``failed`` whether a result reports a failure."""

    name: str
    input: Mapping[str, Any]
    answer: str
    failed: bool
    parts: tuple[TextPart, ...]
    attached: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text of the call and its results."""
        return join(self.parts)

    def string(self, *names: str) -> str:
        """Return the first of these inputs that is a string."""
        return next((str(self.input[name]) for name in names if isinstance(self.input.get(name), str)), "")


def exchange_of(call: Block | None, results: Sequence[Block]) -> ToolExchange:
    parts = exchange_parts(call, results)
    given = call.get("input") if call is not None else None
    if isinstance(given, str) and (command := shell.find_in_script(given)) is not None:
        given = {"cmd": command}
    return ToolExchange(
        name=parts[-1].tool or "Result",
        input=given if isinstance(given, Mapping) else {},
        answer=parts[-1].text,
        failed=any(map(blocks.has_failed, results)),
        parts=parts,
        attached=tuple(attachment for result in results for attachment in blocks.attachments(result)),
    )


def describe_exchange(
    exchange: ToolExchange,
    kind: ObjectKind,
    stub: str,
    *,
    key: str | None = None,
    tags: tuple[str, ...] = (),
    group: str | None = None,
    alone: bool = False,
) -> Description:
    """Describe an exchange. Small ones of a ``group``, by default of their kind, are merged."""
    return Description(
        kind=kind,
        tool=exchange.name,
        key=key,
        tags=tags,
        group=group or kind.value,
        alone=alone,
        stub=stub,
        text=exchange.text,
    )


def failures_of(key: str | None) -> str:
    """Return the group of small failures of one source."""
    return f"error {key}"


def failure(
    exchange: ToolExchange,
    key: str | None,
    *,
    asked: str | None = None,
    tags: tuple[str, ...] = (),
    alone: bool = False,
) -> Description:
    """Describe a failed call, by ``asked`` or else by its ``key``."""
    counts = test_counts(exchange.answer)
    reason = "" if counts else plain(outcomes.find_failure(exchange.answer), 70)
    asked = shorten(asked or key or "", 140)
    what = asked if asked.startswith(exchange.name) else f"{exchange.name} {asked}".strip()
    line = stub(f"{what} failed: {reason}" if reason else f"{what} failed", counts, amount(len(exchange.answer)))
    return describe_exchange(
        exchange, ObjectKind.ERROR_CONTEXT, line, key=key, tags=("error", *tags), group=failures_of(key), alone=alone
    )


def render_answered(what: str, exchange: ToolExchange) -> str:
    """Return the stub of an answer: the call, and its outcome."""
    if not exchange.answer.strip():
        return stub(f"{what}: no output")
    match = _FOUND.match(exchange.answer)
    if match is not None:
        return stub(what, f"{match[1]} {match[2]}") if match[1] else stub(f"{what}: {match[0].lower()}")
    if len(exchange.answer) <= 60 and "\n" not in exchange.answer.strip():
        return stub(f"{what}: {plain(exchange.answer, 60)}")
    size = "" if len(exchange.answer) < 200 else amount(len(exchange.answer))
    return stub(what, test_counts(exchange.answer), render_count(lines_in(exchange.answer), "line"), size)


def lines_in(text: str) -> int:
    return text.count("\n") + bool(text and not text.endswith("\n"))


def any_answer(exchange: ToolExchange) -> Description:
    """Describe the answer of an unknown tool."""
    key = f"{exchange.name} {shell.key_of(blocks.as_json(dict(exchange.input)))}" if exchange.input else None
    asked = f"{exchange.name} {_short_ones_first(exchange.input)}" if exchange.input else exchange.name
    if exchange.failed or outcomes.says_error(exchange.answer):
        return failure(exchange, key, asked=asked)
    return describe_exchange(exchange, ObjectKind.TOOL_RESULT, render_answered(plain(asked, 90), exchange), key=key)


_SHORT = 40
"""The maximum length of an argument that names something, in characters; longer ones, lists and objects are data."""


def _short_ones_first(given: Mapping[str, Any]) -> str:
    """Write the arguments of a call, short ones first: they distinguish the call from others of its tool."""
    long = {name: value for name, value in given.items() if len(blocks.as_json(value)) > _SHORT}
    short = {name: value for name, value in given.items() if name not in long}
    text = (
        blocks.as_json(short)[:-1] + ", " + blocks.as_json(long)[1:] if short and long else blocks.as_json(dict(given))
    )
    return " ".join(text.split())

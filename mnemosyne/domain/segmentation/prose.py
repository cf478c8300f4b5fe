"""Describe text outside of tool calls: prompts, answers and the client's own notes.

No wording makes a text a decision or a plan. Those kinds come from the tools that ask the user or list steps.
"""

import re
from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.kinds import NOTE, ObjectKind
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.text.parts import PartRole, TextPart
from mnemosyne.domain.text.stubs import amount, plain, stub
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.client_texts import InsertedText, find_inserted

GROUP = "prose"

_LOOKED_AT = 6_000

_TAG = re.compile(r"</?[\w-]+>")


def describe(role: str, block: Mapping[str, Any]) -> Description:
    """Describe a block that is neither a call nor a result."""
    described = _describe(role, block)
    by_user = role == "user" and NOTE not in described.tags
    part = TextPart(PartRole.USER if by_user else PartRole.ASSISTANT, described.text)
    return attrs.evolve(described, parts=(part,))


def _describe(role: str, block: Mapping[str, Any]) -> Description:
    text = blocks.text_of(block)
    if role == "user":
        return _describe_inserted(text, find_inserted(text)) or _prompt(text, block)
    if role != "assistant":  # system, or another dialect's name for it
        return _operators(text, (NOTE, "system"), "System message")
    if blocks.is_provider_summary(block):
        return _phase(text, ("summary",), _quote("Summary", text), alone=True)
    return _phase(text, (), _quote("Assistant", text))


def describe_inserted(text: str) -> Description:
    """Describe a text of the client's: a reminder, or the file that a command or skill names."""
    return _operators(text, (NOTE,), "Client's note")


def describe_attached(text: str) -> Description:
    """Describe a text that was attached to a prompt: a file, a web page, a tool's output."""
    line = _quote("Attached", text[:_LOOKED_AT], of=len(text))
    return Description(kind=ObjectKind.TOOL_RESULT, tags=("attached",), group="attached", stub=line, text=text)


def thoughts() -> Description:
    """Describe thinking that is the last block of its message."""
    return _phase("", (), "Thinking")


def _operators(text: str, tags: tuple[str, ...], name: str) -> Description:
    line = _quote(name, _TAG.sub(" ", text[:_LOOKED_AT]))
    return Description(kind=ObjectKind.CONVERSATION_PHASE, tags=tags, group=tags[-1], stub=line, text=text)


def _describe_inserted(text: str, inserted: InsertedText | None) -> Description | None:
    """Describe a text that a client inserted; None if it did not."""
    unmarked = _TAG.sub(" ", text[:_LOOKED_AT]) if inserted is not None else ""
    match inserted:
        case None:
            return None
        case InsertedText.OUTPUT:
            line = _quote("Output of the user's command", unmarked)
            return Description(
                kind=ObjectKind.CONVERSATION_PHASE, tags=("output",), group="output", stub=line, text=text
            )
        case InsertedText.REPORT:
            line = _quote("Agent's report", unmarked)
            return Description(kind=ObjectKind.TOOL_RESULT, tags=("agent",), group="report", stub=line, text=text)
        case InsertedText.SUMMARY:
            return _phase(text, ("summary", "user"), _quote("Summary of what came before", text), alone=True)
        case InsertedText.NOTE | InsertedText.COMMAND | InsertedText.SKILL:
            return describe_inserted(text)


def _prompt(text: str, block: Mapping[str, Any]) -> Description:
    line = _quote("User", text)
    tags = ("user", *(blocks.type_of(block) for _ in blocks.attachments(block)))
    return _phase(text, tags, line)


def _phase(text: str, tags: tuple[str, ...], line: str, *, alone: bool = False) -> Description:
    return Description(kind=ObjectKind.CONVERSATION_PHASE, tags=tags, group=GROUP, alone=alone, stub=line, text=text)


def _quote(label: str, text: str, *, of: int = 0) -> str:
    """Quote a text by its beginning.

    ``of`` is the size of the whole if the text is a part of it. Code blocks and drawn lines are left out.
    """
    size = max(of, len(text))
    shown = _SHOWN.sub("…", text[:_LOOKED_AT])
    quoted = f"{label}: {plain(shown if shown.strip(' …') else text, _QUOTED)}"
    return stub(quoted, amount(size) if size > _QUOTED else "")


_SHOWN = re.compile(
    r"^[^\S\n]{0,8}(?:```.*?(?:^[^\S\n]{0,8}```|\Z)|-{3,200}$)|[\u2500-\u257f]{2,}", re.DOTALL | re.MULTILINE
)
"""Code between fences, ruled lines and boxes."""


_QUOTED = 170
"""How many characters of a text are quoted."""

"""Describe text outside of tool calls: prompts, answers, the client's own notes, decisions and plans."""

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
_DECISION_BY_ASSISTANT = re.compile(
    r"\b(?:(?:I|we)(?:'ve| have)? decided (?:to|on|that|against)|(?:we|I)(?:'ll| will) go with |"
    r"the decision (?:is|was) to |going with (?:option|approach) |(?:design )?decision: )",
    re.IGNORECASE,
)
_DECIDES = ("decided ", "go with ", "going with ", "decision")
_SENTENCE_END = re.compile(r"[.!?:]\s+|\n\s*")
_DIRECTIVE = re.compile(
    r"\A\W*+(?:ok(?:ay)?|yes|yeah|no|right|good|hm+|so)?\W{0,3}\s*(?:I think |I'd like to |actually,? )?"
    r"(?:(?:let'?s|I'll) (?:go with|use|keep|store|do option|stick (?:with|to)|not )|"
    r"we(?:'ll| will| should) (?:go with|use|keep|not )|"
    r"(?:use|keep|prefer) \w+ (?:instead|rather)|(?:always|never) (?!mind)\w+ )",
    re.IGNORECASE,
)
_PLAN_TITLE = re.compile(
    r"^#{1,4} .{0,60}\b[Pp]lan\b|^\*\*.{0,40}\b[Pp]lan\b.{0,20}\*\*|\bImplement the following plan:", re.MULTILINE
)
_STEP = re.compile(r"^\s{0,3}(?:\d{1,2}[.)]|#{2,4} (?:Step|Phase|Part)? ?\d{1,2}|- \[[ x]\]) ", re.MULTILINE)


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
    return _answer(text)


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
    kind = ObjectKind.PLAN if _is_plan(text) else ObjectKind.DESIGN_DECISION if _DIRECTIVE.match(text[:200]) else None
    line = _quote("User", _with_question(text), of=len(text))
    tags = ("user", *(blocks.type_of(block) for _ in blocks.attachments(block)))
    if kind is None:
        return _phase(text, tags, line)
    return Description(kind=kind, tags=tags, group=kind.value, alone=True, stub=line, text=text)


def _answer(text: str) -> Description:
    if _is_plan(text):
        return _describe_settled(ObjectKind.PLAN, _quote("Plan", text), text)
    decision = _decision(text[:_LOOKED_AT])
    if decision is not None:
        begins_at = _sentence_of(text, decision)
        known_by = plain(text[:begins_at], _BEGINS)
        line = _quote("Decision", text[begins_at:], of=len(text), known_by=known_by)
        return _describe_settled(ObjectKind.DESIGN_DECISION, line, text)
    return _phase(text, (), _quote("Assistant", text))


def _decision(text: str) -> int | None:
    """Return where an assistant decides something, or None; most answers lack the words for it, which is
    checked first.
    """
    folded = text.casefold()
    if not any(phrase in folded for phrase in _DECIDES):
        return None
    match = _DECISION_BY_ASSISTANT.search(text)
    return match.start() if match is not None else None


def _describe_settled(kind: ObjectKind, line: str, text: str) -> Description:
    return Description(kind=kind, group=kind.value, alone=True, stub=line, text=text)


def _sentence_of(text: str, place: int) -> int:
    """Return where the sentence at a position of a text begins."""
    return max((end.end() for end in _SENTENCE_END.finditer(text, 0, place)), default=0)


def _is_plan(text: str) -> bool:
    looked_at = text[:_LOOKED_AT]
    return "lan" in looked_at and _PLAN_TITLE.search(looked_at) is not None and len(_STEP.findall(looked_at)) >= 3


def _phase(text: str, tags: tuple[str, ...], line: str, *, alone: bool = False) -> Description:
    return Description(kind=ObjectKind.CONVERSATION_PHASE, tags=tags, group=GROUP, alone=alone, stub=line, text=text)


def _quote(label: str, text: str, *, of: int = 0, known_by: str = "") -> str:
    """Quote a text by its beginning.

    ``of`` is the size of the whole if the text is a part of it, and ``known_by`` another quotation. Code blocks and
    drawn lines are left out.
    """
    size = max(of, len(text))
    shown = _SHOWN.sub("…", text[:_LOOKED_AT])
    quoted = f"{label}: {plain(shown if shown.strip(' …') else text, _QUOTED)}"
    begins = f"; it begins: {known_by}" if known_by else ""
    return stub(quoted + begins, amount(size) if size > _QUOTED else "")


_SHOWN = re.compile(
    r"^[^\S\n]{0,8}(?:```.*?(?:^[^\S\n]{0,8}```|\Z)|-{3,200}$)|[\u2500-\u257f]{2,}", re.DOTALL | re.MULTILINE
)
"""Code between fences, ruled lines and boxes."""


def _with_question(text: str) -> str:
    """Shorten a prompt for quoting: a long one keeps its beginning and the first question after it."""
    shown = plain(text[:_LOOKED_AT], _LOOKED_AT)
    later_question = next((match for match in _QUESTION.finditer(shown) if match.end() > _QUOTED), None)
    if later_question is None:
        return text
    question = plain(later_question[1], _QUOTED // 2)
    return f"{plain(shown[: later_question.start(1)], _QUOTED - len(question) - 1)} {question}"


_QUESTION = re.compile(r"(?:\A|(?<=[.!?:]\s))([^.!?:]{8,400}\?)(?=\s|\Z)")

_QUOTED = 170
"""How many characters of a text are quoted."""

_BEGINS = 80
"""How many characters of the beginning are quoted in addition to a later sentence."""

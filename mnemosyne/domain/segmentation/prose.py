"""What is said outside of tools: prompts, answers, the client's own wrapping, decisions and plans."""

import re
from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.kinds import NOTE, ObjectKind
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.text.parts import TextPart, Voice
from mnemosyne.domain.text.stubs import amount, plain, stub
from mnemosyne.domain.wire import blocks

GROUP = "prose"

_LOOKED_AT = 6_000

_WRAPPING = re.compile(
    r"\A\s*(?:<(?:system-reminder|available-deferred-tools|local-command-caveat|command-(?:name|message|args)|bash-input|"
    r"user-prompt-submit-hook|environment_details|env|"
    # Codex 0.171.0
    r"environment_context|turn_aborted|subagent_notification|user_shell_command|recommended_plugins|model_switch)\b|"
    r"# AGENTS\.md instructions for |\[Request interrupted by user|Caveat: The messages below|"
    r"Continue if you have next steps|x-anthropic-billing-header)",
    re.IGNORECASE,
)
_REMINDER = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)
_OUTPUT = re.compile(r"\A\s*<(?:local-command|bash)-(?:stdout|stderr)\b", re.IGNORECASE)
_TAG = re.compile(r"</?[\w-]+>")
_REPORT = re.compile(r"\A\s*<task-notification\b", re.IGNORECASE)
_SUMMARY = re.compile(
    r"\A\s*(?:This\s+session is being continued from a previous conversation|What did we do so far\?)", re.IGNORECASE
)
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
    """What a block outside of calls and their results is about."""
    described = _describe(role, block)
    by_user = role == "user" and NOTE not in described.tags
    part = TextPart(Voice.USER if by_user else Voice.ASSISTANT, described.text)
    return attrs.evolve(described, parts=(part,))


def _describe(role: str, block: Mapping[str, Any]) -> Description:
    text = blocks.text_of(block)
    if role == "user":
        if _WRAPPING.match(text):
            return _operators(text, (NOTE,), "Client's note")
        return _output(text) if _OUTPUT.match(text) else _prompt(text, block)
    if role != "assistant":  # system, and whatever another dialect calls the operator
        return _operators(text, (NOTE, "system"), "System message")
    if blocks.is_provider_summary(block):
        return _phase(text, ("summary",), _quote("Summary", text), alone=True)
    return _answer(text)


_SKILL = re.compile(r"\A\s*Base directory for this skill:", re.IGNORECASE)


def is_clients(text: str) -> bool:
    """Whether a text under the user's role is the client's: a note, a command's output, a report or a summary."""
    return any(pattern.match(text) for pattern in (_WRAPPING, _OUTPUT, _REPORT, _SUMMARY, _SKILL))


def is_reminder(role: str, text: str) -> bool:
    """Whether a text is a reminder, which a client repeats as it sees fit: a message of the system's, or a note that
    says that it is one.
    """
    return role not in ("user", "assistant") or (role == "user" and _REMINDER.fullmatch(text) is not None)


def describe_attached(text: str) -> Description:
    """A text under the user's role that came with what they typed: a file, a page, what a tool brought."""
    said = _quote("Attached", text[:_LOOKED_AT], of=len(text))
    return Description(kind=ObjectKind.TOOL_RESULT, tags=("attached",), group="attached", stub=said, text=text)


def thoughts() -> Description:
    """Thinking that nothing follows in its message."""
    return _phase("", (), "Thinking")


def _operators(text: str, tags: tuple[str, ...], name: str) -> Description:
    said = _quote(name, _TAG.sub(" ", text[:_LOOKED_AT]))
    return Description(kind=ObjectKind.CONVERSATION_PHASE, tags=tags, group=tags[-1], stub=said, text=text)


def _output(text: str) -> Description:
    """What a command printed that the user ran without the agent."""
    said = _quote("Output of the user's command", _TAG.sub(" ", text[:_LOOKED_AT]))
    return Description(kind=ObjectKind.CONVERSATION_PHASE, tags=("output",), group="output", stub=said, text=text)


def _prompt(text: str, block: Mapping[str, Any]) -> Description:
    if _REPORT.match(text):
        said = _quote("Agent's report", _TAG.sub(" ", text[:_LOOKED_AT]))
        return Description(kind=ObjectKind.TOOL_RESULT, tags=("agent",), group="report", stub=said, text=text)
    if _SUMMARY.match(text):
        return _phase(text, ("summary", "user"), _quote("Summary of what came before", text), alone=True)
    kind = ObjectKind.PLAN if _is_plan(text) else ObjectKind.DESIGN_DECISION if _DIRECTIVE.match(text[:200]) else None
    said = _quote("User", _with_question(text), of=len(text))
    tags = ("user", *(blocks.type_of(block) for _ in blocks.attachments(block)))
    if kind is None:
        return _phase(text, tags, said)
    return Description(kind=kind, tags=tags, group=kind.value, alone=True, stub=said, text=text)


def _answer(text: str) -> Description:
    if _is_plan(text):
        return _describe_settled(ObjectKind.PLAN, _quote("Plan", text), text)
    decision = _decision(text[:_LOOKED_AT])
    if decision is not None:
        begins_at = _sentence_of(text, decision)
        known_by = plain(text[:begins_at], _BEGINS)
        said = _quote("Decision", text[begins_at:], of=len(text), known_by=known_by)
        return _describe_settled(ObjectKind.DESIGN_DECISION, said, text)
    return _phase(text, (), _quote("Assistant", text))


def _decision(text: str) -> int | None:
    """Where an assistant decides something; most answers do not have the words for it, which is quickly seen."""
    folded = text.casefold()
    if not any(each in folded for each in _DECIDES):
        return None
    found = _DECISION_BY_ASSISTANT.search(text)
    return found.start() if found is not None else None


def _describe_settled(kind: ObjectKind, said: str, text: str) -> Description:
    return Description(kind=kind, group=kind.value, alone=True, stub=said, text=text)


def _sentence_of(text: str, place: int) -> int:
    """Where the sentence begins that stands at a place of a text."""
    return max((end.end() for end in _SENTENCE_END.finditer(text, 0, place)), default=0)


def _is_plan(text: str) -> bool:
    looked_at = text[:_LOOKED_AT]
    return "lan" in looked_at and _PLAN_TITLE.search(looked_at) is not None and len(_STEP.findall(looked_at)) >= 3


def _phase(text: str, tags: tuple[str, ...], said: str, *, alone: bool = False) -> Description:
    return Description(kind=ObjectKind.CONVERSATION_PHASE, tags=tags, group=GROUP, alone=alone, stub=said, text=text)


def _quote(who: str, text: str, *, of: int = 0, known_by: str = "") -> str:
    """A text by its beginning, which may be that of a part of something ``of`` so many characters, and ``known_by``
    other words, too. Code that it shows and lines that are drawn say nothing of it.
    """
    size = max(of, len(text))
    said = _SHOWN.sub("…", text[:_LOOKED_AT])
    quoted = f"{who}: {plain(said if said.strip(' …') else text, _QUOTED)}"
    begins = f"; it begins: {known_by}" if known_by else ""
    return stub(quoted + begins, amount(size) if size > _QUOTED else "")


_SHOWN = re.compile(
    r"^[^\S\n]{0,8}(?:```.*?(?:^[^\S\n]{0,8}```|\Z)|-{3,200}$)|[\u2500-\u257f]{2,}", re.DOTALL | re.MULTILINE
)
"""Code between fences, ruled lines and boxes."""


def _with_question(text: str) -> str:
    """What a user typed as it is quoted: of a long one the beginning and the first question behind it."""
    shown = plain(text[:_LOOKED_AT], _LOOKED_AT)
    asked = next((each for each in _QUESTION.finditer(shown) if each.end() > _QUOTED), None)
    if asked is None:
        return text
    question = plain(asked[1], _QUOTED // 2)
    return f"{plain(shown[: asked.start(1)], _QUOTED - len(question) - 1)} {question}"


_QUESTION = re.compile(r"(?:\A|(?<=[.!?:]\s))([^.!?:]{8,400}\?)(?=\s|\Z)")

_QUOTED = 170
"""Characters by which a text is known."""

_BEGINS = 80
"""Characters of a beginning by which a text is known that is told by what stands further behind."""

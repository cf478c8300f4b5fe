"""The task that shortens an object's content: an L1, or the L2 below an L1.

Without a helper model, the extractor's L1 is used (``summaries.forms.extract``), and there is no L2.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.helper.background import BackgroundTask, Effect, HelperOrder, Signed
from mnemosyne.domain.helper.model import HelperPrompt
from mnemosyne.domain.helper.task import Accepted, HelperTask, Rejected, list_strings, write_prompt
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.objects.work import DeferredSummary
from mnemosyne.domain.summaries.forms import measure_losses, request_of
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest, find_fault
from mnemosyne.domain.text.parts import TextPart, join

LONGEST = 300_000
"""Maximum length in characters of a text to summarize: a summary of a longer one is not worth its price."""

_DECLARED = ("dropped", "can_answer", "fault_when", "key_entities")
_MOST_PHRASES, _LONGEST_PHRASE = 16, 160
_DECLARED_TOKENS = 1_000
"""Tokens of an answer for everything except the summary."""

_PHRASES = {"type": "array", "items": {"type": "string"}}
PROPERTIES: Mapping[str, Any] = {"summary": {"type": "string"}, **dict.fromkeys(_DECLARED, _PHRASES)}

_INSTRUCTIONS = """\
You compress what a coding agent has read, so that it can go on without the original. You answer with one JSON object \
and nothing else: {"summary": string, "dropped": [string], "can_answer": [string], "fault_when": [string], \
"key_entities": [string]}.

summary: in the source's language, at most the given number of characters. Keep file paths, names of functions, \
variables and libraries, error messages, versions, decisions with their reasons, and values that may be needed later, \
letter by letter as they stand. Never write a path, name, number or quotation that is not in the source; do not count \
or calculate.
dropped: what you left out, precisely ("the bodies of the three helpers", not "some details").
can_answer: which questions the summary answers without the original.
fault_when: what would need the original.
key_entities: the paths, names and libraries that the source is about.
Each list has at most 8 short phrases."""


@attrs.frozen(kw_only=True)
class SummaryInputs:
    """A missing rendition, the ``parts`` of the object's full text, and its L1 if the L2 is missing."""

    deferred: DeferredSummary
    parts: tuple[TextPart, ...] = attrs.field(repr=False)
    detailed: str | None = attrs.field(default=None, repr=False)

    @property
    def full(self) -> str:
        """The object's full text."""
        return join(self.parts)

    @property
    def request(self) -> RenditionRequest:
        """The request that a text must satisfy."""
        return request_of(self.deferred, self.full, self.parts)


def order_summary(deferred: DeferredSummary) -> HelperOrder:
    """The order for a missing rendition."""
    texts = {} if deferred.detailed is None else {"detailed": deferred.detailed}
    return HelperOrder(
        task=SUMMARIZE.task.name,
        subject=deferred.object,
        about=deferred,
        contents={"full": deferred.content},
        texts=texts,
    )


def _gather(order: HelperOrder, found: Mapping[str, bytes]) -> SummaryInputs | None:
    deferred: DeferredSummary = order.about
    detailed = found["detailed"].decode() if "detailed" in found else None
    parts = full_parts(found["full"], deferred.by_user)
    inputs = SummaryInputs(deferred=deferred, parts=parts, detailed=detailed)
    return inputs if inputs.full.strip() and len(inputs.full) <= LONGEST else None


def _prompt(inputs: SummaryInputs) -> HelperPrompt:
    request = inputs.request
    asked = {
        "kind": request.kind.value,
        "tool": request.source_tool,
        "about": request.source_key,
        "summary_at_most_characters": request.target_chars,
    }
    return write_prompt(
        _INSTRUCTIONS,
        asked,
        [("source", request.text)],
        properties=PROPERTIES,
        most_tokens=request.target_chars // 2 + _DECLARED_TOKENS,
    )


def _verify(inputs: SummaryInputs, answer: Mapping[str, Any]) -> Accepted[ProposedRendition] | Rejected:
    lists = {name: list_strings(answer.get(name), _MOST_PHRASES, _LONGEST_PHRASE) for name in _DECLARED}
    summary = answer.get("summary")
    if not isinstance(summary, str) or None in lists.values():
        return Rejected(("its answer does not match the schema",))
    declared = Declared(**{name: tuple(phrases or ()) for name, phrases in lists.items()})
    candidate = ProposedRendition(summary, declared)
    fault = find_fault(inputs.request, candidate)
    return Accepted(candidate, answer) if fault is None else Rejected((fault,))


def _apply(order: HelperOrder, inputs: SummaryInputs, signed: Signed) -> Effect:
    deferred: DeferredSummary = order.about
    written = measure_losses(deferred, inputs.full, inputs.detailed, signed.result, helper=signed.helper, nanodollars=0)
    command = written.command(deferred, signed.at)
    return Effect(commands=(command,), contents=((command.text, written.text.encode()),))


SUMMARIZE = BackgroundTask(
    task=HelperTask(name="summarize", version=1, properties=PROPERTIES, prompt=_prompt, verify=_verify),
    gather=_gather,
    apply=_apply,
)

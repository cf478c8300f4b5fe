"""The tasks that write an object's L1, and its L2 from the L1.

Without a helper model, the extractor's L1 is used (``summaries.forms.extract``), and there is no L2: the next
form below an L1 is the stub.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.helper.background import BackgroundTask, Effect, HelperOrder, Signed
from mnemosyne.domain.helper.model import STRING, HelperPrompt, list_of
from mnemosyne.domain.helper.task import Accepted, Rejected, list_strings, write_prompt
from mnemosyne.domain.objects.aggregate import SHARE
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.work import DeferredSummary
from mnemosyne.domain.summaries.forms import measure_losses, request_of
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest, drop_inventions, find_fault
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.text.parts import PartRole, TextPart, join
from mnemosyne.domain.text.stubs import render_count

LONGEST = 300_000
"""Maximum length in characters of a text to summarize: a summary of a longer one is not worth its price."""

LONGEST_SENT = 24_000
"""Maximum number of characters of a text that a model reads, about 8,000 tokens: its beginning and its end."""

_DECLARED = ("dropped", "can_answer", "fault_when", "key_entities")
_MOST_PHRASES, _LONGEST_PHRASE = 16, 160
_DECLARED_TOKENS = 1_000
"""Tokens of an answer for everything except the summary."""

PROPERTIES: Mapping[str, Any] = {"summary": STRING, **dict.fromkeys(_DECLARED, list_of(STRING))}

_EXAMPLE = "the bodies of the three helpers"

_RULES = f"""\
Reply with one JSON object and nothing else: {{"summary": string, "dropped": [string], "can_answer": [string], \
"fault_when": [string], "key_entities": [string]}}.

summary: plain sentences in the source's language, at most the given number of characters. Copy file paths, names of \
functions, variables and libraries, error messages, versions and values exactly. Never write a path, name, \
number or quotation that is not in the source; do not count or calculate. Do not mention these instructions.
dropped: what you left out, precisely ("{_EXAMPLE}", not "some details").
can_answer: the questions that the summary alone answers, and only those.
fault_when: what the original would be needed for.
key_entities: the paths, names and libraries that the source is about.
Each list has at most 8 short phrases, and may be empty."""

_INSTRUCTIONS = f"""\
You summarize what a coding agent has read or written, so that it can continue without the original. Keep decisions \
with their reasons, results, and what is still to do, before anything else.
{_RULES}"""

_SHORTER = f"""\
You shorten a summary of what a coding agent has read or written to its most useful facts: what it was about, what \
resulted from it, what was decided. Write at least one whole sentence. The names in the original are listed; use only \
those that matter.
{_RULES}"""

_NAMES = 40
"""Maximum number of names in the original that are listed for an L2."""


@attrs.frozen(kw_only=True)
class SummaryInputs:
    """A missing rendition, the ``parts`` of the object's full text, and its L1 if the L2 is missing."""

    deferred: DeferredSummary
    parts: tuple[TextPart, ...] = attrs.field(repr=False)
    detailed: str | None = attrs.field(default=None, repr=False)

    @property
    def full(self) -> str:
        """The text to shorten: the object's full text without the user's words, which a window shows in full."""
        return join([part for part in self.parts if part.role is not PartRole.USER] or self.parts)

    @property
    def sent(self) -> str:
        """The part of it that the model reads."""
        full = self.full
        if len(full) <= LONGEST_SENT:
            return full
        first, last = full[: LONGEST_SENT * 2 // 3], full[-LONGEST_SENT // 3 :]
        return "\n".join((first.rpartition("\n")[0] or first, "⋯", last.partition("\n")[2] or last))

    @property
    def request(self) -> RenditionRequest:
        """The request that a text must satisfy."""
        request = request_of(self.deferred, self.full, self.parts)
        most = int(SHARE * LONGEST_SENT) if self.detailed is None else request.target_chars
        return attrs.evolve(request, target_chars=min(request.target_chars, most))

    @property
    def unread(self) -> tuple[str, ...]:
        """The parts that the model did not read, as declared losses."""
        lines = self.full.count("\n") - self.sent.count("\n")
        cut = (f"{render_count(max(1, lines), 'line')} in the middle",) if self.sent != self.full else ()
        return (*cut, *(("the user's words, which the window has",) if self.full != join(self.parts) else ()))


def order_form(deferred: DeferredSummary, task: BackgroundTask[SummaryInputs, ProposedRendition]) -> HelperOrder:
    """The order for a missing rendition."""
    texts = {} if deferred.detailed is None else {"detailed": deferred.detailed}
    return HelperOrder(
        task=task.name,
        subject=deferred.object,
        about=deferred,
        contents={"full": deferred.content},
        texts=texts,
    )


def _gather(order: HelperOrder, found: Mapping[str, bytes]) -> SummaryInputs | None:
    """The inputs of an ordered rendition; None if its object has no text, or too much."""
    deferred: DeferredSummary = order.about
    detailed = found["detailed"].decode() if "detailed" in found else None
    parts = full_parts(found["full"], deferred.by_user)
    inputs = SummaryInputs(deferred=deferred, parts=parts, detailed=detailed)
    return inputs if inputs.full.strip() and len(inputs.full) <= LONGEST else None


def _write_request(
    instructions: str, request: RenditionRequest, texts: list[tuple[str, str]], lines: str | None
) -> HelperPrompt:
    """The prompt for a rendition. ``lines`` are the lines of a file that the object shows, if it shows a part."""
    asked = {
        "kind": request.kind.value,
        "tool": request.source_tool,
        "about": request.source_key,
        "only_its_lines": lines,
        "summary_at_most_characters": request.target_chars,
    }
    return write_prompt(
        instructions,
        {name: value for name, value in asked.items() if value is not None},
        texts,
        most_tokens=request.target_chars // 2 + _DECLARED_TOKENS,
    )


def _verify(inputs: SummaryInputs, answer: Mapping[str, Any]) -> Accepted[ProposedRendition] | Rejected:
    """The rendition that an answer proposes, without the sentences and phrases that have inventions."""
    lists = {name: list_strings(answer.get(name), _MOST_PHRASES, _LONGEST_PHRASE) for name in _DECLARED}
    summary = answer.get("summary")
    if not isinstance(summary, str) or None in lists.values():
        return Rejected(("the answer does not match the schema",))
    kept, sentences = drop_inventions(inputs.full, summary)
    given = {name: [each for each in phrases or () if each != _EXAMPLE] for name, phrases in lists.items()}
    known = dict.fromkeys(given, inputs.full) | {"can_answer": kept}  # the summary itself must answer these
    grounded = {name: [each for each in given[name] if not drop_inventions(known[name], each)[1]] for name in given}
    phrases = sum(len(given[name]) - len(grounded[name]) for name in given)
    dropped = [(sentences, "sentence"), (phrases, "phrase")]
    declared: dict[str, Any] = {name: tuple(each) for name, each in grounded.items()}
    candidate = ProposedRendition(kept, Losses(**declared))
    fault = find_fault(inputs.request, candidate)
    if fault is not None:
        return Rejected((fault,))
    reasons = tuple(f"{render_count(n, what)} with specifics that its source lacks" for n, what in dropped if n)
    return Accepted(candidate, {"summary": kept, **grounded}, reasons)


def _apply(order: HelperOrder, inputs: SummaryInputs, signed: Signed) -> Effect:
    """The command that records a rendition with its losses."""
    deferred: DeferredSummary = order.about
    result: ProposedRendition = signed.result
    declared = attrs.evolve(result.declared, dropped=(*result.declared.dropped, *inputs.unread))
    candidate = attrs.evolve(result, declared=declared)
    written = measure_losses(deferred, inputs.full, inputs.detailed, candidate, helper=signed.helper, at=signed.at)
    return Effect(commands=(written.command,), contents=(written.content,))


def _prompt(inputs: SummaryInputs) -> HelperPrompt:
    return _write_request(_INSTRUCTIONS, inputs.request, [("source", inputs.sent)], inputs.deferred.lines)


SUMMARIZE = BackgroundTask(
    name="summarize", version=4, properties=PROPERTIES, prompt=_prompt, verify=_verify, gather=_gather, apply=_apply
)


def _prompt_shorter(inputs: SummaryInputs) -> HelperPrompt:
    names = "\n".join(key_entities(inputs.full, _NAMES))
    texts = [("source", inputs.detailed or ""), ("names in the original", names)]
    return _write_request(_SHORTER, inputs.request, texts, inputs.deferred.lines)


COMPRESS = BackgroundTask(
    name="compress",
    version=3,
    properties=PROPERTIES,
    prompt=_prompt_shorter,
    verify=_verify,
    gather=lambda order, found: _gather(order, found) if "detailed" in found else None,
    apply=_apply,
)

"""The task that checks which questions a short form answers, as its writer declared; the others are withdrawn.

Some questions are about specifics that the short form lacks. A model that answers one of those is not believed.
Without a helper model, no promise is checked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.helper.background import BackgroundTask, HelperOrder
from mnemosyne.domain.helper.model import STRING, HelperPrompt, list_of, object_of
from mnemosyne.domain.helper.task import Accepted, Rejected, find_span, write_prompt
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.session.helper_results import AUDIT, name_form
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.text.stubs import render_count

ONE_IN = 20
"""One in so many short forms is checked, by the hash of its text."""

_CONTROLS = 3
_NAMES = 60

PROPERTIES: Mapping[str, Any] = {"answers": list_of(object_of({"question": {"type": "integer"}, "quote": STRING}))}

_INSTRUCTIONS = """\
You check which questions a short text answers by itself. Reply with one JSON object and nothing else: \
{"answers": [{"question": integer, "quote": string}]}.

For each question that the text answers, give its number, and the words of the text that answer it, copied exactly. \
Leave out every question that the text does not answer; an empty list is a valid answer. Use no knowledge other than \
the text."""


@attrs.frozen(kw_only=True)
class AuditInputs:
    """A short form, the questions that it is said to answer, and ``controls``: questions that it cannot answer."""

    text: str = attrs.field(repr=False)
    promises: tuple[str, ...]
    controls: tuple[str, ...]


def order_audit(obj: MemoryObject, made: Summarize) -> HelperOrder | None:
    """The order to check a new short form; None if it is not in the sample, or promises nothing."""
    if made.text[0] * ONE_IN >= 256 or not made.losses.can_answer:
        return None
    return HelperOrder(
        task=AUDIT,
        subject=name_form(obj.id, made.fidelity),
        branch=obj.branch,
        turn=obj.last_turn,
        about=made.losses.can_answer,
        contents={"full": obj.content},
        texts={"short": made.text},
    )


def _gather(order: HelperOrder, found: Mapping[str, bytes]) -> AuditInputs:
    text = found["short"].decode()
    missing = [name for name in key_entities(full_text(found["full"]), _NAMES) if name not in text]
    controls = tuple(f"What does the text say about {name}?" for name in missing[:_CONTROLS])
    return AuditInputs(text=text, promises=tuple(order.about), controls=controls)


def _prompt(inputs: AuditInputs) -> HelperPrompt:
    questions = [f"{number}. {each}" for number, each in enumerate((*inputs.promises, *inputs.controls), 1)]
    return write_prompt(
        _INSTRUCTIONS,
        {"questions": len(questions)},
        [("text", inputs.text), ("questions", "\n".join(questions))],
        most_tokens=100 * len(questions) + 100,
    )


def _verify(inputs: AuditInputs, answer: Mapping[str, Any]) -> Accepted[Sequence[int]] | Rejected:
    given = answer.get("answers")
    if not isinstance(given, list):
        return Rejected(("the answer does not match the schema",))
    quoted = [each for each in given if _is_quoted(each, inputs.text)]
    if any(each["question"] > len(inputs.promises) for each in quoted):
        return Rejected(("the model answers a question that the text does not answer",))
    held = sorted({each["question"]: each["quote"] for each in quoted if each["question"] > 0}.items())
    unquoted = len(given) - len(quoted)
    return Accepted(
        [number for number, _ in held],
        {"answers": [{"question": number, "quote": quote} for number, quote in held]},
        (f"{render_count(unquoted, 'answer')} without a quotation",) if unquoted else (),
    )


def _is_quoted(answer: object, text: str) -> bool:
    match answer:
        case {"question": bool()}:
            return False
        case {"question": int(), "quote": str(quote)}:
            return find_span(text, quote) is not None
        case _:
            return False


CHECK_PROMISES = BackgroundTask(
    name=AUDIT, version=1, properties=PROPERTIES, prompt=_prompt, verify=_verify, gather=_gather
)

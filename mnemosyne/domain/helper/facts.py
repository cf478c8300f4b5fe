"""The task that finds standing facts, decisions and preferences in a prompt that the user submitted.

Each is a quotation: the memory across sessions keeps the user's own words, or the words of an agent's proposal that
the prompt accepts. Without a helper model, a person uses the commands of that memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne import credentials
from mnemosyne.domain.helper.background import BackgroundTask, Effect, HelperOrder
from mnemosyne.domain.helper.model import STRING, HelperPrompt, list_of, object_of
from mnemosyne.domain.helper.task import Accepted, Rejected, find_span, write_prompt
from mnemosyne.domain.session.sanitize import blank_private

FACTS = "facts"

LONGEST_PART, OVERLAP = 24_000, 600
"""Maximum number of characters that are sent at once, about 8,000 tokens; and the number that two parts share, so that
no fact is cut in both.
"""

LONGEST_ANSWERED = 8_000
"""Characters of the agent's reply before the prompt that are sent: its end, where an agent asks."""

MOST_PARTS = 12
"""Maximum number of parts that are sent; the rest of a longer prompt is pasted material."""

MOST_FACTS, LONGEST_FACT = 8, 600
"""Maximum number of facts of one part, and characters of one."""

KINDS = ("fact", "decision", "constraint", "workflow", "tooling", "code-style", "response-style", "profile")
"""The kinds of entries that a prompt can add."""

_FACT = object_of({"kind": {"enum": [*KINDS]}, "quote": STRING, "corrects": STRING})
PROPERTIES: Mapping[str, Any] = {"facts": list_of(_FACT)}

_INSTRUCTIONS = """\
You read a message that the user of a coding agent has sent, in any language, and find in it what later sessions of \
this project should know. Reply with one JSON object and nothing else: \
{"facts": [{"kind": string, "quote": string, "corrects": string}]}.

facts: statements that stay true after the present task: facts about the project, its people or tools, decisions of \
the user, and how the user wants things done; at most 8. Leave out the task itself, questions, text that the message \
only quotes or pastes from others, and anything that can be read in the code. An empty list if there are none. If the \
message accepts or chooses what the agent's reply before it proposes, that proposal is a decision of the user; nothing \
else in that reply is a fact.
kind: fact, decision, constraint (a rule to follow), workflow (a way of working), tooling (programs to use), \
code-style, response-style (how to answer), or profile (about the user).
quote: the sentence that states it, copied exactly, in one piece, so that it can be understood alone: from the \
message, or for an accepted proposal from the agent's reply.
corrects: the id of the known entry that this fact makes untrue; otherwise empty."""


@attrs.frozen(kw_only=True)
class FactInputs:
    """The ``text`` of a prompt, or of its part from the character ``start`` on; the agent's reply that it ``answered``,
    or its end from the character ``answered_from`` on. ``known`` are entries that a fact may correct, each as id and
    line. ``context`` is for the caller that uses the facts.
    """

    text: str = attrs.field(repr=False)
    answered: str = attrs.field(default="", repr=False)
    start: int = 0
    answered_from: int = 0
    known: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    context: Any = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Fact:
    """A fact of a kind in ``KINDS``: the characters of the prompt from ``start`` up to ``end``, and as one line in
    ``text``. ``corrects`` is the id of the entry that it replaces. ``proposed``: it is in the agent's reply instead.
    """

    kind: str
    text: str
    start: int
    end: int
    corrects: str | None
    proposed: bool = False


def order_facts(
    prompt: str, branch: str, turn: int, context: Any = None, answered: str = "", stored: Sequence[bytes] = ()
) -> Iterator[HelperOrder]:
    """The orders for a prompt: one for each part. The first part has the reply that the prompt ``answered``. ``stored``
    are digests of contents of its request: a waiting order ends when they are forgotten.
    """
    texts = {each.hex(): each for each in stored}
    step = LONGEST_PART - OVERLAP
    prompt = prompt[: MOST_PARTS * step + OVERLAP]
    for start in range(0, max(1, len(prompt) - OVERLAP), step):
        about = FactInputs(text=prompt, answered="" if start else answered, start=start, context=context)
        yield HelperOrder(
            task=FACTS, subject=f"{branch} {turn} {start}", branch=branch, turn=turn, about=about, texts=texts
        )


def _gather(order: HelperOrder, _: Mapping[str, bytes]) -> FactInputs | None:
    whole: FactInputs = order.about
    # Masked before it is cut, so that no part holds half a credential or half a private text.
    text = credentials.mask(blank_private(whole.text))[whole.start : whole.start + LONGEST_PART]
    cut = max(0, len(whole.answered) - LONGEST_ANSWERED)
    answered = credentials.mask(whole.answered)[cut:]
    return attrs.evolve(whole, text=text, answered=answered, answered_from=cut) if text.strip() else None


def _prompt(inputs: FactInputs) -> HelperPrompt:
    known = "\n".join(f"{key} {line}" for key, line in inputs.known)
    texts = [("message", inputs.text), ("the agent's reply before it", inputs.answered), ("known entries", known)]
    return write_prompt(_INSTRUCTIONS, {}, texts, most_tokens=1_500)


def _verify(inputs: FactInputs, answer: Mapping[str, Any]) -> Accepted[tuple[Fact, ...]] | Rejected:
    if not isinstance(answer["facts"], list):
        return Rejected(("the answer does not match the schema",))
    dropped = ["there are more than 8"] if len(answer["facts"]) > MOST_FACTS else []
    ids = {key for key, _ in inputs.known}
    facts: dict[tuple[bool, int], tuple[Fact, Mapping[str, Any]]] = {}
    for each in answer["facts"][:MOST_FACTS]:
        fact = _read_fact(inputs, each, ids) if isinstance(each, dict) else "an entry does not match the schema"
        if isinstance(fact, str):
            dropped.append(fact)
        else:
            written = {"kind": fact.kind, "quote": fact.text, "corrects": fact.corrects or ""}
            facts.setdefault((fact.proposed, fact.start), (fact, written))
    if dropped and not facts:
        return Rejected(tuple(dropped))
    record = {"facts": [written for _, written in facts.values()]}
    return Accepted(tuple(fact for fact, _ in facts.values()), record, tuple(dropped))


def _read_fact(inputs: FactInputs, given: Mapping[str, Any], ids: set[str]) -> Fact | str:
    """A fact of an answer, or the reason why it is not accepted."""
    kind, quote, corrects = (given.get(name) for name in ("kind", "quote", "corrects"))
    if kind not in KINDS or not isinstance(quote, str) or not isinstance(corrects, str):
        return "an entry does not match the schema"
    if len(quote) > LONGEST_FACT:
        return "a quotation is too long"
    own = find_span(inputs.text, quote)
    span = own or find_span(inputs.answered, quote)
    if span is None:
        return "a quotation is neither in the prompt nor in the reply before it"
    start, end = (each + (inputs.start if own else inputs.answered_from) for each in span)
    return Fact(
        kind=kind if own else "decision",
        text=" ".join(quote.split()),
        start=start,
        end=end,
        corrects=corrects if corrects in ids else None,
        proposed=own is None,
    )


FIND_FACTS = BackgroundTask(
    name=FACTS,
    version=3,
    properties=PROPERTIES,
    prompt=_prompt,
    verify=_verify,
    gather=_gather,
    apply=lambda order, _inputs, signed: Effect(learned=signed.result, context=order.about.context),
)

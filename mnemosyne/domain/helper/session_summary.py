"""The task that gives a session a title, and up to five lines about its work, its decisions and its open points.

Without a helper model, the title is the user's first words, and there are no lines.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne import credentials
from mnemosyne.domain.helper.background import BackgroundTask, Effect, HelperOrder, Signed
from mnemosyne.domain.helper.model import STRING, HelperPrompt, list_of
from mnemosyne.domain.helper.task import (
    LONGEST_RECORD,
    Accepted,
    Rejected,
    find_span,
    list_strings,
    write_prompt,
)
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.kinds import KINDS, is_inserted
from mnemosyne.domain.session.helper_results import SOURCES, SUMMARY, SUMMARY_LISTS, list_lines
from mnemosyne.domain.session.sanitize import blank_private
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.text.grounding import LEAST_GROUNDED, find_invented, measure_grounding
from mnemosyne.domain.text.parts import PartRole, TextPart
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.wire.blocks import text_of, type_of
from mnemosyne.domain.wire.dialects import dialect_of
from mnemosyne.domain.wire.recipe import Piece
from mnemosyne.domain.wire.reply import json_object

LONGEST_TITLE, LONGEST_LINE, MOST_LINES = 60, 300, 5
"""Maximum number of characters of a title and of a line, and maximum number of lines."""

MOST_SAID, MOST_LISTED, LONGEST_LISTED = 12, 60, 180
"""Maximum number of conversations that are sent as text (the first and the last ones); and of other objects, as lines
of at most so many characters.
"""

_REPLY = "reply"
"""Name of the last reply among the contents of an order."""

_LONGEST_SAID, _LONGEST_READ = 1_500, 1 << 18
"""Characters of a text that are sent, and that are read."""

PROPERTIES: Mapping[str, Any] = {"title": STRING, **dict.fromkeys(SUMMARY_LISTS, list_of(STRING))}

_INSTRUCTIONS = """\
You summarize a session of a coding agent for the person who resumes it. You get the messages of the user and the \
agent, and one line about each file and command. Reply with one JSON object and nothing else: \
{"title": string, "done": [string], "decided": [string], "open": [string]}.

title: the subject of the session, at most 60 characters, in the user's language, without a period at the end.
done, decided, open: what was done, what was decided with its reason, and what is still to do, in the user's language, \
one short sentence each, at most five in all three lists; empty lists if there is nothing. Copy paths, names, numbers \
and error messages exactly from the texts, and add nothing that is not in them."""


@attrs.frozen(kw_only=True)
class _Ordered:
    """The objects whose text is sent, with their ``by_user``; others, with a line about each; the texts behind the last
    object, by speaker; the conversation of the branch; and the ``context`` for the caller that uses the summary.
    """

    said: tuple[tuple[str, tuple[int, ...]], ...]
    listed: tuple[tuple[str, str], ...]
    last: Sequence[tuple[PartRole, str]]
    conversation: str
    context: Any


@attrs.frozen(kw_only=True)
class SessionInputs:
    """The texts of a session's conversations, in order, the ``agent``'s own texts among them, and lines about its
    other objects. ``ids`` are the objects of ``said``, then of ``listed``; empty for a text that no object holds yet.
    """

    said: tuple[str, ...] = attrs.field(repr=False)
    agent: tuple[str, ...] = attrs.field(default=(), repr=False)
    listed: tuple[str, ...] = attrs.field(default=(), repr=False)
    ids: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Everything that a summary can rest on."""
        return "\n".join((*self.said, *self.listed))

    def find_source(self, line: str) -> str:
        """The object whose text alone supports a line best, the newest of equal ones; empty if none does."""
        texts = zip(self.ids, (*self.said, *self.listed), strict=bool(self.ids))
        found = [(measure_grounding(text, line), key) for key, text in texts if key and _is_grounded(text, line)]
        return max(reversed(found), key=lambda each: each[0], default=(0, ""))[1]

    def is_agents(self, line: str) -> bool:
        """Whether a line is supported by the agent's own words and quotes no others: results and pasted text must not
        reach later sessions.
        """
        own = "\n".join(self.agent)
        return _is_grounded(own, line) and (find_span(own, line) is not None or find_span(self.source, line) is None)


def order_summary(
    session: Session, branch: Branch, last: Sequence[tuple[PartRole, str]] = (), context: Any = None
) -> HelperOrder:
    """The order for the summary of a session, as of the last turn of a branch. ``last`` are texts that no object holds
    yet.
    """
    objects = [each for each, _ in session.memory.within_reach(branch.name) if not each.forgotten]
    objects.sort(key=lambda each: each.last_turn)
    spoken = [each for each in objects if _is_spoken(each)]
    said = spoken if len(spoken) <= MOST_SAID else [*spoken[:2], *spoken[2 - MOST_SAID :]]
    others = [each for each in objects if each.places and not _is_spoken(each)][-MOST_LISTED:]
    replies = [reply for _, reply in sorted(branch.replies.items())][-1:]
    stored = [each.digest for each in branch.body.pieces[-1:] if isinstance(each, Piece)]
    return HelperOrder(
        task=SUMMARY,
        subject=branch.name,
        branch=branch.name,
        turn=branch.turns,
        about=_Ordered(
            said=tuple((each.id, each.by_user) for each in said),
            listed=tuple((each.id, plain(each.line or each.stub, LONGEST_LISTED)) for each in others),
            last=last,
            conversation=branch.conversation,
            context=context,
        ),
        contents={each.id: each.content for each in said} | dict(zip((_REPLY,), replies, strict=False)),
        texts={each.hex(): each for each in stored},  # a waiting order ends when its session is forgotten
    )


def _is_spoken(each: MemoryObject) -> bool:
    return KINDS[each.kind].is_conversation and bool(each.places) and not is_inserted(each.tags)


def _gather(order: HelperOrder, found: Mapping[str, bytes]) -> SessionInputs | None:
    ordered: _Ordered = order.about
    parts = [(key, part) for key, by_user in ordered.said for part in full_parts(found[key], by_user)]
    parts += [("", TextPart(role, text)) for role, text in ordered.last]
    if _REPLY in found:
        content = dialect_of(ordered.conversation).reply_content(json_object(found[_REPLY]))
        parts += [("", TextPart(PartRole.ASSISTANT, text_of(block))) for block in content if type_of(block) == "text"]
    parts = [(key, part) for key, part in parts if part.text.strip()]
    listed = ordered.listed
    inputs = SessionInputs(
        said=tuple(f"{_SPEAKERS[part.role]}: {_shorten(part.text)}" for _, part in parts),
        agent=tuple(_shorten(part.text) for _, part in parts if part.role is PartRole.ASSISTANT),
        listed=tuple(line for _, line in listed),
        ids=tuple(key for key, _ in (*parts, *listed)),
    )
    return inputs if parts else None


_SPEAKERS = {PartRole.USER: "user", PartRole.ASSISTANT: "agent", PartRole.CALL: "call", PartRole.RESULT: "result"}


def _shorten(text: str) -> str:
    text = credentials.mask(blank_private(text[:_LONGEST_READ]))  # before it is cut, so that no half of one remains
    return text if len(text) <= _LONGEST_SAID else f"{text[: _LONGEST_SAID - 400]} […] {text[-400:]}"


def _prompt(inputs: SessionInputs) -> HelperPrompt:
    texts = [("conversation", "\n\n".join(inputs.said)), ("files and commands", "\n".join(inputs.listed))]
    return write_prompt(_INSTRUCTIONS, {}, texts, most_tokens=700)


def _verify(inputs: SessionInputs, answer: Mapping[str, Any]) -> Accepted[Mapping[str, Any]] | Rejected:
    title = answer["title"]
    lists = {name: list_strings(answer[name], 4 * MOST_LINES, LONGEST_RECORD) for name in SUMMARY_LISTS}
    if not isinstance(title, str) or None in lists.values():
        return Rejected(("the answer does not match the schema",))
    source, dropped, room = inputs.source, list[str](), MOST_LINES
    title = " ".join(title.split())
    if not 0 < len(title) <= LONGEST_TITLE or find_invented(source, title):
        title = ""
        dropped.append("the title is empty, too long, or not supported by the session")
    record: dict[str, Any] = {"title": title}
    for name, lines in lists.items():
        given = [" ".join(line.split()) for line in lines or ()]
        record[name] = [line for line in given if _is_grounded(source, line)][:room]
        room -= len(record[name])
        if len(record[name]) < len(given):
            dropped.append("a line is not supported by the session, or is one too many")
    record[SOURCES] = {
        line: key for name in SUMMARY_LISTS for line in record[name] if (key := inputs.find_source(line))
    }
    reasons = tuple(dict.fromkeys(dropped))
    return Accepted(record, record, reasons) if title or room < MOST_LINES else Rejected(reasons)


def _is_grounded(source: str, line: str) -> bool:
    if not 0 < len(line) <= LONGEST_LINE or find_invented(source, line):
        return False
    return measure_grounding(source, line) >= LEAST_GROUNDED


def _apply(order: HelperOrder, inputs: SessionInputs, signed: Signed) -> Effect:
    """The lines for the next session."""
    record = {name: [each for each in signed.result[name] if inputs.is_agents(each)] for name in SUMMARY_LISTS}
    return Effect(learned=list_lines(record), context=order.about.context)


SUMMARIZE_SESSION = BackgroundTask(
    name=SUMMARY,
    version=1,
    properties=PROPERTIES,
    prompt=_prompt,
    verify=_verify,
    added=frozenset({SOURCES}),
    gather=_gather,
    apply=_apply,
)

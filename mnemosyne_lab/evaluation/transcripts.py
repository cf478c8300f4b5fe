"""Claude Code's transcripts as recordings: the conversation, the usage of each request, and the compactions.

Usually one JSON object a line (``split_records``). Lines of type ``user`` and ``assistant`` hold a message; an
assistant's lines hold one block each, with the reply's id and ``usage``. A ``compact_boundary`` and the following
summary mark a compaction. Sub-agents have their own files or lines (``isSidechain``). A resumed session may repeat the
lines of the previous one, so a reply is counted once. Seen in Claude Code 2.1.329; older files have the same members,
and other content is skipped.

System prompt and tools are missing; the counted prompts reveal their size.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.adapters.claude_transcripts import split_records
from mnemosyne.domain.cost.catalogue import cost
from mnemosyne.domain.cost.prices import Terms, Tokens, terms_of, tokens_of
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import has_results
from mnemosyne.regular_files import open_regular

SYNTHETIC = "<synthetic>"
"""The model name of messages that the client makes itself."""


@attrs.frozen
class TranscriptLine:
    """A line of a transcript that holds a JSON object."""

    where: str
    value: Mapping[str, Any] = attrs.field(repr=False)

    def text(self, name: str) -> str:
        """A string member; "" for anything else."""
        found = self.value.get(name)
        return found if isinstance(found, str) else ""

    @property
    def message(self) -> Mapping[str, Any]:
        """The message, or an empty one."""
        found = self.value.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def is_typed(self) -> bool:
        """Whether it is a user message without tool results."""
        return self.text("type") == "user" and not has_results(_with_blocks(self.message.get("content")))


@attrs.frozen
class TranscriptReply:
    """A recorded reply: the time of its request (ISO 8601) and its usage."""

    id: str
    model: str
    at: str
    used: Tokens
    terms: Terms = attrs.field(factory=Terms)

    @property
    def nanodollars(self) -> int | None:
        """The cost without Mnemosyne; None for a model, or for terms, without a known price."""
        return cost(self.used, self.model, terms=self.terms)


@attrs.define
class TranscriptConversation:
    """A conversation of a file: the session's own, or a sub-agent's. ``replies`` are all replies in its lines;
    ``session`` is a recording for ``reading.recording`` of those that led to its current state. ``client_name`` is the
    client's name of the session. ``uncounted`` has the times of replies without whole token counts.
    """

    name: str
    replies: list[TranscriptReply]
    session: dict[str, Any] = attrs.field(repr=False)
    thinking_removed: int = 0
    images: int = 0
    is_sidechain: bool = False
    client_name: str = ""
    uncounted: Sequence[str] = ()

    @property
    def times(self) -> list[str]:
        """The known times of its requests, in ISO 8601."""
        return [at for at in (*(reply.at for reply in self.replies), *self.uncounted) if at]

    def is_used_since(self, start: str) -> bool:
        """Whether a request was sent at this time (ISO 8601) or later."""
        return any(at >= start for at in self.times)


def lines_of(path: Path) -> Iterator[TranscriptLine | str]:
    """The records of a file, or a sentence with file and line for an invalid one. Raises OSError."""
    with open_regular(path) as file:
        for number, raw in enumerate(file, 1):
            where = f"{path}, line {number}"
            for record in split_records(raw):
                try:
                    value = json_values.read(record)
                except (ValueError, RecursionError):
                    yield f"{where}: it is no JSON."
                    continue
                yield TranscriptLine(where, value) if isinstance(value, dict) else f"{where}: it is no JSON object."


def conversations_of(name: str, lines: Iterable[TranscriptLine], seen: set[str]) -> list[TranscriptConversation]:
    """The conversations of one file. ``seen`` holds the ids of replies that were read before, and gets these."""
    told: dict[str, list[TranscriptLine]] = {}
    for line in lines:
        agent = f"agent {line.text('agentId') or 'sidechain'}" if line.value.get("isSidechain") is True else ""
        told.setdefault(agent, []).append(line)
    found = []
    for part, its_lines in told.items():
        made = _Made(seen)
        for line in its_lines:
            made.take(line)
        conversation = made.result(f"{name} {part}".rstrip())
        if conversation.replies or conversation.uncounted:
            client_name = next(filter(None, (line.text("sessionId") for line in its_lines)), name)
            found.append(attrs.evolve(conversation, is_sidechain=bool(part), client_name=client_name))
    return found


class _Made:
    """A conversation built line by line."""

    def __init__(self, seen: set[str]) -> None:
        self._seen = seen
        self._messages: list[dict[str, Any]] = []
        self._turns: list[dict[str, Any]] = []
        self._resets: list[dict[str, Any]] = []
        self._boundary: Mapping[str, Any] | None = None
        self._places: dict[str, int] = {}
        self._at = ""
        self._replies: dict[str, TranscriptReply] = {}
        self._uncounted: dict[str, str] = {}
        self._thinking = self._images = 0

    def take(self, line: TranscriptLine) -> None:
        kind = line.text("type")
        if kind == "system" and line.text("subtype") == "compact_boundary":
            metadata = line.value.get("compactMetadata")
            self._boundary = metadata if isinstance(metadata, dict) else {}
        elif kind == "user" and line.message:
            self._user(line)
        elif kind == "assistant" and line.message.get("model") != SYNTHETIC:
            self._assistant(line)
        if (uuid := line.text("uuid")) and kind != "progress":
            # Older clients named progress records between messages as parents.
            self._places[uuid] = len(self._messages)

    def _user(self, line: TranscriptLine) -> None:
        self._at = line.text("timestamp") or self._at
        content = _with_blocks(line.message.get("content"))
        if line.value.get("isCompactSummary") is True:
            summary = "\n".join(str(each.get("text", "")) for each in content)
            trigger = (self._boundary or {}).get("trigger")
            reset = {"kind": "compact", "before_msg": len(self._messages), "summary": summary, "trigger": trigger}
            self._resets.append(reset)
            self._boundary = None
            return
        if line.is_typed:
            self._go_back(line.text("parentUuid"))
        self._images += sum(each.get("type") == "image" for each in content)
        self._add("user", content)

    def _go_back(self, parent: str) -> None:
        """Rewind to an earlier message: later ones are no longer sent."""
        place = self._places.get(parent)
        if place is None or not any(each["role"] == "assistant" for each in self._messages[place:]):
            return
        del self._messages[place:]
        self._turns = [turn for turn in self._turns if turn["msg"] <= place]
        self._resets = [reset for reset in self._resets if reset["before_msg"] < place]

    def _assistant(self, line: TranscriptLine) -> None:
        message = line.message
        # Some gateways give every reply the same id.
        names = [str(message.get("id") or ""), line.text("requestId")]
        identity = " ".join(filter(None, names)) or line.text("uuid")
        at = self._at or line.text("timestamp")
        content = _with_blocks(message.get("content"))
        used = message["usage"] if isinstance(message.get("usage"), dict) else {}
        tokens = tokens_of(used)
        if tokens is not None:
            self._use(identity, at, str(message.get("model", "")), tokens, terms_of(used))
        elif identity not in self._seen:
            self._uncounted[identity] = at
        self._thinking += sum(each.get("type") == "thinking" and not each.get("thinking") for each in content)
        self._add("assistant", content)

    def _use(self, identity: str, at: str, model: str, tokens: Tokens, terms: Terms) -> None:
        """Count a reply once: its lines repeat the usage, and the last one is complete."""
        if identity in self._replies:
            known = self._replies[identity]
            more = max(known.used.output, tokens.output)
            self._replies[identity] = attrs.evolve(known, used=attrs.evolve(tokens, output=more), terms=terms)
        elif identity not in self._seen:
            self._seen.add(identity)
            self._replies[identity] = TranscriptReply(identity, model, at, tokens, terms)
            self._turns.append({"msg": len(self._messages), "ts": at or None, "reply": identity})

    def _add(self, role: str, content: list[dict[str, Any]]) -> None:
        """Append to the last message if it has the same role."""
        is_dropped_here = bool(self._resets) and self._resets[-1]["before_msg"] == len(self._messages)
        if self._messages and self._messages[-1]["role"] == role and not is_dropped_here:
            self._messages[-1]["content"] += content
        elif content:
            self._messages.append({"role": role, "content": content})

    def result(self, name: str) -> TranscriptConversation:
        replies = list(self._replies.values())
        self._seen.update(self._uncounted)
        models = Counter(each.model for each in replies)
        return TranscriptConversation(
            name=name,
            replies=replies,
            session={
                "name": name,
                "nanodollars": sum(each.nanodollars or 0 for each in replies),
                "model": models.most_common(1)[0][0] if models else None,
                "head": {},
                "messages": self._messages,
                "turns": [self._turn(turn) for turn in self._turns],
                "resets": self._resets,
            },
            thinking_removed=self._thinking,
            images=self._images,
            uncounted=[at for identity, at in self._uncounted.items() if identity not in self._replies],
        )

    def _turn(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        used = self._replies[turn["reply"]].used
        usage = {"input": used.input, "cache_write": used.write_5m + used.write_1h, "cache_read": used.read}
        return {"msg": turn["msg"], "ts": turn["ts"], "usage": usage, "output": used.output, "reply": turn["reply"]}


def _with_blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks = content if isinstance(content, list) else []
    return [each for each in blocks if isinstance(each, dict) and isinstance(each.get("type"), str)]

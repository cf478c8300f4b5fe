"""Conversations for `opencode import`, written so that opencode can continue them."""

import json
import secrets
import string
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.domain.wire.blocks import has_failed, is_call, is_result, list_attached, text_of
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.errors import BadOption
from mnemosyne.services.forks import ForkPoint

PROVIDERS = {MESSAGES.name: "anthropic", RESPONSES.name: "openai"}
"""opencode's own provider for each API."""

HELD_BACK = ("question", "plan_enter", "plan_exit")
"""Tools that `opencode run` denies to new conversations."""

TITLE_CHARACTERS = 60

Json = dict[str, Any]


def write_session(point: ForkPoint, words: Sequence[str], project: Path, at: int) -> Json:
    """A conversation that ends there, in ``project`` at ``at`` (µs of UTC); its id is in ``info``. ``words`` are
    opencode's arguments, which may name the provider.

    Raises BadOption if neither they nor the API tell the provider.
    """
    provider = _find_provider(words) or PROVIDERS.get(point.dialect.name)
    if provider is None:
        raise BadOption("The requests do not name opencode's provider: add its option -m PROVIDER/MODEL.")
    writing = _Writing(point, provider, project, at // 1000)
    for element in (*point.request.get(point.dialect.array, ()), *_list_elements(point.reply), *point.results):
        writing.add(element)
    return writing.session()


def _find_provider(words: Sequence[str]) -> str | None:
    """The provider that opencode's arguments name."""
    asked = (
        word.removeprefix("--model=") if word.startswith("--model=") else after
        for word, after in zip_longest(words, words[1:], fillvalue="")
        if word in ("-m", "--model") or word.startswith("--model=")
    )
    return next((each.partition("/")[0] for each in asked if "/" in each), None)


def _list_elements(reply: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """A reply as the elements of the next request."""
    match reply:
        case {"output": list(items)}:
            return items
        case {"choices": [{"message": dict(message)}, *_]}:
            return [message]
    return [{"role": "assistant", "content": reply.get("content")}]


def import_session(program: Sequence[str], session: Json, project: Path, environ: Mapping[str, str]) -> None:
    """Import a conversation with this opencode command. Raises BadOption if that fails."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:  # readable by its owner only
        json.dump(session, file)
        file.flush()
        try:
            done = subprocess.run(
                [*program, "import", file.name], cwd=project, env=dict(environ), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", check=False,
            )  # fmt: skip
        except OSError as error:
            raise BadOption(f"{program[0]} cannot be run: {error.strerror or error}.") from None
    if done.returncode or session["info"]["id"] not in done.stdout + done.stderr:
        output = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise BadOption(f"opencode could not import the conversation: {output[0]}")


@attrs.define
class _Writing:
    """A conversation under construction. ``now`` is in ms of UTC; messages are a millisecond apart."""

    point: ForkPoint
    provider: str
    project: Path
    now: int
    id: str = attrs.field(init=False)
    messages: list[Json] = attrs.field(factory=list)
    calls: dict[str, Json] = attrs.field(factory=dict)
    """The parts of calls without results, by call id."""
    asked: str = ""
    """The id of the last user message."""
    replying: bool = False
    """Whether the last element was of the model: several make one reply."""
    made: int = 0
    """The number of created ids, which are in order of time."""

    def __attrs_post_init__(self) -> None:
        self.id = self._make_id("ses", backward=True)

    def add(self, element: Mapping[str, Any]) -> None:
        """Add the next element of the request."""
        message = self.point.dialect.read_message(dict(element))
        blocks = content_blocks(message.get("content"))
        if message.get("role") == "system" and self.point.dialect is not MESSAGES:  # opencode sends its own
            return
        if message.get("role") == "assistant":
            parts = [part for each in blocks for part in self._write_parts(each)]
            if element.get("type") == "reasoning":
                parts = [part | self._sign(element) for part in parts]
            if self.replying:
                self._add_parts(parts)
            else:
                self._add_message(self._assistant(), parts)
            self.replying = self.point.dialect.splits_replies
            return
        self.replying = False
        for each in filter(is_result, blocks):
            self._answer(each)
        typed = [part for each in blocks if not is_result(each) for part in _list_typed(each)]
        if typed:
            self.asked = self._add_message(self._user(), typed)

    def session(self) -> Json:
        """The complete conversation."""
        offered = {tool.get("name") for tool in self.point.request.get("tools") or () if isinstance(tool, dict)}
        kept = [] if HELD_BACK[0] in offered else HELD_BACK
        info = {
            "id": self.id,
            "slug": self.id[-8:].lower(),
            "directory": str(self.project),
            "title": self._title(),
            "version": "1.18.33",
            "permission": [{"permission": each, "pattern": "*", "action": "deny"} for each in kept],
            "time": {"created": self.now, "updated": self.now},
        }
        return {"info": info, "messages": self.messages}

    def _title(self) -> str:
        texts = (
            part.get("text", "") for each in self.messages for part in each["parts"] if each["info"]["role"] == "user"
        )
        first = next((line.strip() for text in texts for line in text.splitlines() if line.strip()), "")
        return f"{first[:TITLE_CHARACTERS]} (from turn {self.point.turn})".strip()

    def _add_message(self, info: Json, parts: Sequence[Json]) -> str:
        name = self._make_id("msg")
        self.messages.append({"info": {**info, "id": name, "sessionID": self.id}, "parts": []})
        self._add_parts(parts)
        return name

    def _add_parts(self, parts: Sequence[Json]) -> None:
        """Add parts to the last message."""
        message = self.messages[-1]
        for each in parts:
            part = each | {"sessionID": self.id, "messageID": message["info"]["id"], "id": self._make_id("prt")}
            message["parts"].append(part)
            if part["type"] == "tool":
                self.calls[part["callID"]] = part

    def _sign(self, item: Mapping[str, Any]) -> Json:
        """What makes opencode 1.18.33 send the reasoning of the Responses API again. It needs an id, which it omits."""
        about = {"itemId": item.get("id") or f"rs_{self.made}"}
        return {"metadata": {"openai": about | {"reasoningEncryptedContent": item.get("encrypted_content")}}}

    def _user(self) -> Json:
        model = {"providerID": self.provider, "modelID": self._model}
        return {"role": "user", "time": {"created": self._time}, "agent": "build", "model": model}

    def _assistant(self) -> Json:
        tokens = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        return {
            "role": "assistant",
            "parentID": self.asked,
            "mode": "build",
            "agent": "build",
            "path": {"cwd": str(self.project), "root": str(self.project)},
            "cost": 0,
            "tokens": tokens,
            "modelID": self._model,
            "providerID": self.provider,
            "time": {"created": self._time, "completed": self._time},
            "finish": "stop",
        }

    @property
    def _model(self) -> str:
        return str(self.point.request.get("model", ""))

    @property
    def _time(self) -> int:
        return self.now + len(self.messages)

    def _write_parts(self, block: Mapping[str, Any]) -> Iterator[Json]:
        time = {"start": self._time, "end": self._time}
        match block.get("type"):
            case "text":
                yield {"type": "text", "text": block.get("text", ""), "time": time}
            case "thinking":
                signature = block.get("signature")
                signed = {"metadata": {self.provider: {"signature": signature}}} if signature else {}
                yield {"type": "reasoning", "text": block.get("thinking", ""), "time": time, **signed}
            case "redacted_thinking":
                yield {
                    "type": "reasoning",
                    "text": "",
                    "time": time,
                    "metadata": {self.provider: {"redactedData": block.get("data")}},
                }
            case _ if is_call(block):
                state = {
                    "status": "error",
                    "input": block.get("input", {}),
                    "error": "No result was recorded.",
                    "time": time,
                }
                yield {"type": "tool", "tool": block.get("name"), "callID": block.get("id"), "state": state}

    def _answer(self, result: Mapping[str, Any]) -> None:
        """Add the result of a call."""
        part = self.calls.pop(str(result.get("tool_use_id")), None)
        if part is None:
            return
        state = {"input": part["state"]["input"], "time": part["state"]["time"]}
        if has_failed(result):
            part["state"] = state | {"status": "error", "error": text_of(result)}
            return
        part["state"] = state | {
            "status": "completed",
            "output": text_of(result),
            "title": part["tool"],
            "metadata": {},
            "attachments": [
                file | {"id": self._make_id("prt"), "sessionID": part["sessionID"], "messageID": part["messageID"]}
                for each in list_attached(result)
                for file in _list_files(each)
            ],
        }

    def _make_id(self, kind: str, *, backward: bool = False) -> str:
        """An id in opencode's format: the time, ascending or descending, and random characters."""
        self.made += 1
        value = (self.now << 12) + self.made
        value = (~value if backward else value) & 0xFFFFFFFFFFFF
        chance = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(14))
        return f"{kind}_{value:012x}{chance}"


def _list_typed(block: Mapping[str, Any]) -> Iterator[Json]:
    """The parts of a block of the user."""
    if block.get("type") == "text":
        yield {"type": "text", "text": block.get("text", "")}
    else:
        yield from _list_files(block)


def _list_files(block: Mapping[str, Any]) -> Iterator[Json]:
    """A picture or document with data or a URL."""
    match block.get("source"):
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            yield {"type": "file", "mime": kind, "url": f"data:{kind};base64,{data}"}
        case {"type": "url", "url": str(address)}:
            yield {"type": "file", "mime": "image/png", "url": address}

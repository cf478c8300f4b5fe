"""Thinking signatures: made for a conversation, and refused in any other.

A signature holds a keyed hash of the block's own text, a keyed hash of everything said before it, and the name of the
thinking block before it. What counts as "before" (Messages API documentation, preserved thinking):

* compared: `system`, the set of tools by name, every block of every message;
* not compared: cache markers, tool order, key order, 1 or 1.0, a string or one text block, white space around a text,
  blank text blocks, the billing entry of `system`, deferred tools that nothing has referred to, and all options;
* a compaction block starts a new conversation.

Because the earlier thinking is compared by its chain only, a client may leave out a leading run, a trailing run or all
of it; a block missing from the middle, or put back later, breaks the chain. Pure: the secret is an argument.
"""

import base64
import hashlib
import hmac
import struct

import attrs
import orjson

from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    Json,
    as_dict,
    as_list,
    betas,
    blocks,
    list_placed,
    messages,
    tools,
)
from mnemosyne_lab.provider.rules import BILLING

CONTROLS = "thinking-binding-controls-2026-08-01"
"""The beta that allows `thinking.block_binding`."""
_MAGIC = b"mn1"
_NOTHING = bytes(16)
_PAYLOAD = struct.Struct("3s8s16s16s16s")
"""The mark, the model, the name of the thinking block before, and the hashes of its own text and of all before it."""
_LARGEST = 2**63
"""Larger whole numbers are written as fractions."""


@attrs.frozen
class Dropped:
    """A thinking block that the model will not see, and why, in the API's words."""

    message: int
    index: int
    reason: str

    def report(self) -> dict[str, str]:
        """Its entry in `input_transformations`."""
        path = f"messages.{self.message}.content.{self.index}"
        return {"type": "thinking_dropped", "path": path, "reason": self.reason}


def canonical(value: Json) -> Json:
    """JSON in which equal meanings are equal: keys are sorted on writing, a whole float is an integer."""
    if isinstance(value, dict):
        return {key: canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        return int(value)
    return value


def _dump(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _comparable(block: dict[str, Json]) -> dict[str, Json] | None:
    """The block as the check sees it, or nothing when the check does not see it."""
    kept = {key: value for key, value in block.items() if key != "cache_control" and value is not None}
    if kept.get("type") == "text" and isinstance(kept.get("text"), str):
        kept["text"] = kept["text"].strip()
        if not kept["text"]:
            return None
    if kept.get("type") == "tool_result" and "content" in kept:
        parts = (_comparable(part) for part in blocks(kept["content"]))
        kept["content"] = [part for part in parts if part is not None]
    compared: dict[str, Json] = canonical(kept)
    return compared


class Conversation:
    """All that was said so far, as a running hash; it grows block by block."""

    def __init__(self, secret: bytes, body: Body) -> None:
        self._secret = secret
        self._model = hashlib.sha256(str(body.get("model", "")).encode()).digest()[:8]
        system = blocks(body.get("system"))
        if system and str(system[0].get("text", "")).startswith(BILLING):
            system = system[1:]
        self._system = _dump([block for block in map(_comparable, system) if block is not None])
        self._tools = {str(tool.get("name")): tool for tool in tools(body)}
        self._referenced: set[str] = set()
        self._said = hashlib.sha256(self._system)
        self.previous = _NOTHING
        """Name of the last valid thinking block; zeros when there is none."""

    def add(self, role: str, block: dict[str, Json]) -> None:
        """Append a block that is not thinking."""
        if block.get("type") == "compaction":
            self._said = hashlib.sha256(self._system)
            self.previous = _NOTHING
        compared = _comparable(block)
        if compared is None:
            return
        self._said.update(hashlib.sha256(_dump([role, compared])).digest())
        self._refer(block)

    def _refer(self, block: dict[str, Json]) -> None:
        if block.get("type") == "tool_use":
            self._referenced.add(str(block.get("name")))
        if block.get("type") == "tool_addition":
            self._referenced.add(str(as_dict(block.get("tool")).get("name")))
        for part in as_list(block.get("content")):
            if as_dict(part).get("type") == "tool_reference":
                self._referenced.add(str(part.get("tool_name")))

    def _prefix(self) -> bytes:
        """The hash of the conversation up to here."""
        kept = {
            name: {key: value for key, value in tool.items() if key not in {"cache_control", "defer_loading"}}
            for name, tool in self._tools.items()
            if not tool.get("defer_loading") or name in self._referenced
        }
        return hashlib.sha256(_dump(canonical(kept)) + self._said.digest()).digest()

    def _sign(self, *parts: bytes) -> bytes:
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.new(self._secret, message, hashlib.sha256).digest()[:16]

    def sign(self, text: str) -> str:
        """The signature of a thinking block with this text, said here; the next block is chained to it."""
        # A redacted block has no text of its own; its data is this same signature.
        own = self._sign(b"own", self._model, self.previous, text.encode())
        bound = self._sign(b"prefix", own, self._prefix())
        payload = _PAYLOAD.pack(_MAGIC, self._model, self.previous, own, bound)
        self.previous = _name(payload)
        return base64.b64encode(payload).decode()

    def judge(self, signature: str, text: str, enforced: bool) -> str:
        """The fault of a block at this place: "" (it joins the chain), or one of four words.

        `foreign` (not a signature of this server), `modified` (its text is not the signed one), or a reason of
        `input_transformations`.
        """
        try:
            payload = base64.b64decode(signature, validate=True)
            mark, model, previous, own, bound = _PAYLOAD.unpack(payload)
        except (ValueError, struct.error):
            return "foreign"
        if mark != _MAGIC:
            return "foreign"
        if not hmac.compare_digest(own, self._sign(b"own", model, previous, text.encode())):
            return "modified"
        if model != self._model:
            return "model_binding_mismatch"
        # Before the first block left, any others may have been removed: a leading run.
        is_chained = self.previous in (_NOTHING, previous)
        fits = is_chained and hmac.compare_digest(bound, self._sign(b"prefix", own, self._prefix()))
        if enforced and not fits:
            return "prefix_binding_mismatch"
        self.previous = _name(payload)
        return ""


def _name(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()[:16]


@attrs.frozen
class Verdict:
    conversation: Conversation
    """At the end of the request, ready to sign the reply."""
    error: str | None
    """The text of a 400, or nothing."""
    dropped: tuple[Dropped, ...]


_WRONG = "Invalid `signature` in `thinking` block."
_BOUND = (
    f"{_WRONG} The block is bound to a different conversation: its system prompt, tools or an earlier message differ "
    "from the ones it was created with."
)
_MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in an assistant message cannot be modified. These blocks must remain as "
    "they were in the original response."
)


def check(secret: bytes, body: Body, headers: Headers) -> Verdict:
    """Judge every thinking block of a request, in order.

    The conversation is compared on models that bind thinking, and whenever the request asks for it by setting
    `prefix_mismatch_behavior`. Drops happen only with that field at `drop_block` and its beta; a block of another model
    is always dropped, never an error.
    """
    binding = as_dict(as_dict(body.get("thinking")).get("block_binding"))
    behaviour = binding.get("prefix_mismatch_behavior")
    enforced = models.find(str(body.get("model", ""))).binds_thinking or behaviour is not None
    may_drop = behaviour == "drop_block" and CONTROLS in betas(headers)
    conversation = Conversation(secret, body)
    dropped: list[Dropped] = []
    placed = list(list_placed(body))
    # The API ignores all before the last compaction block.
    start = max((number for number, item in enumerate(placed) if item.type == "compaction"), default=0)
    for number, item in enumerate(placed):
        if item.type not in {"thinking", "redacted_thinking"}:
            conversation.add(item.role, item.block)
            continue
        if number < start:
            continue
        redacted = item.type == "redacted_thinking"
        signature = item.block.get("data" if redacted else "signature")
        text = "" if redacted else str(item.block.get("thinking", ""))
        fault = conversation.judge(str(signature), text, enforced)
        if not fault:
            continue
        if fault == "modified" or (not may_drop and fault != "model_binding_mismatch"):
            why = {"modified": _MODIFIED, "foreign": _WRONG}.get(fault, _BOUND)
            return Verdict(conversation, f"{item.path}: {why}", ())
        dropped.append(Dropped(item.message, item.index, "prefix_binding_mismatch" if fault == "foreign" else fault))
    return Verdict(conversation, None, tuple(dropped))


def without(body: Body, dropped: tuple[Dropped, ...]) -> Body:
    """The body as the model sees it once the dropped blocks are gone."""
    if not dropped:
        return body
    gone = {(entry.message, entry.index) for entry in dropped}
    kept = []
    for number, message in enumerate(messages(body)):
        content = message.get("content")
        if isinstance(content, list):
            content = [block for index, block in enumerate(content) if (number, index) not in gone]
        kept.append({**message, "content": content})
    return {**body, "messages": kept}

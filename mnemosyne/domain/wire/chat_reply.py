"""Read a reply of Chat Completions from its chunks or from its whole body."""

from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.wire.chat_calls import Calls
from mnemosyne.domain.wire.places import index_of
from mnemosyne.domain.wire.reply import Reply, ReplyReader, text_or_none

JOINED = ("content", "refusal", "reasoning_content", "reasoning")
"""Members of a delta that continue the previous chunk's text."""


class ChatReply(ReplyReader):
    """Collects one reply; the first choice is the message. Of other members, the last value is kept."""

    def __init__(self) -> None:
        super().__init__(describe)
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Add one chunk."""
        head = {key: value for key, value in event.items() if key != "choices" and value is not None}
        self._head.update(head)
        choices = event.get("choices")
        for number, choice in enumerate(choices if isinstance(choices, list) else ()):
            if isinstance(choice, dict):
                index = index_of(choice.get("index"))
                self._choices.setdefault(number if index is None else index, _Choice()).add(choice)

    def _join_events(self) -> dict[str, Any]:
        if not self._choices:
            return self._head
        choices = [{"index": index, **choice.content()} for index, choice in sorted(self._choices.items())]
        return {**self._head, "object": "chat.completion", "choices": choices}

    def _is_complete(self, message: Mapping[str, Any]) -> bool:
        return bool(self._choices) and all(choice.reason is not None for choice in self._choices.values())


def describe(message: Mapping[str, Any], body: bytes, *, complete: bool) -> Reply:
    choices = message.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return Reply(
        body=body,
        complete=complete,
        message_id=text_or_none(message.get("id")),
        model=text_or_none(message.get("model")),
        stop_reason=text_or_none(first.get("finish_reason")),
        usage=with_tier(usage_of(message.get("usage")), message),
        error_type=error_type_of(message.get("error")),
    )


def usage_of(usage: object) -> dict[str, Any]:
    """Convert a ``usage`` to the Messages API's counts, in which the input excludes cached tokens. Omits what the
    provider does not report.
    """
    if not isinstance(usage, Mapping):
        return {}
    prompt, output = (_first(usage, *names) for names in (("prompt_tokens", "input_tokens"), _PRODUCED))
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    details = details if isinstance(details, Mapping) else {}
    counts = {key: _first({**usage, **details}, *names) for key, names in _CACHED.items()}
    cached = {key: count for key, count in counts.items() if count is not None}
    if prompt is None and output is None:
        return {}
    return {
        "input_tokens": max(0, (prompt or 0) - sum(cached.values())),
        "output_tokens": output or 0,
        **cached,
    }


_CACHED = {
    "cache_read_input_tokens": (
        "cached_tokens",
        "prompt_cache_hit_tokens",
        "cache_read_input_tokens",
        "num_cached_tokens",
    ),
    "cache_creation_input_tokens": ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens"),
}
"""The names that providers use for the cached part of a prompt, read or written: OpenAI and OpenRouter, DeepSeek,
gateways to the Messages API, Moonshot and Mistral.
"""

_PRODUCED = ("completion_tokens", "output_tokens")


def with_tier(usage: dict[str, Any], reply: Mapping[str, Any]) -> dict[str, Any]:
    """Add the service tier that a reply reports to its usage."""
    tier = reply.get("service_tier")
    return {**usage, "service_tier": tier} if usage and isinstance(tier, str) else usage


def _first(counts: Mapping[str, Any], *names: str) -> int | None:
    return next((counts[name] for name in names if type(counts.get(name)) is int and counts[name] >= 0), None)


def error_type_of(error: object) -> str | None:
    """Return the error type that a reply reports; None if it reports no error."""
    if isinstance(error, str) and error:
        return "error"
    if not isinstance(error, Mapping):
        return None
    return next((str(error[name]) for name in ("type", "code") if error.get(name)), "error")


def write_error(kind: str, message: str) -> dict[str, Any]:
    """Write an error in OpenAI's format. For a faulty request, ``code`` names the kind of mistake."""
    is_ours, is_plain = kind == "api_error", kind == "invalid_request_error"
    fields = {"type": "server_error" if is_ours else "invalid_request_error", "param": None}
    return {"error": {"message": message, **fields, "code": None if is_ours or is_plain else kind}}


@attrs.define
class _Choice:
    """One choice, filled by its deltas."""

    reason: str | None = None
    _pieces: dict[str, list[str]] = attrs.field(factory=dict)
    _message: dict[str, Any] = attrs.field(factory=dict)
    _calls: Calls = attrs.field(factory=Calls)
    _rest: dict[str, Any] = attrs.field(factory=dict)
    _likelihoods: dict[str, list[Any]] = attrs.field(factory=dict)

    def add(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta")
        for key, value in delta.items() if isinstance(delta, Mapping) else ():
            self._add_delta(key, value)
        reason = choice.get("finish_reason")
        self.reason = reason if isinstance(reason, str) else self.reason
        for key, value in choice.items():
            if key == "logprobs" and isinstance(value, Mapping):
                self._add_likelihoods(value)
            elif key not in ("index", "delta", "finish_reason", "logprobs"):
                self._rest[key] = value

    def _add_delta(self, key: str, value: object) -> None:
        if key in JOINED and isinstance(value, str):
            self._pieces.setdefault(key, []).append(value)
        elif key == "tool_calls" and isinstance(value, list):
            self._calls.take(value)
        elif value is not None or key not in self._message:
            self._message[key] = value

    def _add_likelihoods(self, likelihoods: Mapping[str, Any]) -> None:
        for key, value in likelihoods.items():
            if isinstance(value, list):
                self._likelihoods.setdefault(key, []).extend(value)

    def content(self) -> dict[str, Any]:
        texts = {key: "".join(pieces) for key, pieces in self._pieces.items()}
        message = {"role": self._message.get("role", "assistant"), **texts}
        message |= {key: value for key, value in self._message.items() if key not in message}
        calls = self._calls.content()
        if calls:
            message["tool_calls"] = calls
        likelihoods = {"logprobs": self._likelihoods} if self._likelihoods else {}
        return {"message": message, **likelihoods, "finish_reason": self.reason, **self._rest}

"""What a reply of Chat Completions said, put together from its chunks or from its whole body."""

from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.wire.chat_calls import Calls
from mnemosyne.domain.wire.places import index_of
from mnemosyne.domain.wire.reply import Reply, WholeBody, as_json, text_or_none

_JOINED = ("content", "refusal", "reasoning_content", "reasoning")
"""Members of a delta that go on from the chunk before."""


class ChatReply(WholeBody):
    """Collects one reply of which the first choice is the message. What chunks hold besides is kept as it came last."""

    def __init__(self) -> None:
        super().__init__()
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Take one chunk."""
        head = {key: value for key, value in event.items() if key != "choices" and value is not None}
        self._head.update(head)
        choices = event.get("choices")
        for number, each in enumerate(choices if isinstance(choices, list) else ()):
            if isinstance(each, dict):
                index = index_of(each.get("index"))
                self._choices.setdefault(number if index is None else index, _Choice()).add(each)

    def message(self) -> dict[str, Any]:
        """The completion (or error) as far as it has arrived."""
        if self.is_whole:
            return self.whole_message()
        if not self._choices:
            return self._head
        choices = [{"index": index, **choice.content()} for index, choice in sorted(self._choices.items())]
        return {**self._head, "object": "chat.completion", "choices": choices}

    @property
    def ended(self) -> bool:
        """Whether every choice has said why it ended."""
        return bool(self._choices) and all(each.reason is not None for each in self._choices.values())

    def result(self) -> Reply:
        """The reply as far as it has arrived."""
        told = describe(self.message(), complete=self.whole_ended if self.is_whole else self.ended)
        return attrs.evolve(told, body=self.whole_bytes()) if self.is_whole else told


def describe(completion: Mapping[str, Any], *, complete: bool) -> Reply:
    """The reply that is this completion, or this error."""
    choices = completion.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return Reply(
        body=as_json(completion),
        complete=complete,
        message_id=text_or_none(completion.get("id")),
        model=text_or_none(completion.get("model")),
        stop_reason=text_or_none(first.get("finish_reason")),
        usage=with_tier(usage_of(completion.get("usage")), completion),
        error_type=error_type_of(completion.get("error")),
    )


def usage_of(usage: object) -> dict[str, Any]:
    """A ``usage`` in the counts of the Messages API, where what was read from a cache or written to one stands beside
    the input and is no part of it. What a provider does not report is not in it.
    """
    if not isinstance(usage, Mapping):
        return {}
    prompt, output = (_first(usage, *names) for names in (("prompt_tokens", "input_tokens"), _PRODUCED))
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    details = details if isinstance(details, Mapping) else {}
    found = {key: _first({**usage, **details}, *names) for key, names in _CACHED.items()}
    cached = {key: count for key, count in found.items() if count is not None}
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
"""What providers call the part of a prompt that came from their cache, and the part that went there: OpenAI and
OpenRouter, DeepSeek, gateways to the Messages API, Moonshot and Mistral.
"""

_PRODUCED = ("completion_tokens", "output_tokens")


def with_tier(usage: dict[str, Any], reply: Mapping[str, Any]) -> dict[str, Any]:
    """A usage with the service tier that its reply names beside it."""
    tier = reply.get("service_tier")
    return {**usage, "service_tier": tier} if usage and isinstance(tier, str) else usage


def _first(counts: Mapping[str, Any], *names: str) -> int | None:
    return next((counts[name] for name in names if type(counts.get(name)) is int and counts[name] >= 0), None)


def error_type_of(error: object) -> str | None:
    """What kind of error a reply tells of; None where it tells of none."""
    if isinstance(error, str) and error:
        return "error"
    if not isinstance(error, Mapping):
        return None
    return next((str(error[name]) for name in ("type", "code") if error.get(name)), "error")


def write_error(kind: str, message: str) -> dict[str, Any]:
    """An error as OpenAI's API writes it. What kind of mistake a request is, it says as the ``code``."""
    is_ours, is_plain = kind == "api_error", kind == "invalid_request_error"
    told = {"type": "server_error" if is_ours else "invalid_request_error", "param": None}
    return {"error": {"message": message, **told, "code": None if is_ours or is_plain else kind}}


@attrs.define
class _Choice:
    """One choice and the deltas that fill it."""

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
        if key in _JOINED and isinstance(value, str):
            self._pieces.setdefault(key, []).append(value)
        elif key == "tool_calls" and isinstance(value, list):
            self._calls.take(value)
        elif value is not None or key not in self._message:
            self._message[key] = value

    def _add_likelihoods(self, told: Mapping[str, Any]) -> None:
        for key, value in told.items():
            if isinstance(value, list):
                self._likelihoods.setdefault(key, []).extend(value)

    def content(self) -> dict[str, Any]:
        said = {key: "".join(pieces) for key, pieces in self._pieces.items()}
        message = {"role": self._message.get("role", "assistant"), **said}
        message |= {key: value for key, value in self._message.items() if key not in message}
        calls = self._calls.content()
        if calls:
            message["tool_calls"] = calls
        told = {"logprobs": self._likelihoods} if self._likelihoods else {}
        return {"message": message, **told, "finish_reason": self.reason, **self._rest}

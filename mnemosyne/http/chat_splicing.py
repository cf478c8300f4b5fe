"""Splice several rounds into one completion: the rules of ``splicing`` for Chat Completions.

The texts of all rounds form one message.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mnemosyne.domain.tools.cleanup_tags import visible
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.chat_history import complete_calls, message_of
from mnemosyne.domain.wire.chat_reply import describe
from mnemosyne.domain.wire.fragments import read_block
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.reply import Reply, as_json
from mnemosyne.http.splicing import Hidden, Message, Rules, list_openai_usage, splice_usage

OF_THE_FIRST_ROUND = ("id", "object", "created", "model")
"""Members taken from the first round, since the client gets them early; all others come from the last round."""

COUNTS = "prompt_tokens", ("completion_tokens",)
"""Members of ``usage`` that ``splice_usage`` takes from the last round, and those that it sums."""

OLD_FORM = "function_call"
"""Where llama-cpp-python repeats a call in the deprecated form."""

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


def list_calls(message: Mapping[str, Any]) -> list[Any]:
    """Return the message's ``tool_calls``, whose elements may be invalid."""
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def is_ours(call: object, hidden: Hidden) -> bool:
    return isinstance(call, dict) and is_hidden(read_block(call), hidden)


def reason_of(completion: Mapping[str, Any]) -> object:
    match completion.get("choices"):
        case [{"finish_reason": reason}, *_]:
            return reason
        case _:
            return None


def splice_completion(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Message:
    """Splice the rounds into one completion; if it would have no text and no call, add a notice."""
    message = splice_messages(rounds, hidden)
    reason = splice_reason(reason_of(rounds[-1]), message)
    if reason == "stop" and not (message.get("content") or message.get("refusal") or message.get("tool_calls")):
        message["content"] = NO_CONTENT
    first = {key: rounds[0][key] for key in OF_THE_FIRST_ROUND if key in rounds[0]}
    choice = {**rounds[-1]["choices"][0], "message": message, "finish_reason": reason}
    if "logprobs" in choice:
        choice["logprobs"] = splice_likelihoods(rounds, hidden)
    used = {"usage": splice_usage([one.get("usage") for one in rounds], *COUNTS)} if "usage" in rounds[-1] else {}
    return {**rounds[-1], **first, "choices": [choice], **used}


def cut_short(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Reply:
    """Return the client's part of an unfinished reply."""
    begun = [completion for completion in rounds if completion] or [{}]
    if not any(map(message_of, begun)):
        return describe(begun[-1], as_json(begun[-1]), complete=False)
    choice = {"index": 0, "message": splice_messages(begun, hidden), "finish_reason": None}
    message = {**begun[0], "choices": [choice]}
    return describe(message, as_json(message), complete=False)


def splice_messages(rounds: Sequence[Message], hidden: Hidden) -> Message:
    """Return one message of all rounds without hidden calls and cleanup blocks."""
    messages = [message_of(completion) for completion in rounds]
    made = {**messages[-1], "role": "assistant"}
    for key in _TEXTS:
        texts = [message[key] for message in messages if message.get(key)]
        if texts and all(isinstance(text, str) for text in texts):
            made[key] = "".join(map(visible, texts) if key == "content" else texts)
    calls = [call for message in messages for call in list_calls(message) if not is_ours(call, hidden)]
    if not calls and list_calls(made):
        del made["tool_calls"]
    match made.get(OLD_FORM):
        case {"name": str(name)} if name in hidden:
            del made[OLD_FORM]
    return {**made, "tool_calls": calls} if calls else made


def is_shown_whole(completion: Message, hidden: Hidden) -> bool:
    """Whether the client sees the whole completion."""
    return splice_messages([completion], hidden) == {**message_of(completion), "role": "assistant"}


def splice_likelihoods(rounds: Sequence[Message], hidden: Hidden) -> Message | None:
    """Join the ``logprobs`` of the rounds that the client sees whole, because some servers include those of calls; None
    without any.
    """
    joined: Message = {}
    for completion in rounds:
        likelihoods = completion["choices"][0].get("logprobs")
        if isinstance(likelihoods, dict) and is_shown_whole(completion, hidden):
            for key, tokens in likelihoods.items():
                joined[key] = [*(joined.get(key) or ()), *tokens] if isinstance(tokens, list) else joined.get(key)
    return joined or None


def splice_reason(reason: object, message: Message) -> object:
    """Return the finish reason, or ``stop`` for ``tool_calls`` without a visible call."""
    return "stop" if reason == "tool_calls" and not message.get("tool_calls") else reason


RULES = Rules(
    dialect=CHAT,
    is_reply=lambda completion: bool(message_of(completion)),
    has_client_call=lambda completion, hidden: any(
        isinstance(call, dict) and not is_ours(call, hidden) for call in list_calls(message_of(completion))
    ),
    is_shown_whole=is_shown_whole,
    splice=splice_completion,
    cut_short=cut_short,
    list_hidden_usage=list_openai_usage,
    describe=lambda completion, complete: describe(completion, as_json(completion), complete=complete),
    complete=complete_calls,
)

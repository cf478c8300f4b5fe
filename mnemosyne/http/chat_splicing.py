"""One completion for the client, made of several rounds with the provider: what is hidden and what the end must say.

These are the rules of ``splicing`` in the words of Chat Completions. The texts of all rounds are one message's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.tools.cleanup_tags import visible
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.chat_history import complete_calls, message_of
from mnemosyne.domain.wire.chat_reply import describe, usage_of
from mnemosyne.domain.wire.fragments import read_block
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.http.splicing import Hidden, Message, Rules, list_given

OF_THE_FIRST_ROUND = ("id", "object", "created", "model")
"""What the client is told before later rounds are known; every other member of a completion is the last round's."""

OLD_FORM = "function_call"
"""Where llama-cpp-python says a call once more, in the form that is out of date."""

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


def list_calls(message: Mapping[str, Any]) -> list[Any]:
    """What stands where the calls of a message do; some of it may be none."""
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def is_ours(call: object, hidden: Hidden) -> bool:
    """Whether it calls one of these tools."""
    return isinstance(call, dict) and is_hidden(read_block(call), hidden)


def reason_of(completion: Mapping[str, Any]) -> object:
    """Why a completion finished."""
    match completion.get("choices"):
        case [{"finish_reason": reason}, *_]:
            return reason
        case _:
            return None


def splice_completion(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Message:
    """The one completion that these rounds are to the client; one that would hold no words and no call says so."""
    message = splice_messages(rounds, hidden)
    reason = splice_reason(reason_of(rounds[-1]), message)
    if reason == "stop" and not (message.get("content") or message.get("refusal") or message.get("tool_calls")):
        message["content"] = NO_CONTENT
    first = {key: rounds[0][key] for key in OF_THE_FIRST_ROUND if key in rounds[0]}
    choice = {**rounds[-1]["choices"][0], "message": message, "finish_reason": reason}
    if "logprobs" in choice:
        choice["logprobs"] = splice_likelihoods(rounds, hidden)
    used = {"usage": splice_usage([each.get("usage") for each in rounds])} if "usage" in rounds[-1] else {}
    return {**rounds[-1], **first, "choices": [choice], **used}


def cut_short(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Reply:
    """What the client sees of a reply that has not ended."""
    begun = [each for each in rounds if each] or [{}]
    if not any(map(message_of, begun)):
        return describe(begun[-1], complete=False)
    choice = {"index": 0, "message": splice_messages(begun, hidden), "finish_reason": None}
    return describe({**begun[0], "choices": [choice]}, complete=False)


def splice_messages(rounds: Sequence[Message], hidden: Hidden) -> Message:
    """The message of all rounds without hidden calls and cleanup blocks."""
    messages = [message_of(each) for each in rounds]
    made = {**messages[-1], "role": "assistant"}
    for key in _TEXTS:
        texts = [each[key] for each in messages if each.get(key)]
        if texts and all(isinstance(text, str) for text in texts):
            made[key] = "".join(map(visible, texts) if key == "content" else texts)
    calls = [call for each in messages for call in list_calls(each) if not is_ours(call, hidden)]
    if not calls and list_calls(made):
        del made["tool_calls"]
    match made.get(OLD_FORM):
        case {"name": str(name)} if name in hidden:
            del made[OLD_FORM]
    return {**made, "tool_calls": calls} if calls else made


def is_shown_whole(completion: Message, hidden: Hidden) -> bool:
    """Whether the client sees all that a completion says."""
    return splice_messages([completion], hidden) == {**message_of(completion), "role": "assistant"}


def splice_likelihoods(rounds: Sequence[Message], hidden: Hidden) -> Message | None:
    """The ``logprobs`` of the rounds of which the client sees all, since some servers tell those of calls, too; None
    where there are none.
    """
    told: Message = {}
    for each in rounds:
        likelihoods = each["choices"][0].get("logprobs")
        if isinstance(likelihoods, dict) and is_shown_whole(each, hidden):
            for key, tokens in likelihoods.items():
                told[key] = [*(told.get(key) or ()), *tokens] if isinstance(tokens, list) else told.get(key)
    return told or None


def splice_reason(reason: object, message: Message) -> object:
    """The reason to finish, if it fits what the client sees: ``tool_calls`` needs a call."""
    return "stop" if reason == "tool_calls" and not message.get("tool_calls") else reason


def splice_usage(rounds: Sequence[object]) -> object:
    """The ``usage`` of a reply that took these rounds: the last one's prompt, because clients compact their history by
    it, and what all of them produced. A single round's is its own.
    """
    counted = [each for each in rounds if isinstance(each, dict)]
    last = rounds[-1]
    if len(rounds) == 1 or not isinstance(last, dict):
        return last
    produced = sum(_number(each.get("completion_tokens")) for each in counted)
    return {**last, "completion_tokens": produced, "total_tokens": _number(last.get("prompt_tokens")) + produced}


def list_hidden_usage(rounds: Sequence[Message], itemized: bool) -> list[Tokens]:
    """What the model was given in rounds of which ``splice_usage`` does not tell that."""
    return list_given(tokens_of(usage_of(each.get("usage"))) for each in rounds[:-1])


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


RULES = Rules(
    dialect=CHAT,
    is_reply=lambda completion: bool(message_of(completion)),
    has_client_call=lambda completion, hidden: any(
        isinstance(call, dict) and not is_ours(call, hidden) for call in list_calls(message_of(completion))
    ),
    is_shown_whole=is_shown_whole,
    splice=splice_completion,
    cut_short=cut_short,
    list_hidden_usage=list_hidden_usage,
    describe=lambda completion, complete: describe(completion, complete=complete),
    complete=complete_calls,
)

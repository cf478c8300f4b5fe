"""A completion on its way to the client, streamed or whole, sans-I/O.

What ``stream_rewriter`` does for the Messages API, in the chunks of Chat Completions: calls of hidden tools are left
out, the others are numbered on, later rounds' chunks say the first one's id, and there is one reason to finish and one
end. Chunks that are not ours to change keep their raw bytes. ``chat_splicing`` has the rules.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.chat_history import complete_calls, message_of
from mnemosyne.domain.wire.chat_reply import ChatReply, describe
from mnemosyne.domain.wire.reply import Reply, as_json
from mnemosyne.http import chat_splicing as splicing
from mnemosyne.http.errors import complete_error, cut_error
from mnemosyne.http.splicing import FailedBeforeOutput, Message, Next
from mnemosyne.http.sse import Frame, FrameReader, event_of, write
from mnemosyne.http.stream_rewriter import EndOfReply, Output, Sending, ToClient
from mnemosyne.http.tag_hiding import ChatTexts, TagHiding, Taken

DONE = b"data: [DONE]\n\n"


class ChatRewriter:
    """Passes one streamed completion on, and reads its current round into ``reply``.

    How it is fed, and how the rounds follow each other, is as with StreamRewriter.

    Laws: without a call of a hidden tool and a cleanup block the outputs, joined, are what was fed; and no output
    depends on where the network cut the stream.
    """

    def __init__(self, hidden: frozenset[str], *, itemized: bool = False) -> None:
        self.reply = ChatReply()
        self._frames = FrameReader()
        self._tags = TagHiding(ChatTexts())
        self._hidden = hidden
        self._held: list[bytes] | None = []
        """Frames that wait for the first visible chunk; None once something has been sent."""
        self._spliced = False
        """Whether the client gets other chunks than those of the one round so far."""
        self._rounds: list[Message] = []
        """The completions of the rounds that have ended."""
        self._waiting = False
        """Whether the current round has ended and another must follow."""
        self._over = False
        """Whether the whole reply has ended or failed."""
        self._shown: Message | None = None
        """What the client was shown, once that is complete."""
        self._shows_round = False
        self._next_call = 0
        self._calls: dict[int, int | None] = {}
        """The client's number for each call of the current round, by the provider's; None for a hidden one."""
        self._last: list[tuple[Frame, Message]] = []
        """The chunks that are kept back until it is known how the round ends: the reason to finish, the usage."""

    @property
    def shows_round(self) -> bool:
        """Whether the client has been shown anything of the current round."""
        return self._shows_round

    @property
    def failed(self) -> bool:
        """Whether the provider said that the reply has failed."""
        return self._over and self._shown is None

    def feed(self, data: bytes) -> list[Output]:
        """Take the next bytes from the provider; return what they allow to be sent."""
        sending = Sending()
        for frame in self._frames.feed(data):
            event = event_of(frame)
            if event is not None:
                self.reply.take(event)
            if self._over or self._waiting:
                if not self._spliced:
                    sending.add(frame.raw)  # whatever follows the end
            elif (frame.data or b"").strip() == b"[DONE]":
                self._end_round(frame.raw, sending)
            else:
                self._take_visible(self._tags.take(frame, event or {}), sending)
        return sending.outputs()

    def close(self) -> list[Output]:
        """The round's stream has ended, in good order or not. Not every server says so: a reply may be whole without
        its last frame.
        """
        rest, self._frames.rest = self._frames.rest, b""
        sending = Sending()
        if self._over or self._waiting:
            sending.add(b"" if self._spliced else rest)
            return sending.outputs()
        if self.reply.ended:
            self._end_round(rest, sending)
            return sending.outputs()
        if self._tags.holds_text or self._hides_any:
            rest = b""  # half a frame, in which a call or a cleanup block may go on
        self._take_visible(self._tags.end(), sending)
        if self._spliced:
            return [*sending.outputs(), *self.fail(cut_error(CHAT))]
        if self._held is not None:
            return [*sending.outputs(), self._fail(rest, cut_error(CHAT))]
        sending.add(rest)
        return sending.outputs()

    def cut(self) -> list[Output]:
        """The round's stream broke off, which says as much as that it ended."""
        return self.close()

    def next_round(self) -> None:
        """The hidden calls are answered; what is fed from here on is the reply to that, or to another try."""
        self.reply = ChatReply()
        self._frames = FrameReader()
        self._tags = TagHiding(ChatTexts())
        self._waiting = self._over = self._shows_round = False
        self._calls.clear()
        self._last.clear()

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        sending = Sending()
        self._finish(sending)
        sending.add_output(EndOfReply(DONE))
        return sending.outputs()

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error: the body that came instead, or one of our own."""
        error = complete_error(error, CHAT)
        return [self._fail(_frame_of(error), error)]

    def ping(self) -> bytes:
        """A comment, which says no more than that we are here; nothing before the reply has begun and after its end."""
        if self._over or self._held == []:
            return b""
        return self._let_go() + b": ping\n\n"

    def visible(self) -> Reply:
        """The reply as the client sees it, as far as it has got."""
        if self._shown is not None:
            return describe(self._shown, complete=True)
        rounds = self._rounds if self._waiting else [*self._rounds, self.reply.message()]
        return splicing.cut_short(rounds, self._hidden)

    def list_untold(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return splicing.list_untold(self._rounds)

    # One chunk

    @property
    def _hides_any(self) -> bool:
        return None in self._calls.values()

    def _take_visible(self, frames: Iterable[Taken], sending: Sending) -> None:
        """The chunks of a round without its cleanup blocks."""
        self._spliced = self._spliced or self._tags.hid
        for frame, event in frames:
            self._take(frame, event, sending)

    def _take(self, frame: Frame, event: Message, sending: Sending) -> None:
        if "error" in event:
            sending.add_output(self._fail(frame.raw, frame.data or b""))
            return
        choice = _choice_of(event)
        shown = self._show(event, choice)
        if self._spliced and (choice.get("finish_reason") is not None or ("usage" in event and not choice)):
            self._last.append((frame, event))
            shown = self._without_reason(shown)
        if shown is None:
            return
        raw = frame.raw if shown == event else _frame_of(as_json(shown))
        if _says(shown):
            self._shows_round = True
            sending.add(self._let_go() + raw)
        elif self._rounds and not self._shows_round and _choice_of(shown):
            return  # a later round's beginning
        else:
            self._pass(raw, sending)

    def _show(self, event: Message, choice: Message) -> Message | None:
        """The chunk as the client sees it; None where nothing is left of it."""
        told = event
        delta = choice.get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("tool_calls"), list):
            calls = [call for each in enumerate(delta["tool_calls"]) for call in self._number(*each)]
            if calls != delta["tool_calls"]:
                kept = {key: value for key, value in delta.items() if key != "tool_calls"}
                told = _with_delta(event, {**kept, **({"tool_calls": calls} if calls else {})})
                if not calls and not any(kept.values()) and choice.get("finish_reason") is None:
                    return None
        if self._rounds:
            first = {key: self._rounds[0][key] for key in ("id", "created", "model") if key in self._rounds[0]}
            told = {**told, **{key: value for key, value in first.items() if key in told}}
        return told

    def _number(self, position: int, call: object) -> Iterable[Message]:
        """A piece of a call with the client's number; nothing where it is hidden."""
        if not isinstance(call, dict):
            return
        said = call.get("index")
        index = said if isinstance(said, int) else position
        if index not in self._calls:
            if splicing.is_ours(call, self._hidden):
                self._spliced, self._calls[index] = True, None
            else:
                self._calls[index] = self._next_call if self._spliced else index
                self._next_call = max(self._next_call, (self._calls[index] or 0) + 1)
        number = self._calls[index]
        if number is not None:
            yield call if number == said or (said is None and number == position) else {**call, "index": number}

    def _without_reason(self, event: Message | None) -> Message | None:
        """What a chunk says beside the reason to finish and the usage, which wait for the end."""
        if event is None or not _says(event):
            return None
        [first, *_] = event["choices"]
        told = {**event, "choices": [{**first, "finish_reason": None}]}
        return {key: value for key, value in told.items() if key != "usage"}

    def _pass(self, raw: bytes, sending: Sending) -> None:
        if self._held is not None:
            self._held.append(raw)
        else:
            sending.add(raw)

    def _let_go(self) -> bytes:
        held, self._held = b"".join(self._held or ()), None
        return held

    def _fail(self, raw: bytes, error: bytes) -> FailedBeforeOutput | ToClient:
        self._over = True
        if self._held is None:
            return ToClient(raw)
        return FailedBeforeOutput(b"".join(self._held) + raw, error)

    # The end of a round and of the reply

    def _end_round(self, done: bytes, sending: Sending) -> None:
        self._take_visible(self._tags.end(), sending)
        completion = complete_calls(self.reply.message(), self._hidden)
        if not message_of(completion):  # an end, and nothing before it
            self._over = True
            self._pass(done, sending)
            sending.add(self._let_go())
            return
        self._rounds.append(completion)
        end = splicing.end_of_round(completion, self._hidden)
        if end.next is Next.CONTINUE:
            self._spliced = self._waiting = True
            sending.add_output(end)
            return
        self._finish(sending)
        sending.add_output(end)
        sending.add_output(EndOfReply(done or DONE if self._spliced else done))

    def _finish(self, sending: Sending) -> None:
        """Everything that is left to say, up to the last frame."""
        self._over, self._waiting = True, False
        sending.add(self._let_go())
        if not self._spliced:
            self._shown = self._rounds[-1]
            return
        self._shown = splicing.splice_completion(self._rounds, self._hidden)
        said = splicing.splice_messages(self._rounds, self._hidden)
        message = self._shown["choices"][0]["message"]
        if message.get("content") != said.get("content"):
            sending.add(self._chunk({"choices": [{"index": 0, "delta": {"content": message["content"]}}]}))
        reason = self._shown["choices"][0]["finish_reason"]
        for frame, event in self._last:
            sending.add(self._tell_end(frame, event, reason))

    def _tell_end(self, frame: Frame, event: Message, reason: object) -> bytes:
        """One of the chunks that were kept back, as it came if it says what the client is to be told."""
        told = self._show(event, {}) or event
        choice = _choice_of(event)
        if choice:
            told = {**told, "choices": [{**choice, "delta": {}, "finish_reason": reason}]}
        if isinstance(event.get("usage"), dict) and self._shown is not None:
            told = {**told, "usage": self._shown.get("usage")}
        return frame.raw if told == event else _frame_of(as_json(told))

    def _chunk(self, event: Message) -> bytes:
        """A chunk of ours."""
        first = {key: self._rounds[0][key] for key in ("id", "created", "model") if key in self._rounds[0]}
        return _frame_of(as_json({**first, "object": "chat.completion.chunk", **event}))


class WholeChat:
    """Collects one whole completion into ``reply``; fed as WholeReply is, with the same law."""

    shows_round = False
    failed = False

    def __init__(self, hidden: frozenset[str], *, itemized: bool = False) -> None:
        self.reply = ChatReply()
        self._hidden = hidden
        self._rounds: list[Message] = []
        self._shown: Message = {}

    def feed(self, data: bytes) -> list[Output]:
        """Take the next bytes from the provider; none may leave yet."""
        self.reply.take_raw(data)
        return []

    def close(self) -> list[Output]:
        """The round's body is complete."""
        self.reply.end_raw()
        completion, body = complete_calls(self.reply.message(), self._hidden), self.reply.result().body
        if not message_of(completion):
            if self._rounds:
                return self.fail(body if "error" in completion else cut_error(CHAT))
            self._shown = completion
            return [EndOfReply(body)]
        self._rounds.append(completion)
        end = splicing.end_of_round(completion, self._hidden)
        if end.next is Next.CONTINUE:
            return [end]
        seen = splicing.splice_messages(self._rounds, self._hidden)
        if len(self._rounds) == 1 and seen == {**message_of(completion), "role": "assistant"}:
            self._shown = completion
            return [end, EndOfReply(body)]
        return [end, *self.end_now()]

    def cut(self) -> list[Output]:
        """The round's body broke off: what there is of it, and no end."""
        if self._rounds:
            return self.fail(cut_error(CHAT))
        return [ToClient(output.raw) for output in self.close() if output.raw]

    def next_round(self) -> None:
        """The hidden calls are answered; what is fed from here on is the reply to that, or to another try."""
        self.reply = ChatReply()

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        self._shown = splicing.splice_completion(self._rounds, self._hidden)
        return [EndOfReply(as_json(self._shown))]

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error."""
        error = complete_error(error, CHAT)
        return [FailedBeforeOutput(error, error)]

    def ping(self) -> bytes:
        """Nothing can be said before the body."""
        return b""

    def visible(self) -> Reply:
        """The reply as the client sees it; empty while it is not complete."""
        return describe(self._shown, complete=bool(self._shown))

    def list_untold(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return splicing.list_untold(self._rounds)


def _choice_of(event: Mapping[str, Any]) -> Message:
    match event.get("choices"):
        case [dict(choice), *_]:
            return choice
        case _:
            return {}


def _with_delta(event: Message, delta: Message) -> Message:
    first, *rest = event["choices"]
    return {**event, "choices": [{**first, "delta": delta}, *rest]}


def _says(event: Message) -> bool:
    """Whether a chunk says anything beside who speaks."""
    delta = _choice_of(event).get("delta")
    return isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")


def _frame_of(data: bytes) -> bytes:
    return write(b"", data)

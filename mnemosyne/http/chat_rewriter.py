"""Rewrite a completion's event stream, sans-I/O: the Chat Completions part of ``spliced_stream``.

It drops calls of hidden tools, renumbers the others, gives the chunks of later rounds the first round's id, and writes
one finish reason and one end. Chunks without changes keep their raw bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mnemosyne.domain.wire.chat_calls import Call, Calls
from mnemosyne.domain.wire.chat_history import message_of
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.http import chat_splicing as splicing
from mnemosyne.http.spliced_stream import SplicedStream
from mnemosyne.http.splicing import Hidden, Message, Sending
from mnemosyne.http.sse import COMMENT, Frame, write
from mnemosyne.http.tag_hiding import ChatTexts, choice_of

DONE = b"data: [DONE]\n\n"


class ChatRewriter(SplicedStream):
    """Rewrites one streamed completion."""

    rules = splicing.RULES
    texts = ChatTexts
    ping_frame = COMMENT

    def __init__(self, hidden: Hidden, *, itemized: bool = False) -> None:
        self._next_call = 0
        super().__init__(hidden, itemized=itemized)

    def _begin_round(self) -> None:
        self._shows_round = False
        self._calls = Calls()
        self._numbers: dict[int, int | None] = {}
        """The client's index of each visible call of this round, by position; None if the provider's is kept."""
        self._unnamed: set[int] = set()
        """Calls whose name may still be incomplete."""
        self._last: list[tuple[Frame, Message]] = []
        """Held chunks with the finish reason and usage, until it is known how the round ends."""

    @property
    def shows_round(self) -> bool:
        """Whether the client has received anything of the current round."""
        return self._shows_round

    def _has_stop_reason(self) -> bool:
        return self.reply.result().complete

    # One chunk

    def _hides(self, event: Message) -> bool:
        return any(splicing.is_ours(call, self._hidden) for call in _calls_in(choice_of(event)))

    def _take(self, frame: Frame, event: Message, sending: Sending) -> None:
        if self._over or self._waiting or (frame.data or b"").strip() != b"[DONE]":
            super()._take(frame, event, sending)
        else:
            self._end_round(frame, event, sending)

    def _find_place(self, event: Message) -> Sequence[Call | None]:
        pieces = _calls_in(choice_of(event))
        calls = self._calls.take(pieces) if pieces else ()
        for call in calls:
            if call is not None and self._may_be_hidden(call):
                self._unnamed.add(call.number)
            elif call is not None:
                self._unnamed.discard(call.number)
        return calls

    def _may_be_hidden(self, call: Call) -> bool:
        """Whether the rest of its name decides if the call is hidden."""
        if call.name and call.written.begun:
            return False
        return not call.name or any(name != call.name and name.startswith(call.name) for name in self._hidden)

    def _is_unsettled(self, frame: Frame, event: Message) -> bool:
        return bool(self._unnamed) and choice_of(event).get("finish_reason") is None and "error" not in event

    def _take_of_round(self, frame: Frame, event: Message, place: Sequence[Call | None], sending: Sending) -> None:
        if "error" in event:
            sending.add_output(self._fail(frame.raw, frame.data or b""))
            return
        choice = choice_of(event)
        shown = self._show(event, choice, place)
        if self._spliced and (choice.get("finish_reason") is not None or ("usage" in event and not choice)):
            self._last.append((frame, event))
            shown = self._without_reason(shown)
        if shown is None:
            return
        raw = frame.raw if shown == event else _frame_of(as_json(shown))
        if _says(shown):
            self._shows_round = True
            sending.add(self._let_go() + raw)
        elif self._rounds and not self._shows_round and choice_of(shown):
            return  # the start of a later round
        else:
            self._pass(raw, sending)

    def _show(self, event: Message, choice: Message, owners: Sequence[Call | None]) -> Message | None:
        """Return the chunk as the client sees it, or None if nothing of it is visible."""
        shown = event
        delta = choice.get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("tool_calls"), list):
            pieces = zip(delta["tool_calls"], owners, strict=True)
            calls = [numbered for piece, call in pieces for numbered in self._number(piece, call)]
            if calls != delta["tool_calls"]:
                dropped = {"tool_calls", *([splicing.OLD_FORM] if len(calls) < len(delta["tool_calls"]) else ())}
                kept = {key: value for key, value in delta.items() if key not in dropped}
                shown = _with_delta(event, {**kept, **({"tool_calls": calls} if calls else {})})
                if not calls and not any(kept.values()) and choice.get("finish_reason") is None:
                    return None
        if self._rounds:
            first = {key: self._rounds[0][key] for key in ("id", "created", "model") if key in self._rounds[0]}
            shown = {**shown, **{key: value for key, value in first.items() if key in shown}}
        return shown

    def _number(self, piece: Any, call: Call | None) -> Iterable[object]:
        """Yield a piece of a call with the client's index, or nothing if the call is hidden."""
        if call is None:
            yield piece  # not a call
            return
        if call.name in self._hidden:
            self._spliced = True
            return
        if call.number not in self._numbers:
            number = self._next_call if self._spliced or call.index is None else call.index
            self._numbers[call.number] = number if self._spliced else None
            self._next_call = max(self._next_call, number) + 1
        number_or_none = self._numbers[call.number]
        yield piece if number_or_none in (None, piece.get("index")) else {**piece, "index": number_or_none}

    def _without_reason(self, event: Message | None) -> Message | None:
        """Return the chunk without finish reason and usage, which are held until the end; None if nothing is left."""
        if event is None or not _says(event):
            return None
        [first, *_] = event["choices"]
        shown = {**event, "choices": [{**first, "finish_reason": None}]}
        return {key: value for key, value in shown.items() if key != "usage"}

    def _report_end(self, frame: Frame, event: Message, reason: object) -> bytes:
        """Write one of the held chunks with the final reason and usage; unchanged chunks keep their bytes."""
        shown = self._show(event, {}, ()) or event
        choice = choice_of(event)
        if choice:
            shown = {**shown, "choices": [{**choice, "delta": {}, "finish_reason": reason}]}
        if isinstance(event.get("usage"), dict) and self._shown is not None:
            shown = {**shown, "usage": self._shown.get("usage")}
        return frame.raw if shown == event else _frame_of(as_json(shown))

    def _chunk(self, event: Message) -> bytes:
        """Write a chunk of the proxy's own."""
        first = {key: self._rounds[0][key] for key in ("id", "created", "model") if key in self._rounds[0]}
        return _frame_of(as_json({**first, "object": "chat.completion.chunk", **event}))

    # The end of a round and of the reply

    def _end_round(self, frame: Frame, event: Message, sending: Sending) -> None:
        self._take_visible(self._tags.end(), sending)
        self._settle(sending)
        if message_of(self.reply.message()):
            super()._end_round(frame, event, sending)
            return
        self._over = True  # the stream ended without content
        self._pass(frame.raw, sending)
        sending.add(self._let_go())

    def _write_last(self, frame: Frame, event: Message) -> bytes:
        return frame.raw or DONE if self._spliced else frame.raw

    def _send_rest(self, shown: Message, sending: Sending) -> None:
        sent = splicing.splice_messages(self._rounds, self._hidden)
        message, reason = shown["choices"][0]["message"], shown["choices"][0]["finish_reason"]
        if message.get("content") != sent.get("content"):
            sending.add(self._chunk({"choices": [{"index": 0, "delta": {"content": message["content"]}}]}))
        for frame, event in self._last:
            sending.add(self._report_end(frame, event, reason))

    def _write_end(self) -> bytes:
        return DONE

    def _write_failure(self, error: bytes) -> bytes:
        return _frame_of(error)


def _calls_in(choice: Mapping[str, Any]) -> list[Any]:
    """Return the call fragments in a chunk."""
    delta = choice.get("delta")
    return splicing.list_calls(delta) if isinstance(delta, dict) else []


def _with_delta(event: Message, delta: Message) -> Message:
    first, *rest = event["choices"]
    return {**event, "choices": [{**first, "delta": delta}, *rest]}


def _says(event: Message) -> bool:
    """Whether a chunk has any content beyond the role."""
    delta = choice_of(event).get("delta")
    return isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")


def _frame_of(data: bytes) -> bytes:
    return write(b"", data)

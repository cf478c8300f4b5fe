"""The event stream of a response on its way to the client, sans-I/O: bytes in, outputs out.

What ``stream_rewriter`` does for the Messages API, in the events of the Responses API: items of hidden calls are left
out, those of later rounds are numbered on, as are the events themselves, and there is one beginning and one end. Frames
that are not ours to change keep their raw bytes. ``responses_splicing`` has the rules.
"""

from collections.abc import Iterable, Mapping

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.tools.cleanup_tags import visible
from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.reply import Reply, as_json, json_object
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.responses_items import is_hidden, items_of
from mnemosyne.domain.wire.responses_reply import ResponsesReply, describe
from mnemosyne.http import responses_splicing as splicing
from mnemosyne.http.errors import complete_error, cut_error
from mnemosyne.http.splicing import FailedBeforeOutput, Message, Next
from mnemosyne.http.sse import Frame, FrameReader, event_of, write
from mnemosyne.http.stream_rewriter import EndOfReply, Output, Sending, ToClient
from mnemosyne.http.tag_hiding import ResponsesTexts, TagHiding, Taken, kind_of

_BEGINNINGS = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDINGS = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"response.failed", "error"})
_PLACES = frozenset({"response.output_item.added", "response.output_item.done"})


class ResponsesRewriter:
    """Passes one streamed response on, and reads its current round into ``reply``.

    How it is fed, and how the rounds follow each other, is as with StreamRewriter.

    Laws: without a call of a hidden tool, and where the response does not name ours among its tools, the outputs,
    joined, are what was fed; no output depends on where the network cut the stream; what the client gets counts its
    events and items without a gap where the provider does.
    """

    def __init__(self, hidden: frozenset[str], *, itemized: bool = False) -> None:
        self.reply = ResponsesReply()
        self._frames = FrameReader()
        self._tags = TagHiding(ResponsesTexts())
        self._hidden = hidden
        self._held: list[bytes] | None = []
        """Frames that wait for the first visible event; None once something has been sent."""
        self._spliced = False
        """Whether the client gets other events than those of the one round so far."""
        self._rounds: list[Message] = []
        """The responses of the rounds that have ended."""
        self._waiting = False
        """Whether the current round has ended and another must follow."""
        self._over = False
        """Whether the whole reply has ended or failed."""
        self._shown: Message | None = None
        """What the client was shown, once that is complete."""
        self._next_index = 0
        self._indices: dict[int, int] = {}
        """The client's number for each visible item of the current round, by the provider's."""
        self._hidden_indices: set[int] = set()
        self._next_event: int | None = None
        """The number of the next event; None where they have none."""

    def feed(self, data: bytes) -> list[Output]:
        """Take the next bytes from the provider; return what they allow to be sent."""
        sending = Sending()
        for frame in self._frames.feed(data):
            event = event_of(frame)
            if event is not None:
                self.reply.take(event)
            self._take(frame, event or {}, sending)
        return sending.outputs()

    def _take(self, frame: Frame, event: Message, sending: Sending) -> None:
        if not self._over and not self._waiting:
            self._take_visible(self._tags.take(frame, event), sending)
        elif not self._spliced:
            sending.add(frame.raw)  # whatever follows the end

    def _take_visible(self, frames: Iterable[Taken], sending: Sending) -> None:
        """The frames of a round without its cleanup blocks."""
        self._spliced = self._spliced or self._tags.hid
        for frame, event in frames:
            self._take_of_round(frame, event, sending)

    def close(self) -> list[Output]:
        """The round's stream has ended, in good order or not; return what was held back, or the failure that it is."""
        rest, self._frames.rest = self._frames.rest, b""
        if self._tags.holds_text:
            rest = b""  # half a frame, in which a cleanup block may begin
        sending = Sending()
        self._take_visible(self._tags.end(), sending)
        if self._spliced:
            return sending.outputs() + ([] if self._over or self._waiting else self.fail(cut_error(RESPONSES)))
        if self._held is not None and not self._over:
            return [*sending.outputs(), self._fail(rest, cut_error(RESPONSES))]
        sending.add(rest)
        return sending.outputs()

    def cut(self) -> list[Output]:
        """The round's stream broke off, which says as much as that it ended."""
        return self.close()

    def next_round(self) -> None:
        """The hidden calls are answered; what is fed from here on is the reply to that, or to another try."""
        self.reply = ResponsesReply()
        self._frames = FrameReader()
        self._tags = TagHiding(ResponsesTexts())
        self._waiting = self._over = False
        self._indices.clear()
        self._hidden_indices.clear()

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        sending = Sending()
        shown = self._finish(sending)
        sending.add_output(EndOfReply(self._make("response.completed", {"response": shown})))
        return sending.outputs()

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error: the body that came instead, or one of our own."""
        error = complete_error(error, RESPONSES)
        return [self._fail(self._make_failure(json_object(error)["error"]), error)]

    def ping(self) -> bytes:
        """A comment, which says no more than that we are here; nothing before the reply has begun and after its end."""
        if self._over or self._held == []:
            return b""
        return self._let_go() + b": ping\n\n"

    @property
    def shows_round(self) -> bool:
        """Whether the client has been shown any item of the current round."""
        return bool(self._indices)

    @property
    def failed(self) -> bool:
        """Whether the provider said that the reply has failed."""
        return self._over and self._shown is None

    def visible(self) -> Reply:
        """The reply as the client sees it, as far as it has got."""
        if self._shown is not None:
            return describe(self._shown, as_json(self._shown), complete=True)
        return splicing.cut_short(
            self._rounds if self._waiting else [*self._rounds, self.reply.message()], self._hidden
        )

    def list_untold(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return splicing.list_untold(self._rounds)

    # One frame

    def _take_of_round(self, frame: Frame, event: Message, sending: Sending) -> None:
        kind, index = kind_of(frame, event), event.get("output_index")
        if kind in _ENDINGS:
            self._end_round(frame, event, sending)
        elif kind in _FAILURES:
            sending.add_output(self._fail(self._tell_failure(frame, event), _error_of(event)))
        elif kind in _BEGINNINGS:
            if not self._rounds:
                self._pass(self._write(frame, event), sending)
        elif frame.data is None:
            self._pass(frame.raw, sending)
        elif not isinstance(index, int):
            sending.add(self._let_go() + self._write(frame, event))
        elif not self._hides(kind, index, event):
            shown = self._show(frame, event)
            if shown is not None:
                sending.add(self._let_go() + self._write(*shown, {"output_index": self._number(index)}))

    def _show(self, frame: Frame, event: Message) -> Taken | None:
        """An event that tells again what was said, without cleanup blocks; None where nothing else was said."""
        match event:
            case {"item": dict(item)}:
                told = {**event, "item": splicing.show_item(item)}
            case {"part": dict(part)}:
                told = {**event, "part": splicing.show_part(part)}
            case {"text": str(text)}:
                told = {**event, "text": visible(text)}
            case _:
                return frame, event
        if told == event:
            return frame, event
        self._spliced = True
        data = as_json(told)
        name = frame.event or b""
        return None if told.get("part", told) is None else (Frame(write(name, data), name, data), told)

    def _hides(self, kind: object, index: int, event: Message) -> bool:
        if kind in _PLACES and is_hidden(event.get("item"), self._hidden):
            self._spliced = True
            self._hidden_indices.add(index)
        return index in self._hidden_indices

    def _number(self, index: int) -> int:
        """The client's number of a visible item."""
        if index not in self._indices:
            self._indices[index] = self._next_index if self._spliced else index
            self._next_index = self._indices[index] + 1
        return self._indices[index]

    def _write(self, frame: Frame, event: Message, changes: Mapping[str, int] | None = None) -> bytes:
        """The frame with these members, its number and without our tools, and not a byte changed beside that."""
        numbers = {**(changes or {}), **self._count(event)}
        data = frame.data or b""
        sent = _replace(data, {key: value for key, value in numbers.items() if event.get(key) != value})
        if isinstance(event.get("response"), dict):
            at = next(each.value_start for each in json_spans.members(sent) or () if each.key == "response")
            sent = splicing.cut_tools(sent, at, self._hidden)
        if sent == data:
            return frame.raw
        place = frame.raw.find(data)
        if place < 0:
            return write(frame.event or b"", sent)
        return frame.raw[:place] + sent + frame.raw[place + len(data) :]

    def _make(self, kind: str, event: Message) -> bytes:
        """An event of ours."""
        numbered = {} if self._next_event is None else {"sequence_number": self._next_event}
        told = {"type": kind, **event, **numbered}
        self._count(told)
        return write(kind.encode(), as_json(told))

    def _count(self, event: Message) -> dict[str, int]:
        """The number of the next event, where events have one."""
        said = event.get("sequence_number")
        if not isinstance(said, int):
            return {}
        number = said if self._next_event is None or not self._spliced else self._next_event
        self._next_event = number + 1
        return {"sequence_number": number}

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

    def _tell_failure(self, frame: Frame, event: Message) -> bytes:
        """What the provider says of its failure, without what is hidden in it."""
        response = event.get("response")
        if not isinstance(response, dict):
            return self._write(frame, event)
        self._spliced = self._spliced or splicing.splice_items([response], self._hidden) != items_of(response)
        if not self._spliced:
            return self._write(frame, event)
        return self._make_failure(response.get("error"))

    def _make_failure(self, error: object) -> bytes:
        failed = splicing.write_failure([*self._rounds, self.reply.message()], error, self._hidden)
        return self._make("response.failed", {"response": failed})

    # The end of a round and of the reply

    def _end_round(self, frame: Frame, event: Message, sending: Sending) -> None:
        response = self.reply.message()
        self._rounds.append(response)
        end = splicing.end_of_round(self.reply.result(), response, self._hidden)
        if end.next is Next.CONTINUE:
            self._spliced = self._waiting = True
            sending.add_output(end)
            return
        self._spliced = self._spliced or splicing.splice_items([response], self._hidden) != items_of(response)
        shown = self._finish(sending)
        sending.add_output(end)
        kind = str(kind_of(frame, event))
        last = self._make(kind, {**event, "response": shown}) if self._spliced else self._write(frame, event)
        sending.add_output(EndOfReply(last))

    def _finish(self, sending: Sending) -> Message:
        """What is left to say before the last event, and the response that this tells."""
        self._over, self._waiting = True, False
        sending.add(self._let_go())
        if not self._spliced:
            self._shown = splicing.without_tools(self._rounds[-1], self._hidden)
            return self._shown
        self._shown = splicing.splice_response(self._rounds, self._hidden)
        for item in self._shown["output"][len(splicing.splice_items(self._rounds, self._hidden)) :]:
            sending.add(b"".join(self._item_frames(item)))
        return self._shown

    def _item_frames(self, item: Message) -> Iterable[bytes]:
        """The frames of a message of ours."""
        index, part = {"output_index": self._next_index}, item["content"][0]
        self._next_index += 1
        here = {**index, "item_id": item["id"], "content_index": 0}
        begun = {**item, "status": "in_progress", "content": []}
        yield self._make("response.output_item.added", {**index, "item": begun})
        yield self._make("response.content_part.added", {**here, "part": {**part, "text": ""}})
        yield self._make("response.output_text.delta", {**here, "delta": part["text"]})
        yield self._make("response.output_text.done", {**here, "text": part["text"]})
        yield self._make("response.content_part.done", {**here, "part": part})
        yield self._make("response.output_item.done", {**index, "item": item})


def _replace(data: bytes, changes: Mapping[str, int]) -> bytes:
    """The JSON object with other numbers; of a repeated member the last one holds, as in every JSON reader."""
    if not changes:
        return data
    found = {member.key: member for member in json_spans.members(data) or ()}
    for member in sorted((found[key] for key in changes), key=lambda each: -each.value_start):
        data = data[: member.value_start] + b"%d" % changes[member.key] + data[member.value_end :]
    return data


def _error_of(event: Message) -> bytes:
    """The body of the plain error that an event tells of."""
    response = event.get("response")
    told = response.get("error") if isinstance(response, dict) else event.get("error") or event
    said = told if isinstance(told, dict) else {}
    return as_json({"error": {**said, "type": said.get("code") or "server_error"}})

"""Rewrite a response's event stream, sans-I/O: the Responses API part of ``spliced_stream``.

It drops items of hidden calls and renumbers the events and the items of later rounds. Frames without changes keep their
raw bytes.
"""

from collections.abc import Iterable, Mapping, Sequence

from mnemosyne.domain.tools.cleanup_tags import visible
from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.places import index_of
from mnemosyne.domain.wire.reply import as_json, json_object
from mnemosyne.domain.wire.responses_items import is_hidden, items_of
from mnemosyne.domain.wire.responses_reply import ItemPlaces
from mnemosyne.http import responses_splicing as splicing
from mnemosyne.http.spliced_stream import SplicedStream
from mnemosyne.http.splicing import Hidden, Message, Sending
from mnemosyne.http.sse import COMMENT, Frame, write
from mnemosyne.http.tag_hiding import ResponsesTexts, Taken, kind_of

_BEGINNINGS = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDINGS = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"response.failed", "error"})


class ResponsesRewriter(SplicedStream):
    """Rewrites one streamed response.

    Invariant: events and items are numbered without gaps if the provider's are.
    """

    rules = splicing.RULES
    texts = ResponsesTexts
    ping_frame = COMMENT

    def __init__(self, hidden: Hidden, *, itemized: bool = False) -> None:
        self._next_index = 0
        self._next_event: int | None = None
        """The number of the next event; None if events have no numbers."""
        super().__init__(hidden, itemized=itemized)

    def _begin_round(self) -> None:
        self._places = ItemPlaces()
        self._indices: dict[int, int] = {}
        """The client's index of each visible item of this round, by position."""
        self._hidden_places: set[int] = set()
        self._unnamed: dict[int, Message] = {}
        """Calls of this round whose name is not known yet."""

    @property
    def shows_round(self) -> bool:
        """Whether the client has received an item of the current round."""
        return bool(self._indices)

    # One frame

    def _find_place(self, event: Message) -> int | None:
        place = self._places.take(event)
        item = event.get("item")
        if place is not None and isinstance(item, dict) and item.get("type") == "function_call":
            if item.get("name"):
                self._unnamed.pop(place, None)
            else:
                self._unnamed[place] = item
            if is_hidden(item, self._hidden):
                self._hidden_places.add(place)
        elif isinstance(event.get("response"), dict) and self._unnamed:
            self._name_calls(items_of(event["response"]))
        return place

    def _name_calls(self, items: Sequence[Message]) -> None:
        """Take the names of calls from the final response, if the calls had none before."""
        for place, begun in self._unnamed.items():
            ids = {begun.get("id"), begun.get("call_id")} - {None}
            named = [item for item in items if ids & {item.get("id"), item.get("call_id")}] or items[place : place + 1]
            if any(is_hidden(item, self._hidden) for item in named):
                self._hidden_places.add(place)

    def _is_unsettled(self, frame: Frame, event: Message) -> bool:
        return bool(self._unnamed) and kind_of(frame, event) not in _ENDINGS | _FAILURES

    def _take_of_round(self, frame: Frame, event: Message, place: int | None, sending: Sending) -> None:
        kind = kind_of(frame, event)
        if kind in _ENDINGS:
            self._end_round(frame, event, sending)
        elif kind in _FAILURES:
            sending.add_output(self._fail(self._send_failure(frame, event), _error_of(event)))
        elif kind in _BEGINNINGS:
            if not self._rounds:
                self._pass(self._write(frame, event), sending)
        elif frame.data is None:
            self._pass(frame.raw, sending)
        elif place is None:
            sending.add(self._let_go() + self._write(frame, event))
        elif place in self._hidden_places:
            self._spliced = True
        else:
            shown = self._show(frame, event)
            if shown is not None:
                number = self._number(place, index_of(event.get("output_index")))
                sending.add(self._let_go() + self._write(*shown, {"output_index": number} if self._spliced else {}))

    def _show(self, frame: Frame, event: Message) -> Taken | None:
        """Return an event that repeats earlier content, without cleanup blocks; None if nothing else is left."""
        match event:
            case {"item": dict(item)}:
                shown = {**event, "item": splicing.show_item(item)}
            case {"part": dict(part)}:
                shown = {**event, "part": splicing.show_part(part)}
            case {"text": str(text)}:
                shown = {**event, "text": visible(text)}
            case _:
                return frame, event
        if shown == event:
            return frame, event
        self._spliced = True
        data = as_json(shown)
        name = frame.event or b""
        return None if shown.get("part", shown) is None else (Frame(write(name, data), name, data), shown)

    def _hides(self, event: Message) -> bool:
        return is_hidden(event.get("item"), self._hidden)

    def _number(self, place: int, index: int | None) -> int:
        """Return the client's index of a visible item."""
        if place not in self._indices:
            number = self._next_index if self._spliced or index is None else index
            self._indices[place] = number
            self._next_index = max(self._next_index, number) + 1
        return self._indices[place]

    def _write(self, frame: Frame, event: Message, changes: Mapping[str, int] | None = None) -> bytes:
        """Return the frame with these changes, its number and without memory tools; all other bytes stay the same."""
        numbers = {**(changes or {}), **self._count(event)}
        data = frame.data or b""
        sent = _replace(data, {key: value for key, value in numbers.items() if event.get(key) != value})
        if isinstance(event.get("response"), dict):
            at = next(member.value_start for member in json_spans.members(sent) or () if member.key == "response")
            sent = splicing.cut_tools(sent, at, self._hidden)
        if sent == data:
            return frame.raw
        place = frame.raw.find(data)
        if place < 0:
            return write(frame.event or b"", sent)
        return frame.raw[:place] + sent + frame.raw[place + len(data) :]

    def _make(self, kind: str, event: Message) -> bytes:
        """Write an event of the proxy's own."""
        numbered = {} if self._next_event is None else {"sequence_number": self._next_event}
        own = {"type": kind, **event, **numbered}
        self._count(own)
        return write(kind.encode(), as_json(own))

    def _count(self, event: Message) -> dict[str, int]:
        """Return the client's number of an event, if events are numbered."""
        original = event.get("sequence_number")
        if not isinstance(original, int):
            return {}
        number = original if self._next_event is None or not self._spliced else self._next_event
        self._next_event = number + 1
        return {"sequence_number": number}

    # The end of a round and of the reply

    def _has_stop_reason(self) -> bool:
        return False  # only the last event has the response's status

    def _end_round(self, frame: Frame, event: Message, sending: Sending) -> None:
        self._spliced = self._spliced or not self.rules.is_shown_whole(self.reply.message(), self._hidden)
        super()._end_round(frame, event, sending)

    def _write_last(self, frame: Frame, event: Message) -> bytes:
        if not self._spliced:
            return self._write(frame, event)
        return self._make(str(kind_of(frame, event)), {**event, "response": self._shown})

    def _send_rest(self, shown: Message, sending: Sending) -> None:
        for item in shown["output"][len(splicing.splice_items(self._rounds, self._hidden)) :]:
            sending.add(b"".join(self._item_frames(item)))

    def _write_end(self) -> bytes:
        return self._make("response.completed", {"response": self._shown})

    def _write_failure(self, error: bytes) -> bytes:
        return self._make_failure(json_object(error)["error"])

    def _send_failure(self, frame: Frame, event: Message) -> bytes:
        """Return the provider's failure event without hidden content."""
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

    def _item_frames(self, item: Message) -> Iterable[bytes]:
        """Yield the frames of a message of the proxy's own."""
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
    """Replace numbers in a JSON object; of a repeated member the last one counts, as in all JSON parsers."""
    if not changes:
        return data
    members = {member.key: member for member in json_spans.members(data) or ()}
    for member in sorted((members[key] for key in changes if key in members), key=lambda one: -one.value_start):
        data = data[: member.value_start] + b"%d" % changes[member.key] + data[member.value_end :]
    return data


def _error_of(event: Message) -> bytes:
    """Return a plain error body with an event's error."""
    response = event.get("response")
    error = response.get("error") if isinstance(response, dict) else event.get("error") or event
    fields = error if isinstance(error, dict) else {}
    return as_json({"error": {**fields, "type": fields.get("code") or "server_error"}})

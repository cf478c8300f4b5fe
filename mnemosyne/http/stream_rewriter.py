"""Rewrite the Messages API's event stream, sans-I/O: its part of ``spliced_stream``.

It numbers blocks across all rounds, and the last ``message_delta`` has the usage of the whole message.
"""

from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.json_spans import members
from mnemosyne.domain.wire.places import BlockPlaces, index_of
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.http import messages_splicing as splicing
from mnemosyne.http.spliced_stream import SplicedStream
from mnemosyne.http.splicing import Hidden, Message, Sending
from mnemosyne.http.sse import Frame, write
from mnemosyne.http.tag_hiding import MessagesTexts, kind_of


def frame_of(name: str, event: Message) -> bytes:
    """Write an event as the provider does."""
    return write(name.encode(), as_json(event))


class StreamRewriter(SplicedStream):
    """Rewrites one streamed message."""

    rules = splicing.RULES
    texts = MessagesTexts
    ping_frame = frame_of("ping", {"type": "ping"})

    def __init__(self, hidden: Hidden, *, itemized: bool = False) -> None:
        self._next_number = 0
        super().__init__(hidden, itemized=itemized)

    def _begin_round(self) -> None:
        self._places = BlockPlaces()
        self._numbers: dict[int, int] = {}
        """The client's index of each visible block of this round, by position."""
        self._last_deltas: list[tuple[Frame, Message]] = []
        """The held ``message_delta`` frames of this round."""

    @property
    def shows_round(self) -> bool:
        """Whether the client has received a block of the current round."""
        return bool(self._numbers)

    def _hides(self, event: Message) -> bool:
        block = event.get("content_block")
        return isinstance(block, dict) and is_hidden(block, self._hidden)

    def _find_place(self, event: Message) -> int | None:
        match event:
            case {"content_block": dict()}:
                return self._places.begin(_index(event))
            case {"type": "content_block_delta" | "content_block_stop"}:
                return self._places.find(_index(event))
            case _:
                return None

    def _take_of_round(self, frame: Frame, event: Message, place: int | None, sending: Sending) -> None:
        match kind_of(frame, event):
            case "message_start":
                if not self._spliced:
                    self._pass(frame.raw, sending)
            case "content_block_start" if self._hides(event):
                self._spliced = True
            case "content_block_start":
                sending.add(self._let_go() + self._open(frame, event, place))
            case "content_block_delta" | "content_block_stop" if self._spliced:
                # Drop events of hidden blocks: their index now belongs to another block.
                if place in self._numbers:
                    sending.add(self._let_go() + _renumber(frame, event, self._numbers[place]))
            case "message_delta" if self._spliced:
                self._last_deltas.append((frame, event))
            case "message_stop":
                self._end_round(frame, event, sending)
            case "error":
                sending.add_output(self._fail(frame.raw, frame.data or b""))
            case kind if kind == "ping" or frame.data is None:
                self._pass(frame.raw, sending)
            case _:
                sending.add(self._let_go() + frame.raw)

    def _open(self, frame: Frame, event: Message, place: int | None) -> bytes:
        index = _index(event)
        number = self._next_number if self._spliced or index is None else index
        if place is not None:
            self._numbers[place] = number
        self._next_number = max(self._next_number, number) + 1
        return _renumber(frame, event, number) if self._spliced else frame.raw

    def _send_rest(self, shown: Message, sending: Sending) -> None:
        added = shown["content"][len(splicing.splice_content(self._rounds, self._hidden)) :]
        for number, block in enumerate(added, start=self._next_number):
            sending.add(_text_block_frames(number, block["text"]))
        sending.add(self._last_delta(shown))

    def _last_delta(self, shown: Message) -> bytes:
        """Return the last ``message_delta`` with the final reason and usage; if unchanged, its original bytes."""
        merged: Message = {"type": "message_delta", "delta": {}}
        for _, event in self._last_deltas:
            for key, value in event.items():
                if isinstance(value, dict):
                    merged[key] = {**merged.get(key, {}), **value}
                elif key not in ("delta", "usage"):
                    merged[key] = value
        final = {**merged, "delta": {**merged["delta"], "stop_reason": shown["stop_reason"]}}
        if len(self._rounds) > 1 or "usage" not in merged:
            final["usage"] = shown["usage"]
        if len(self._last_deltas) == 1 and final == self._last_deltas[0][1]:
            return self._last_deltas[0][0].raw
        return frame_of("message_delta", final)

    def _write_last(self, frame: Frame, event: Message) -> bytes:
        return frame.raw or self._write_end()

    def _write_end(self) -> bytes:
        return frame_of("message_stop", {"type": "message_stop"})

    def _write_failure(self, error: bytes) -> bytes:
        return write(b"error", error)


def _text_block_frames(number: int, text: str) -> bytes:
    of = {"index": number}
    start = {"type": "content_block_start", **of, "content_block": splicing.text_block("")}
    delta = {"type": "content_block_delta", **of, "delta": {"type": "text_delta", "text": text}}
    stop = {"type": "content_block_stop", **of}
    return b"".join(frame_of(str(event["type"]), event) for event in (start, delta, stop))


def _renumber(frame: Frame, event: Message, number: int) -> bytes:
    """Return the frame with another block index; in a frame of the usual form, all other bytes stay the same."""
    if type(event.get("index")) is int and event["index"] == number:
        return frame.raw
    data = frame.data or b""
    at = frame.raw.find(data)
    # Of a repeated member the last one counts, as in all JSON parsers.
    places = [member for member in members(data) or () if member.key == "index"]
    if at < 0 or not places:
        return write(frame.event or b"", as_json({**event, "index": number}))
    start, end = at + places[-1].value_start, at + places[-1].value_end
    return frame.raw[:start] + b"%d" % number + frame.raw[end:]


def _index(event: Message) -> int | None:
    return index_of(event.get("index"))

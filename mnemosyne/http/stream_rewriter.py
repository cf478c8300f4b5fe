"""The provider's event stream on its way to the client, sans-I/O: bytes in, outputs out.

Frames that are not ours to change keep their raw bytes and leave as soon as they are whole. The frame that tells the
client that its reply is complete is handed out apart, because the reply must be durable before it leaves.

With memory tools a reply may take several rounds with the provider, and the client sees one message of them all:
their calls are left out, blocks are numbered on, and there is one beginning and one end. ``splicing`` has the rules.
Cleanup blocks are left out of texts (``tag_hiding``) before that.
"""

from collections.abc import Iterable

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.json_spans import members
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import HiddenCall, Reply, ReplyBuilder, as_json, describe
from mnemosyne.http import splicing
from mnemosyne.http.errors import complete_error, cut_error
from mnemosyne.http.splicing import EndOfRound, FailedBeforeOutput, Message, Next
from mnemosyne.http.sse import Frame, FrameReader, event_of, write
from mnemosyne.http.tag_hiding import MessagesTexts, TagHiding, Taken, kind_of


@attrs.frozen
class ToClient:
    """Bytes for the client, to be sent at once."""

    raw: bytes


@attrs.frozen
class EndOfReply:
    """The bytes after which the client holds the reply to be complete."""

    raw: bytes


Output = ToClient | EndOfRound | EndOfReply | FailedBeforeOutput
"""Every output has ``raw``, the bytes that leave with it."""


class StreamRewriter:
    """Passes one streamed reply on, and reads its current round into ``reply``.

    ``hidden`` names the memory tools; for ``itemized`` see ``splicing``. Feed a round, then ``close``; after an
    EndOfRound that says CONTINUE go on with ``next_round`` or ``end_now``, or ``fail`` when there is no next round to
    be had. A reply that is still open when its stream ends in a later round has failed; in the first one it passes as
    it came, so the relay must cut it, too.

    Laws: without a call of a hidden tool and a cleanup block the outputs, joined, are what was fed; and no output
    depends on where the network cut the stream.
    """

    def __init__(self, hidden: frozenset[str], *, itemized: bool = False) -> None:
        self.reply = ReplyBuilder()
        self._itemized = itemized
        self._frames = FrameReader()
        self._tags = TagHiding(MessagesTexts())
        self._hidden = hidden
        self._held: list[bytes] | None = []
        """Frames that wait for the first visible event; None once something has been sent."""
        self._spliced = False
        """Whether the client gets anything else than the bytes of the one round so far."""
        self._rounds: list[Message] = []
        """The messages of the rounds that have ended."""
        self._waiting = False
        """Whether the current round has ended and another must follow."""
        self._over = False
        """Whether the whole reply has ended or failed."""
        self._shown: Message | None = None
        """What the client was shown, once that is complete."""
        self._next_number = 0
        self._numbers: dict[int | None, int] = {}
        """The client's number for each visible block of the current round, by the provider's."""
        self._last_deltas: list[tuple[Frame, Message]] = []
        """The ``message_delta`` frames of the current round that are kept back."""

    def feed(self, data: bytes) -> list[Output]:
        """Take the next bytes from the provider; return what they allow to be sent."""
        sending = Sending()
        for frame in self._frames.feed(data):
            event = event_of(frame)
            if event is not None:
                self.reply.take(event)
            self._take(frame, event or {}, sending)
        return sending.outputs()

    def close(self) -> list[Output]:
        """The round's stream has ended, in good order or not; return what was held back, or the failure that it is."""
        rest, self._frames.rest = self._frames.rest, b""
        if self._tags.holds_text or all(part in rest for part in _OURS):
            rest = b""  # half a frame, in which a call or a cleanup block may begin
        sending = Sending()
        self._take_visible(self._tags.end(), sending)
        if self._spliced:
            return sending.outputs() + ([] if self._over or self._waiting else self.fail(cut_error(MESSAGES)))
        if self._held is not None and not self._over:
            return [*sending.outputs(), self._fail(rest, cut_error(MESSAGES))]
        sending.add(rest)
        return sending.outputs()

    def cut(self) -> list[Output]:
        """The round's stream broke off, which says as much as that it ended."""
        return self.close()

    def next_round(self) -> None:
        """The hidden calls are answered; what is fed from here on is the reply to that. Said again if that failed
        before the client was shown anything of it, and another try follows.
        """
        self.reply = ReplyBuilder()
        self._frames = FrameReader()
        self._tags = TagHiding(MessagesTexts())
        self._waiting = False
        self._over = False
        self._numbers.clear()
        self._last_deltas.clear()

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        sending = Sending()
        self._finish(sending)
        sending.add_output(EndOfReply(frame_of("message_stop", {"type": "message_stop"})))
        return sending.outputs()

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error: the body that came instead, or one of our own."""
        error = complete_error(error, MESSAGES)
        return [self._fail(write(b"error", error), error)]

    def ping(self) -> bytes:
        """A frame that says no more than that we are here; nothing before the reply has begun and after its end.

        Sending it lets go what was held for a plain HTTP error, so send it only when the client has long heard nothing.
        """
        if self._over or self._held == []:
            return b""
        return self._let_go() + frame_of("ping", {"type": "ping"})

    @property
    def shows_round(self) -> bool:
        """Whether the client has been shown any block of the current round."""
        return bool(self._numbers)

    @property
    def failed(self) -> bool:
        """Whether the provider said that the reply has failed."""
        return self._over and self._shown is None

    def visible(self) -> Reply:
        """The reply as the client sees it, as far as it has got."""
        if self._shown is not None:
            return describe(self._shown, as_json(self._shown), complete=True)
        rounds = self._rounds if self._waiting else [*self._rounds, self.reply.message()]
        return splicing.cut_short(rounds, self._hidden, itemized=self._itemized)

    def list_untold(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return splicing.list_untold(self._rounds, itemized=self._itemized)

    # One frame of a reply that may hold hidden calls

    def _take(self, frame: Frame, event: Message, sending: "Sending") -> None:
        if not self._over and not self._waiting:
            self._take_visible(self._tags.take(frame, event), sending)
            return
        # Whatever follows the end: comments, or the message that a confused gateway sends twice.
        self._spliced = self._spliced or self._hides(event)
        if not self._spliced:
            sending.add(frame.raw)

    def _take_visible(self, frames: Iterable[Taken], sending: "Sending") -> None:
        """The frames of a round without its cleanup blocks."""
        self._spliced = self._spliced or self._tags.hid
        for frame, event in frames:
            self._take_of_round(frame, event, sending)

    def _take_of_round(self, frame: Frame, event: Message, sending: "Sending") -> None:
        match kind_of(frame, event):
            case "message_start":
                if not self._spliced:
                    self._pass(frame.raw, sending)
            case "content_block_start" if self._hides(event):
                self._spliced = True
                self._numbers.pop(_index(event), None)
            case "content_block_start":
                sending.add(self._let_go() + self._open(frame, event))
            case "content_block_delta" | "content_block_stop" if self._spliced:
                # What belongs to no visible block is dropped: its number is another block's by now.
                if (index := _index(event)) in self._numbers:
                    sending.add(self._let_go() + _renumber(frame, event, self._numbers[index]))
            case "message_delta" if self._spliced:
                self._last_deltas.append((frame, event))
            case "message_stop":
                self._end_round(frame, sending)
            case "error":
                sending.add_output(self._fail(frame.raw, frame.data or b""))
            case kind if kind == "ping" or frame.data is None:
                self._pass(frame.raw, sending)
            case _:
                sending.add(self._let_go() + frame.raw)

    def _hides(self, event: Message) -> bool:
        block = event.get("content_block")
        return isinstance(block, dict) and is_hidden(block, self._hidden)

    def _pass(self, raw: bytes, sending: "Sending") -> None:
        if self._held is not None:
            self._held.append(raw)
        else:
            sending.add(raw)

    def _let_go(self) -> bytes:
        held, self._held = b"".join(self._held or ()), None
        return held

    def _open(self, frame: Frame, event: Message) -> bytes:
        index = _index(event)
        number = self._next_number if self._spliced or index is None else index
        self._numbers[index] = number
        self._next_number = max(self._next_number, number + 1)
        return _renumber(frame, event, number) if self._spliced else frame.raw

    def _fail(self, raw: bytes, error: bytes) -> FailedBeforeOutput | ToClient:
        self._over = True
        if self._held is None:
            return ToClient(raw)
        return FailedBeforeOutput(b"".join(self._held) + raw, error)

    # The end of a round and of the reply

    def _end_round(self, stop: Frame, sending: "Sending") -> None:
        message = self.reply.message()
        self._rounds.append(message)
        content = splicing.content_of(message)
        calls = [
            HiddenCall(str(block.get("id")), block["name"], source.input_json())
            for block, source in zip(content, self.reply.blocks(), strict=True)
            if is_hidden(block, self._hidden)
        ]
        reply = describe(message, as_json(message), complete=True)
        end = splicing.end_of_round(reply, content, calls, self._hidden)
        if end.next is Next.CONTINUE:
            self._waiting = True
            sending.add_output(end)
        else:
            self._finish(sending)
            sending.add_output(end)
            sending.add_output(EndOfReply(stop.raw))

    def _finish(self, sending: "Sending") -> None:
        """Everything that is left to say, up to ``message_stop``."""
        self._over = True
        self._waiting = False
        sending.add(self._let_go())
        if not self._spliced:
            self._shown = self._rounds[-1]
            return
        self._shown = splicing.splice_message(self._rounds, self._hidden, itemized=self._itemized)
        added = self._shown["content"][len(splicing.splice_content(self._rounds, self._hidden)) :]
        for number, block in enumerate(added, start=self._next_number):
            sending.add(_text_block_frames(number, block["text"]))
        sending.add(self._last_delta(self._shown))

    def _last_delta(self, shown: Message) -> bytes:
        """The last round's ``message_delta``, as it came if it says what the client is to be told."""
        merged: Message = {"type": "message_delta", "delta": {}}
        for _, event in self._last_deltas:
            for key, value in event.items():
                if isinstance(value, dict):
                    merged[key] = {**merged.get(key, {}), **value}
                elif key not in ("delta", "usage"):
                    merged[key] = value
        told = {**merged, "delta": {**merged["delta"], "stop_reason": shown["stop_reason"]}}
        if len(self._rounds) > 1 or "usage" not in merged:
            told["usage"] = shown["usage"]
        if len(self._last_deltas) == 1 and told == self._last_deltas[0][1]:
            return self._last_deltas[0][0].raw
        return frame_of("message_delta", told)


class Sending:
    """Outputs being collected; bytes that leave together are one."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._passing: list[bytes] = []

    def add(self, raw: bytes) -> None:
        if raw:
            self._passing.append(raw)

    def add_output(self, output: Output) -> None:
        self._flush()
        self._outputs.append(output)

    def outputs(self) -> list[Output]:
        self._flush()
        return self._outputs

    def _flush(self) -> None:
        if self._passing:
            self._outputs.append(ToClient(b"".join(self._passing)))
            self._passing.clear()


_OURS = (b"data:", b"memory_")
"""What stands in a frame that holds the name of a memory tool or the tag of a cleanup block."""


def frame_of(name: str, event: Message) -> bytes:
    """An event as the provider would write it."""
    return write(name.encode(), as_json(event))


def _text_block_frames(number: int, text: str) -> bytes:
    of = {"index": number}
    start = {"type": "content_block_start", **of, "content_block": splicing.text_block("")}
    delta = {"type": "content_block_delta", **of, "delta": {"type": "text_delta", "text": text}}
    stop = {"type": "content_block_stop", **of}
    return b"".join(frame_of(str(event["type"]), event) for event in (start, delta, stop))


def _renumber(frame: Frame, event: Message, number: int) -> bytes:
    """The frame with this block number, and not a byte changed beside it where the frame is of the usual shape."""
    if _index(event) == number:
        return frame.raw
    data = frame.data or b""
    at = frame.raw.find(data)
    # Of a repeated member the last one holds, as in every JSON reader.
    places = [member for member in members(data) or () if member.key == "index"]
    if at < 0 or not places:
        return write(frame.event or b"", as_json({**event, "index": number}))
    start, end = at + places[-1].value_start, at + places[-1].value_end
    return frame.raw[:start] + b"%d" % number + frame.raw[end:]


def _index(event: Message) -> int | None:
    index = event.get("index")
    return index if isinstance(index, int) else None

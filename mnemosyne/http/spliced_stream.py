"""Rewrite the provider's event stream for the client, sans-I/O: the part shared by all dialects.

Frames without changes keep their raw bytes and are sent as soon as they are complete. The frame that completes the
reply is a separate output, because the reply must be durable before that frame is sent.

With memory tools a reply may take several rounds with the provider, which the client sees as one: memory calls are
dropped, visible content is renumbered, and there is one start and one end (see ``splicing``). Cleanup blocks are
removed from texts first (``tag_hiding``).
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.reply import Reply, ReplyReader
from mnemosyne.http.errors import complete_error, cut_error
from mnemosyne.http.splicing import (
    EndOfReply,
    FailedBeforeOutput,
    Hidden,
    Message,
    Next,
    Output,
    Rules,
    Sending,
    ToClient,
    read_round,
)
from mnemosyne.http.sse import Frame, FrameReader, event_of, write
from mnemosyne.http.tag_hiding import TagHiding, Taken, Texts


class SplicedStream(ABC):
    """Rewrites one streamed reply and reads its current round into ``reply``.

    ``hidden`` are the names of the memory tools; ``itemized`` is explained in ``messages_splicing``. Feed a round, then
    call ``close``; after an EndOfRound with CONTINUE, call ``next_round`` or ``end_now``, or ``fail`` if the next round
    is impossible. A reply that is incomplete when the stream of a later round ends has failed; in the first round it
    passes unchanged, so the relay must break the connection as well.

    Invariants: if the reply has no hidden call, no cleanup block and no memory tools among its tools, the joined
    outputs equal the input, unless it ends before a call has its name; and no output depends on how the network splits
    the stream.
    """

    rules: Rules
    texts: type[Texts]
    ping_frame: bytes

    def __init__(self, hidden: Hidden, *, itemized: bool = False) -> None:
        self._hidden = hidden
        self._itemized = itemized
        self.hides_verdict = False
        """Whether the provider's verdict on its cache is hidden, because the client did not ask for it."""
        self._held: list[bytes] | None = []
        """Frames held until the first visible event; None once something was sent."""
        self._spliced = False
        """Whether the output differs from the bytes of a single round."""
        self._rounds: list[Message] = []
        """The messages of the finished rounds."""
        self._shown: Message | None = None
        """The spliced message, once it is complete."""
        self.next_round()

    def next_round(self) -> None:
        """Start the next round after its hidden calls were answered, or retry a round of which the client has received
        nothing.
        """
        self.reply: ReplyReader = self.rules.dialect.reader()
        self._frames = FrameReader()
        self._tags = TagHiding(self.texts())
        self._waiting = False
        """Whether the current round has ended and another must follow."""
        self._over = False
        """Whether the whole reply has ended or failed."""
        self._unsettled: deque[tuple[Frame, Message, Any]] = deque()
        """Frames held until it is known whether their call is hidden, each with its position."""
        self._begin_round()

    def feed(self, data: bytes) -> list[Output]:
        """Take the provider's next bytes; return the outputs they allow."""
        sending = Sending()
        for frame in self._frames.feed(data):
            event = event_of(frame)
            if event is not None:
                self.reply.take(event)
                frame, event = self._hide_verdict(frame, event)
            self._take(frame, event or {}, sending)
        return sending.outputs()

    def close(self) -> list[Output]:
        """Handle a regular end of the round's stream; return the held output or a failure.

        Some servers do not report how a reply ended. A reply with complete memory calls and no client call is treated
        as ended.
        """
        if self._over or self._waiting:
            return self._close(as_ended=False)
        is_at_frame = not self._frames.rest.strip()
        return self._close(as_ended=self._has_stop_reason() or (is_at_frame and self._asks_for_memory()))

    def cut(self) -> list[Output]:
        """Handle a broken connection; the round may still be complete."""
        return self._close(as_ended=not self._over and not self._waiting and self._has_stop_reason())

    def _close(self, *, as_ended: bool) -> list[Output]:
        rest = self._frames.take_rest()
        if self._tags.holds_text or all(part in rest for part in _OURS):
            rest = b""  # an incomplete frame, in which a call or a cleanup block may begin
        sending = Sending()
        if self._over or self._waiting:
            sending.add(b"" if self._spliced else rest)
            return sending.outputs()
        self._take_visible(self._tags.end(), sending)
        if as_ended:
            self._end_round(Frame(rest, None, None), {}, sending)
            return sending.outputs()
        self._spliced = self._spliced or bool(self._unsettled)  # a call that may be hidden
        if self._spliced:
            return [*sending.outputs(), *self.fail(cut_error(self.rules.dialect))]
        if self._held is not None:
            return [*sending.outputs(), self._fail(rest, cut_error(self.rules.dialect))]
        sending.add(rest)
        return sending.outputs()

    def _has_stop_reason(self) -> bool:
        """Whether the round has its stop reason, so that only its last frame is missing."""
        return self._spliced and self.reply.result().stop_reason is not None

    def _asks_for_memory(self) -> bool:
        message = self.reply.message()
        _, end = read_round(self.rules.describe(message, True), message, self.rules, self._hidden)
        return end.next is Next.CONTINUE

    def end_now(self) -> list[Output]:
        """End the reply although its last round asked for another."""
        sending = Sending()
        self._finish(sending)
        sending.add_output(EndOfReply(self._write_end()))
        return sending.outputs()

    def fail(self, error: bytes) -> list[Output]:
        """Fail the reply with an error body, the provider's or the proxy's own."""
        error = complete_error(error, self.rules.dialect)
        return [self._fail(self._write_failure(error), error)]

    def ping(self) -> bytes:
        """Return a keepalive frame; empty before the reply begins and after its end.

        It releases the held frames, after which a plain HTTP error is impossible, so send it only after a long silence.
        """
        if self._over or self._held == []:
            return b""
        return self._let_go() + self.ping_frame

    @property
    @abstractmethod
    def shows_round(self) -> bool:
        """Whether the client has received anything of the current round."""

    @property
    def failed(self) -> bool:
        """Whether the provider reported that the reply failed."""
        return self._over and self._shown is None

    def visible(self) -> Reply:
        """Return the reply so far as the client sees it."""
        if self._shown is not None:
            return self.rules.describe(self._shown, True)
        rounds = self._rounds if self._waiting else [*self._rounds, self._without_verdict(self.reply.message())]
        return self.rules.cut_short(rounds, self._hidden, self._itemized)

    def list_hidden_usage(self) -> list[Tokens]:
        """Return the input of each round that the client's usage does not report."""
        return self.rules.list_hidden_usage(self._rounds, self._itemized)

    # Implemented by each dialect

    @abstractmethod
    def _begin_round(self) -> None:
        """Reset the state of the previous round."""

    @abstractmethod
    def _hides(self, event: Message) -> bool:
        """Whether the event begins a hidden call."""

    @abstractmethod
    def _find_place(self, event: Message) -> Any:
        """Return the block, item or calls of an event. Called once for each event, in order."""

    def _is_unsettled(self, frame: Frame, event: Message) -> bool:
        """Whether a call has begun whose name is not known yet."""
        return False

    @abstractmethod
    def _take_of_round(self, frame: Frame, event: Message, place: Any, sending: Sending) -> None:
        """Send the visible part of a frame, which has no cleanup blocks any more."""

    @abstractmethod
    def _send_rest(self, shown: Message, sending: Sending) -> None:
        """Send the part of the spliced message that the client has not received, up to the last frame."""

    @abstractmethod
    def _write_end(self) -> bytes:
        """Return the last frame of a reply that the proxy ends itself."""

    @abstractmethod
    def _write_failure(self, error: bytes) -> bytes:
        """Return the frame of an error."""

    # The provider's verdict on its cache

    def _without_verdict(self, message: Message) -> Message:
        comparison = self.rules.dialect.comparison
        return comparison.hide_in(message) if self.hides_verdict and comparison is not None else message

    def _hide_verdict(self, frame: Frame, event: Message) -> tuple[Frame, Message]:
        """A frame and its event without the verdict; all other bytes stay the same."""
        comparison, data = self.rules.dialect.comparison, frame.data or b""
        shown = comparison.hide(data) if self.hides_verdict and comparison is not None else data
        if shown == data:
            return frame, event
        at = frame.raw.find(data)
        whole = frame.raw[:at] + shown + frame.raw[at + len(data) :]
        return Frame(whole if at >= 0 else write(frame.event or b"", shown), frame.event, shown), self._without_verdict(
            event
        )

    # Frames, the end of a round and the end of the reply

    def _take(self, frame: Frame, event: Message, sending: Sending) -> None:
        if not self._over and not self._waiting:
            self._take_visible(self._tags.take(frame, event), sending)
            return
        # Frames after the end: comments, or a message that a faulty gateway sends twice.
        self._spliced = self._spliced or self._hides(event)
        if not self._spliced:
            sending.add(frame.raw)

    def _take_visible(self, frames: Iterable[Taken], sending: Sending) -> None:
        """Handle frames whose cleanup blocks are removed."""
        self._spliced = self._spliced or self._tags.hid
        for frame, event in frames:
            place = self._find_place(event)
            if self._is_unsettled(frame, event):
                self._unsettled.append((frame, event, place))
                continue
            if self._unsettled:
                self._settle(sending)
            self._take_of_round(frame, event, place, sending)

    def _settle(self, sending: Sending) -> None:
        """Send the held frames."""
        while self._unsettled:
            self._take_of_round(*self._unsettled.popleft(), sending)

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

    def _end_round(self, frame: Frame, event: Message, sending: Sending) -> None:
        original = self.reply.message()
        message, end = read_round(self.rules.describe(original, True), original, self.rules, self._hidden)
        self._rounds.append(self._without_verdict(message))
        if end.next is Next.CONTINUE:
            self._spliced = self._waiting = True
            sending.add_output(end)
            return
        self._finish(sending)
        sending.add_output(end)
        sending.add_output(EndOfReply(self._write_last(frame, event)))

    def _write_last(self, frame: Frame, event: Message) -> bytes:
        """Return the round's last frame as the reply's last frame."""
        return frame.raw

    def _finish(self, sending: Sending) -> None:
        """Send everything that is left, up to the last frame."""
        self._over, self._waiting = True, False
        sending.add(self._let_go())
        if not self._spliced:
            self._shown = self.rules.without_tools(self._rounds[-1], self._hidden)
            return
        self._shown = self.rules.splice(self._rounds, self._hidden, self._itemized)
        self._send_rest(self._shown, sending)


_OURS = (b"data:", b"memory_")
"""Bytes that occur in every frame with a memory tool's name or a cleanup tag."""

"""The provider's event stream on its way to the client, sans-I/O: bytes in, outputs out; what all dialects share.

Frames that are not ours to change keep their raw bytes and leave as soon as they are whole. The frame that tells the
client that its reply is complete is handed out apart, because the reply must be durable before it leaves.

With memory tools a reply may take several rounds with the provider, and the client sees one of them all: their calls
are left out, what it sees is numbered on, and there is one beginning and one end. ``splicing`` has the rules. Cleanup
blocks are left out of texts (``tag_hiding``) before that.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.dialect import ReplyReader
from mnemosyne.domain.wire.reply import Reply
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
from mnemosyne.http.sse import Frame, FrameReader, event_of
from mnemosyne.http.tag_hiding import TagHiding, Taken, Texts


class SplicedStream(ABC):
    """Passes one streamed reply on, and reads its current round into ``reply``.

    ``hidden`` names the memory tools; ``itemized`` is explained in ``messages_splicing``. Feed a round, then ``close``;
    after an EndOfRound that says CONTINUE go on with ``next_round`` or ``end_now``, or ``fail`` when there is no next
    round to be had. A reply that is still open when its stream ends in a later round has failed; in the first one it
    passes as it came, so the relay must cut it, too.

    Laws: without a call of a hidden tool and a cleanup block, and where the reply does not name ours among its tools,
    the outputs, joined, are what was fed, unless it ends before a call has its name; and no output depends on where the
    network cut the stream.
    """

    rules: Rules
    texts: type[Texts]
    ping_frame: bytes

    def __init__(self, hidden: Hidden, *, itemized: bool = False) -> None:
        self._hidden = hidden
        self._itemized = itemized
        self._held: list[bytes] | None = []
        """Frames that wait for the first visible event; None once something has been sent."""
        self._spliced = False
        """Whether the client gets anything else than the bytes of the one round so far."""
        self._rounds: list[Message] = []
        """The messages of the rounds that have ended."""
        self._shown: Message | None = None
        """What the client was shown, once that is complete."""
        self.next_round()

    def next_round(self) -> None:
        """The hidden calls are answered; what is fed from here on is the reply to that. Said again if that failed
        before the client was shown anything of it, and another try follows.
        """
        self.reply: ReplyReader = self.rules.dialect.reader()
        self._frames = FrameReader()
        self._tags = TagHiding(self.texts())
        self._waiting = False
        """Whether the current round has ended and another must follow."""
        self._over = False
        """Whether the whole reply has ended or failed."""
        self._unsettled: deque[tuple[Frame, Message, Any]] = deque()
        """Frames that wait until it is known whose call they belong to, each with its place."""
        self._begin_round()

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
        """The round's stream has ended in good order; return what was held back, or the failure that it is.

        Not every server says how a reply ended. One that has whole calls of memory tools and nothing to do for the
        client is answered all the same.
        """
        if self._over or self._waiting:
            return self._close(as_ended=False)
        is_at_frame = not self._frames.rest.strip()
        return self._close(as_ended=self._has_stop_reason() or (is_at_frame and self._asks_for_memory()))

    def cut(self) -> list[Output]:
        """The round's stream broke off. What there is of it may be whole."""
        return self._close(as_ended=not self._over and not self._waiting and self._has_stop_reason())

    def _close(self, *, as_ended: bool) -> list[Output]:
        rest = self._frames.take_rest()
        if self._tags.holds_text or all(part in rest for part in _OURS):
            rest = b""  # half a frame, in which a call or a cleanup block may begin
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
        """Whether the round has said why it ended, so that only its last frame is missing."""
        return self._spliced and self.reply.result().stop_reason is not None

    def _asks_for_memory(self) -> bool:
        said = self.reply.message()
        _, end = read_round(self.rules.describe(said, True), said, self.rules, self._hidden)
        return end.next is Next.CONTINUE

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        sending = Sending()
        self._finish(sending)
        sending.add_output(EndOfReply(self._write_end()))
        return sending.outputs()

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error: the body that came instead, or one of our own."""
        error = complete_error(error, self.rules.dialect)
        return [self._fail(self._write_failure(error), error)]

    def ping(self) -> bytes:
        """A frame that says no more than that we are here; nothing before the reply has begun and after its end.

        Sending it lets go what was held for a plain HTTP error, so send it only when the client has long heard nothing.
        """
        if self._over or self._held == []:
            return b""
        return self._let_go() + self.ping_frame

    @property
    @abstractmethod
    def shows_round(self) -> bool:
        """Whether the client has been shown anything of the current round."""

    @property
    def failed(self) -> bool:
        """Whether the provider said that the reply has failed."""
        return self._over and self._shown is None

    def visible(self) -> Reply:
        """The reply as the client sees it, as far as it has got."""
        if self._shown is not None:
            return self.rules.describe(self._shown, True)
        rounds = self._rounds if self._waiting else [*self._rounds, self.reply.message()]
        return self.rules.cut_short(rounds, self._hidden, self._itemized)

    def list_hidden_usage(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return self.rules.list_hidden_usage(self._rounds, self._itemized)

    # What a dialect says of its frames

    @abstractmethod
    def _begin_round(self) -> None:
        """Forget what was counted in the round before."""

    @abstractmethod
    def _hides(self, event: Message) -> bool:
        """Whether a hidden call begins with an event."""

    @abstractmethod
    def _find_place(self, event: Message) -> Any:
        """The block, item or calls of the round that an event is about. Called once for each event, in order."""

    def _is_unsettled(self, frame: Frame, event: Message) -> bool:
        """Whether a call has begun of which the name is not known yet."""
        return False

    @abstractmethod
    def _take_of_round(self, frame: Frame, event: Message, place: Any, sending: Sending) -> None:
        """Pass on what the client may see of a frame without cleanup blocks."""

    @abstractmethod
    def _send_rest(self, shown: Message, sending: Sending) -> None:
        """What the client was not told yet of the reply that it is shown, up to the last frame."""

    @abstractmethod
    def _write_end(self) -> bytes:
        """The last frame of a reply that the provider does not end."""

    @abstractmethod
    def _write_failure(self, error: bytes) -> bytes:
        """The frame that tells of an error."""

    # One frame, the end of a round, and that of the reply

    def _take(self, frame: Frame, event: Message, sending: Sending) -> None:
        if not self._over and not self._waiting:
            self._take_visible(self._tags.take(frame, event), sending)
            return
        # Whatever follows the end: comments, or the message that a confused gateway sends twice.
        self._spliced = self._spliced or self._hides(event)
        if not self._spliced:
            sending.add(frame.raw)

    def _take_visible(self, frames: Iterable[Taken], sending: Sending) -> None:
        """The frames of a round without its cleanup blocks."""
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
        """Pass on the frames that waited."""
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
        """The round ends with this frame."""
        said = self.reply.message()
        message, end = read_round(self.rules.describe(said, True), said, self.rules, self._hidden)
        self._rounds.append(message)
        if end.next is Next.CONTINUE:
            self._spliced = self._waiting = True
            sending.add_output(end)
            return
        self._finish(sending)
        sending.add_output(end)
        sending.add_output(EndOfReply(self._write_last(frame, event)))

    def _write_last(self, frame: Frame, event: Message) -> bytes:
        """The frame that ends the round, as it ends the reply."""
        return frame.raw

    def _finish(self, sending: Sending) -> None:
        """Everything that is left to say, up to the last frame."""
        self._over, self._waiting = True, False
        sending.add(self._let_go())
        if not self._spliced:
            self._shown = self.rules.without_tools(self._rounds[-1], self._hidden)
            return
        self._shown = self.rules.splice(self._rounds, self._hidden, self._itemized)
        self._send_rest(self._shown, sending)


_OURS = (b"data:", b"memory_")
"""What stands in a frame that holds the name of a memory tool or the tag of a cleanup block."""

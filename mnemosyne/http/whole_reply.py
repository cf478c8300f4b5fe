"""A reply that is not an event stream and may hold calls of memory tools, on its way to the client, sans-I/O.

The whole body waits, because only its end tells whether another round must follow, and whether a text holds a cleanup
block.
"""

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import HiddenCall, Reply, ReplyBuilder, as_json, describe
from mnemosyne.http import splicing
from mnemosyne.http.errors import complete_error, cut_error
from mnemosyne.http.splicing import FailedBeforeOutput, Message, Next
from mnemosyne.http.stream_rewriter import EndOfReply, Output, ToClient


class WholeReply:
    """Collects one whole reply into ``reply``.

    ``hidden`` and ``itemized``, how it is fed, and how the rounds follow each other, are as with StreamRewriter.

    Law: without a call of a hidden tool and a cleanup block the outputs, joined, are what was fed.
    """

    def __init__(self, hidden: frozenset[str], *, itemized: bool = False) -> None:
        self.reply = ReplyBuilder()
        self._itemized = itemized
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
        return self._end_round()

    def cut(self) -> list[Output]:
        """The round's body broke off: what there is of it, and no end."""
        if self._rounds:
            return self.fail(cut_error(MESSAGES))
        return [ToClient(output.raw) for output in self.close() if output.raw]

    def ping(self) -> bytes:
        """Nothing can be said before the body."""
        return b""

    shows_round = False
    """Nothing is shown of a round before all of them are whole."""

    failed = False
    """A body says so at its end."""

    def next_round(self) -> None:
        """The hidden calls are answered; what is fed from here on is the reply to that, or to another try."""
        self.reply = ReplyBuilder()

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        self._shown = splicing.splice_message(self._rounds, self._hidden, itemized=self._itemized)
        return [EndOfReply(as_json(self._shown))]

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error: the body that came instead, or one of our own."""
        error = complete_error(error, MESSAGES)
        return [FailedBeforeOutput(error, error)]

    def visible(self) -> Reply:
        """The reply as the client sees it; empty while it is not complete."""
        return describe(self._shown, as_json(self._shown), complete=bool(self._shown))

    def list_untold(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return splicing.list_untold(self._rounds, itemized=self._itemized)

    def _end_round(self) -> list[Output]:
        reply, message = self.reply.result(), self.reply.message()
        if self._rounds and not isinstance(message.get("content"), list):
            return self.fail(reply.body if "error" in message else cut_error(MESSAGES))
        self._rounds.append(message)
        content = splicing.content_of(message)
        calls = [
            HiddenCall(str(block.get("id")), block["name"], as_json(block.get("input", {})).decode())
            for block in content
            if is_hidden(block, self._hidden)
        ]
        end = splicing.end_of_round(reply, content, calls, self._hidden)
        if end.next is Next.CONTINUE:
            return [end]
        if len(self._rounds) == 1 and splicing.splice_content(self._rounds, self._hidden) == content:
            self._shown = message
            return [end, EndOfReply(reply.body)]
        self._shown = splicing.splice_message(self._rounds, self._hidden, itemized=self._itemized)
        return [end, EndOfReply(as_json(self._shown))]

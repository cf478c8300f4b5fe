"""A reply that is not an event stream and may hold calls of memory tools, on its way to the client, sans-I/O.

The whole body waits, because only its end tells whether another round must follow, and whether a text holds a cleanup
block.
"""

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.dialect import ReplyReader
from mnemosyne.domain.wire.reply import Reply, as_json
from mnemosyne.http.errors import complete_error, cut_error
from mnemosyne.http.splicing import (
    EndOfReply,
    FailedBeforeOutput,
    Hidden,
    Message,
    Next,
    Output,
    Rules,
    ToClient,
    read_round,
)


class WholeReply:
    """Collects one whole reply into ``reply``.

    ``rules`` are those of its dialect, ``hidden`` names the memory tools. How it is fed, and how the rounds follow each
    other, is as with SplicedStream.

    Law: without a call of a hidden tool and a cleanup block, and where the reply does not name ours among its tools,
    the outputs, joined, are what was fed.
    """

    def __init__(self, rules: Rules, hidden: Hidden, *, itemized: bool = False) -> None:
        self.reply: ReplyReader = rules.dialect.reader()
        self._rules = rules
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
        reply, said = self.reply.result(), self.reply.message()
        if self._rounds and not self._rules.is_reply(said):
            return self.fail(reply.body if said.get("error") else cut_error(self._rules.dialect))
        message, end = read_round(reply, said, self._rules, self._hidden)
        self._rounds.append(message)
        if end.next is Next.CONTINUE:
            return [end]
        if len(self._rounds) > 1 or not self._rules.is_shown_whole(message, self._hidden):
            return [end, *self.end_now()]
        self._shown = self._rules.without_tools(message, self._hidden)
        return [end, EndOfReply(self._rules.cut_tools(reply.body, self._hidden))]

    def cut(self) -> list[Output]:
        """The round's body broke off: what there is of it, and no end. Nobody can use that; where it names a tool of
        ours, nothing leaves.
        """
        if self._rounds:
            return self.fail(cut_error(self._rules.dialect))
        left: list[Output] = [ToClient(output.raw) for output in self.close() if output.raw]
        return [] if any(name.encode() in output.raw for output in left for name in self._hidden) else left

    def ping(self) -> bytes:
        """Nothing can be said before the body."""
        return b""

    shows_round = False
    """Nothing is shown of a round before all of them are whole."""

    failed = False
    """A body says so at its end."""

    def next_round(self) -> None:
        """The hidden calls are answered; what is fed from here on is the reply to that, or to another try."""
        self.reply = self._rules.dialect.reader()

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        self._shown = self._rules.splice(self._rounds, self._hidden, self._itemized)
        return [EndOfReply(as_json(self._shown))]

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error: the body that came instead, or one of our own."""
        error = complete_error(error, self._rules.dialect)
        return [FailedBeforeOutput(error, error)]

    def visible(self) -> Reply:
        """The reply as the client sees it; empty while it is not complete."""
        return self._rules.describe(self._shown, bool(self._shown))

    def list_hidden_usage(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return self._rules.list_hidden_usage(self._rounds, self._itemized)

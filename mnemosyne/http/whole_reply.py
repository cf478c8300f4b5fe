"""Rewrite a reply that is not an event stream and may hold calls of memory tools, sans-I/O.

The whole body is held, because only its end shows whether another round must follow and whether a text has a cleanup
block.
"""

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.reply import Reply, ReplyReader, as_json
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

    ``rules`` are the dialect's, ``hidden`` are the names of the memory tools. Usage is as with SplicedStream.

    Invariant: if the reply has no hidden call, no cleanup block and no memory tools among its tools, the joined outputs
    equal the input.
    """

    def __init__(self, rules: Rules, hidden: Hidden, *, itemized: bool = False) -> None:
        self.reply: ReplyReader = rules.dialect.reader()
        self._rules = rules
        self._itemized = itemized
        self._hidden = hidden
        self._rounds: list[Message] = []
        self._shown: Message = {}
        self.hides_verdict = False
        """As in SplicedStream."""

    def feed(self, data: bytes) -> list[Output]:
        """Take the provider's next bytes; nothing may be sent yet."""
        self.reply.take_raw(data)
        return []

    def close(self) -> list[Output]:
        """End the round's body."""
        self.reply.end_raw()
        reply, original = self.reply.result(), self.reply.message()
        if self._rounds and not self._rules.is_reply(original):
            return self.fail(reply.body if original.get("error") else cut_error(self._rules.dialect))
        message, end = read_round(reply, original, self._rules, self._hidden)
        comparison = self._rules.dialect.comparison if self.hides_verdict else None
        if comparison is not None:
            message = comparison.hide_in(message)
        self._rounds.append(message)
        if end.next is Next.CONTINUE:
            return [end]
        if len(self._rounds) > 1 or not self._rules.is_shown_whole(message, self._hidden):
            return [end, *self.end_now()]
        self._shown = self._rules.without_tools(message, self._hidden)
        body = self._rules.cut_tools(reply.body, self._hidden)
        return [end, EndOfReply(body if comparison is None else comparison.hide(body))]

    def cut(self) -> list[Output]:
        """Handle a body that is cut off: return its bytes without an end, or nothing if they name a memory tool."""
        if self._rounds:
            return self.fail(cut_error(self._rules.dialect))
        outputs: list[Output] = [ToClient(output.raw) for output in self.close() if output.raw]
        return [] if any(name.encode() in output.raw for output in outputs for name in self._hidden) else outputs

    def ping(self) -> bytes:
        """Return nothing: no keepalive is possible before the body."""
        return b""

    shows_round = False
    """Nothing is sent before all rounds are complete."""

    failed = False
    """A failure is only known at the body's end."""

    def next_round(self) -> None:
        """Start the next round, or retry this one."""
        self.reply = self._rules.dialect.reader()

    def end_now(self) -> list[Output]:
        """End the reply although its last round asked for another."""
        self._shown = self._rules.splice(self._rounds, self._hidden, self._itemized)
        return [EndOfReply(as_json(self._shown))]

    def fail(self, error: bytes) -> list[Output]:
        """Fail the reply with an error body, the provider's or the proxy's own."""
        error = complete_error(error, self._rules.dialect)
        return [FailedBeforeOutput(error, error)]

    def visible(self) -> Reply:
        """Return the reply as the client sees it; empty until it is complete."""
        return self._rules.describe(self._shown, bool(self._shown))

    def list_hidden_usage(self) -> list[Tokens]:
        """Return the input of each round that the client's usage does not report."""
        return self._rules.list_hidden_usage(self._rounds, self._itemized)

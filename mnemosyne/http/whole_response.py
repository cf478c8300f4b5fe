"""A response that is not an event stream and may hold calls of memory tools, on its way to the client, sans-I/O."""

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.reply import Reply, as_json
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.responses_reply import ResponsesReply, describe
from mnemosyne.http import responses_splicing as splicing
from mnemosyne.http.errors import complete_error, cut_error
from mnemosyne.http.splicing import FailedBeforeOutput, Message, Next
from mnemosyne.http.stream_rewriter import EndOfReply, Output, ToClient


class WholeResponse:
    """Collects one whole response into ``reply``; how it is fed, and how the rounds follow each other, is as with
    WholeReply.

    Law: without a call of a hidden tool, and where the response does not name ours among its tools, the outputs,
    joined, are what was fed.
    """

    def __init__(self, hidden: frozenset[str], *, itemized: bool = False) -> None:
        self.reply = ResponsesReply()
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
        reply, response = self.reply.result(), self.reply.message()
        if self._rounds and not isinstance(response.get("output"), list):
            return self.fail(reply.body if response.get("error") else cut_error(RESPONSES))
        self._rounds.append(response)
        end = splicing.end_of_round(reply, response, self._hidden)
        if end.next is Next.CONTINUE:
            return [end]
        if len(self._rounds) == 1 and splicing.splice_items(self._rounds, self._hidden) == response.get("output", []):
            self._shown = splicing.without_tools(response, self._hidden)
            return [end, EndOfReply(splicing.cut_tools(reply.body, 0, self._hidden))]
        return [end, *self.end_now()]

    def cut(self) -> list[Output]:
        """The round's body broke off: what there is of it, and no end."""
        if self._rounds:
            return self.fail(cut_error(RESPONSES))
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
        self.reply = ResponsesReply()

    def end_now(self) -> list[Output]:
        """End the reply after a round that asked for another."""
        self._shown = splicing.splice_response(self._rounds, self._hidden)
        return [EndOfReply(as_json(self._shown))]

    def fail(self, error: bytes) -> list[Output]:
        """There is no reply to this round, but this error: the body that came instead, or one of our own."""
        error = complete_error(error, RESPONSES)
        return [FailedBeforeOutput(error, error)]

    def visible(self) -> Reply:
        """The reply as the client sees it; empty while it is not complete."""
        return describe(self._shown, as_json(self._shown), complete=bool(self._shown))

    def list_untold(self) -> list[Tokens]:
        """What the client was not told that the model was given, by round."""
        return splicing.list_untold(self._rounds)

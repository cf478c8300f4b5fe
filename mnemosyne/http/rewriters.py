"""Select the rewriter of a managed turn's reply by dialect and streaming."""

from collections.abc import Mapping

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.http.chat_rewriter import ChatRewriter
from mnemosyne.http.responses_rewriter import ResponsesRewriter
from mnemosyne.http.spliced_stream import SplicedStream
from mnemosyne.http.splicing import Hidden, Rules
from mnemosyne.http.stream_rewriter import StreamRewriter
from mnemosyne.http.whole_reply import WholeReply

Rewriter = SplicedStream | WholeReply
"""Rewrites one reply, round by round."""

_STREAMS: Mapping[str, type[SplicedStream]] = {
    MESSAGES.name: StreamRewriter,
    CHAT.name: ChatRewriter,
    RESPONSES.name: ResponsesRewriter,
}


def rules_of(dialect: Dialect) -> Rules:
    return _STREAMS[dialect.name].rules


def make_rewriter(dialect: Dialect, hidden: Hidden, *, streamed: bool, itemized: bool) -> Rewriter:
    """Return a rewriter; ``hidden`` are the names of the memory tools, for ``itemized`` see ``messages_splicing``."""
    if streamed:
        return _STREAMS[dialect.name](hidden, itemized=itemized)
    return WholeReply(rules_of(dialect), hidden, itemized=itemized)

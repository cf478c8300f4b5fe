"""What passes the reply of a managed turn on, by the dialect of its request and by whether it is a stream."""

from collections.abc import Mapping
from typing import Protocol

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect, ReplyReader
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.http.chat_rewriter import ChatRewriter, WholeChat
from mnemosyne.http.responses_rewriter import ResponsesRewriter
from mnemosyne.http.stream_rewriter import Output, StreamRewriter
from mnemosyne.http.whole_reply import WholeReply
from mnemosyne.http.whole_response import WholeResponse


class Rewriter(Protocol):
    """Passes one reply on, round by round (``StreamRewriter`` says how)."""

    @property
    def reply(self) -> ReplyReader: ...

    @property
    def shows_round(self) -> bool: ...

    @property
    def failed(self) -> bool: ...

    def feed(self, data: bytes) -> list[Output]: ...

    def close(self) -> list[Output]: ...

    def cut(self) -> list[Output]:
        """The round's connection broke off: what there is of it, and no end."""
        ...

    def next_round(self) -> None: ...

    def end_now(self) -> list[Output]: ...

    def fail(self, error: bytes) -> list[Output]: ...

    def ping(self) -> bytes: ...

    def visible(self) -> Reply: ...

    def list_untold(self) -> list[Tokens]: ...


class _Making(Protocol):
    def __call__(self, hidden: frozenset[str], *, itemized: bool) -> Rewriter: ...


@attrs.frozen
class _Rewriters:
    stream: _Making
    whole: _Making


_REWRITERS: Mapping[str, _Rewriters] = {
    MESSAGES.name: _Rewriters(StreamRewriter, WholeReply),
    CHAT.name: _Rewriters(ChatRewriter, WholeChat),
    RESPONSES.name: _Rewriters(ResponsesRewriter, WholeResponse),
}


def make_rewriter(dialect: Dialect, hidden: frozenset[str], *, streamed: bool, itemized: bool) -> Rewriter:
    """One for a reply in a dialect; ``hidden`` names the memory tools, for ``itemized`` see ``splicing``."""
    rewriters = _REWRITERS[dialect.name]
    return (rewriters.stream if streamed else rewriters.whole)(hidden, itemized=itemized)

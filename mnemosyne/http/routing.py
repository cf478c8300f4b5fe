"""Several providers behind one server: each request goes to the first that takes its dialect and its model."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs

from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.exchange import Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.http.messages_route import path_dialect, readable_body
from mnemosyne.upstreams import NamedUpstream


@attrs.frozen
class RoutedUpstream:
    """The provider of all requests (exchange.Upstream), and those that get some of them instead. What is no turn goes
    where the turns of its path go, a request that belongs to no dialect to the ``default``.
    """

    default: Upstream
    others: tuple[tuple[NamedUpstream, Upstream], ...] = ()

    def exchange(
        self, request: UpstreamRequest, sent: Callable[[], None]
    ) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send the request to its provider. Raises UpstreamFailed."""
        return self._choose(request).exchange(request, sent)

    def _choose(self, request: UpstreamRequest) -> Upstream:
        dialect = path_dialect(request) if self.others else None
        if dialect is None:
            return self.default
        body = readable_body(request.headers, request.body) or request.body
        model = _model_of(body)
        taking = [upstream for named, upstream in self.others if named.takes(dialect.name, model)]
        if model is None:  # its credentials are those of its dialect's provider, whatever it asks for
            taking += [upstream for named, upstream in self.others if dialect.name in named.dialects]
        return taking[0] if taking else self.default


def _model_of(body: bytes) -> str | None:
    named = (member for member in json_spans.members(body) or () if member.key == "model")
    return next((json_spans.text_at(body, member) for member in named), None)

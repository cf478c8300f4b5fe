"""Several providers behind one server: each request goes to the first that takes its dialect and its model."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs

from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.exchange import Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.http.messages_route import path_dialect
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
        model = _model_of(request.body)
        return next((upstream for named, upstream in self.others if named.takes(dialect.name, model)), self.default)


def _model_of(body: bytes) -> str | None:
    for member in json_spans.members(body) or ():
        if member.key == "model":
            value = json.loads(body[member.value_start : member.value_end])
            return value if isinstance(value, str) else None
    return None

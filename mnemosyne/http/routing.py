"""Route requests to several providers: each goes to the first that accepts its dialect and model."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs

from mnemosyne.domain.wire.exchange import Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.errors import NoModelNamed
from mnemosyne.http.messages_route import model_of, path_dialect, plain_path, readable_body, turn_dialect
from mnemosyne.upstreams import OPENAI_DIALECTS, NamedUpstream, list_takers

_OPENAI_PATHS = frozenset(
    b"""
    agents assistants audio batches chat chatkit completions containers content_provenance_checks conversations
    decisions embeddings evals files fine_tuning images live models moderations organization projects realtime
    responses safety skills threads uploads vaults vector_stores videos webhook_endpoints webhook_event_types
    """.split()
)
"""First path segments of OpenAI's API (library openai 3.54.0). Anthropic's API uses several of them as well."""


@attrs.frozen
class RoutedUpstream:
    """An ``exchange.Upstream`` that selects a provider by request. A request that is not a turn goes to the provider of
    its path's turns, or of OpenAI's dialects if it has an OpenAI key; otherwise to the ``default``.

    A turn without a model goes to the provider that accepts every model; otherwise a Messages API turn goes to the
    ``default``, and a turn of OpenAI's dialects to the only provider of its dialect.
    """

    default: Upstream
    others: tuple[tuple[NamedUpstream, Upstream], ...] = ()

    def exchange(
        self, request: UpstreamRequest, sent: Callable[[], None]
    ) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send the request to its provider. Raises UpstreamFailed, and NoModelNamed if the provider depends on a model
        that the request does not name.
        """
        return self._choose(request).exchange(request, sent)

    def _choose(self, request: UpstreamRequest) -> Upstream:
        dialect = path_dialect(request.target)
        of_openai = OPENAI_DIALECTS if _has_key_of_openai(request) else ()
        names = of_openai if dialect is None else (dialect.name,)
        if not (self.others and names):
            return self.default
        model = model_of(readable_body(request.headers, request.body) or request.body)
        upstreams = dict(self.others)
        takers = list_takers([*upstreams], names, model)
        if dialect is None and not takers:  # the key decides, regardless of the model
            takers = list_takers([*upstreams], names, None)
        if len(takers) > 1 and turn_dialect(request) is not None:
            candidates = "; ".join(f"{taker.name} ({', '.join(taker.models)})" for taker in takers)
            raise NoModelNamed(f"the request names no model, so its provider is unknown. Candidates: {candidates}.")
        return upstreams[takers[0]] if takers else self.default


def _has_key_of_openai(request: UpstreamRequest) -> bool:
    """Whether a request to a path of OpenAI's API has a bare key, as OpenAI's clients send it. Requests to Anthropic's
    API have a version header, and Anthropic's keys have their own prefix.
    """
    path = plain_path(request.target).removeprefix(b"/v1").lstrip(b"/")
    fields = {name.lower(): value for name, value in request.headers}
    key = fields.get(b"authorization", b"").partition(b" ")[2].lstrip()
    marked = b"x-api-key" in fields or any(name.startswith(b"anthropic-") for name in fields)
    return path.partition(b"/")[0] in _OPENAI_PATHS and bool(key) and not marked and not key.startswith(b"sk-ant-")

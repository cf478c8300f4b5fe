"""Several providers behind one server: each request goes to the first that takes its dialect and its model."""

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
"""What the paths of OpenAI's API begin with (the library openai 3.54.0). Several are of Anthropic's API, too."""


@attrs.frozen
class RoutedUpstream:
    """The provider of all requests (exchange.Upstream), and those that get some of them instead. What is no turn goes
    where the turns of its path go, or of OpenAI's dialects if the key is one of theirs; else to the ``default``.

    A turn that names no model goes where every model goes: else of the Messages API to the ``default``, of OpenAI's
    dialects to the only one that speaks its own.
    """

    default: Upstream
    others: tuple[tuple[NamedUpstream, Upstream], ...] = ()

    def exchange(
        self, request: UpstreamRequest, sent: Callable[[], None]
    ) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send the request to its provider. Raises UpstreamFailed, and NoModelNamed where only a model would
        say which is its provider.
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
        if dialect is None and not takers:  # its key is that of its dialects' provider, whatever it asks for
            takers = list_takers([*upstreams], names, None)
        if len(takers) > 1 and turn_dialect(request) is not None:
            taken = "; ".join(f"{each.name} ({', '.join(each.models)})" for each in takers)
            raise NoModelNamed(f"the request names no model, by which its provider is chosen. There are {taken}.")
        return upstreams[takers[0]] if takers else self.default


def _has_key_of_openai(request: UpstreamRequest) -> bool:
    """Whether a request to a path of OpenAI's API comes as its clients send it: with a bare key. Anthropic's API wants
    its version said in each request, and its keys say themselves whose they are.
    """
    path = plain_path(request.target).removeprefix(b"/v1").lstrip(b"/")
    fields = {name.lower(): value for name, value in request.headers}
    key = fields.get(b"authorization", b"").partition(b" ")[2].lstrip()
    marked = b"x-api-key" in fields or any(name.startswith(b"anthropic-") for name in fields)
    return path.partition(b"/")[0] in _OPENAI_PATHS and bool(key) and not marked and not key.startswith(b"sk-ant-")

"""The provider without a network: a request in, the steps of a response out.

It owns the state of the real APIs: the prompt caches, the signing secret, the counters behind the ids. Nothing here
waits, so requests are answered in the order of their arrival. For OpenAI's two dialects, an endpoint is what reads,
judges and writes; what happens in between is the same for both.
"""

import gzip
import zlib
from collections.abc import Callable
from functools import partial
from itertools import count, takewhile
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import orjson

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.tariffs import Caching
from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.api_errors import ApiFailure, error_body, openai_error_body
from mnemosyne_lab.provider.cache import AutomaticCache, LocalServer, PrefixUse, PromptCache, Slots, steps
from mnemosyne_lab.provider.choosing import Model, ReplyChooser, RequestView, view_chat, view_messages, view_responses
from mnemosyne_lab.provider.delivery import HeaderLines, Step, deliver, raw_steps, whole
from mnemosyne_lab.provider.diagnostics import MessagesDiagnostics, ResponsesDiagnostics, find_diagnostics_violation
from mnemosyne_lab.provider.openai_messages import (
    is_leading,
    wrap,
    write_blocks,
    write_chat,
    write_messages,
    write_responses,
)
from mnemosyne_lab.provider.reading import Body, Headers, Violation, as_dict, as_list, betas, header, session_key, tools
from mnemosyne_lab.provider.reply import ReplyContext, render_message
from mnemosyne_lab.provider.reply_openai import Composed, OpenAiContext, compose_chat, compose_responses, name_response
from mnemosyne_lab.provider.rules import SessionWatch, too_large, violations
from mnemosyne_lab.provider.rules_openai import find_chat_violations, find_responses_violations
from mnemosyne_lab.provider.script import Script, ScriptedReply
from mnemosyne_lab.provider.signatures import CONTROLS, Verdict, check, without

ORGANIZATION = "00000000-0000-4000-8000-000000000001"
_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth."
)


@attrs.frozen
class Received:
    """A request: its ``number`` from 1, and when its head arrived, in seconds of the server's clock."""

    number: int
    method: str
    target: str
    headers: Headers
    body: bytes
    at: float


@attrs.frozen
class Answer:
    """``rule`` is the name or number of the script's rule; empty for defaults and refusals. Call ``begin`` when the
    response starts: the request's cache writes become readable.
    """

    steps: list[Step]
    rule: str = ""
    begin: Callable[[], None] | None = None


@attrs.frozen
class RecordedViolation:
    request: int
    session: str | None
    violation: Violation


@attrs.frozen
class OpenAiEndpoint:
    """How one of OpenAI's two endpoints reads and checks requests and writes replies."""

    view: Callable[[Body, Headers], RequestView]
    find_violations: Callable[[Body, bytes], list[Violation]]
    """All violations of a body; the secret verifies the seals."""
    write_prompt: Callable[[Body], str]
    compose: Callable[[ScriptedReply, OpenAiContext], Composed]
    items: str


ENDPOINTS = {
    "/chat/completions": OpenAiEndpoint(
        view_chat, lambda body, _: find_chat_violations(body), write_chat, compose_chat, "messages"
    ),
    "/responses": OpenAiEndpoint(
        view_responses, find_responses_violations, write_responses, compose_responses, "input"
    ),
}


class Provider:
    """One account: the Messages API and both dialects of OpenAI."""

    def __init__(
        self,
        script: Script,
        *,
        strict: bool,
        secret: bytes,
        model: Model | None = None,
        local: LocalServer | None = None,
    ) -> None:
        self.strict = strict
        self.violations: list[RecordedViolation] = []
        self._secret = secret
        self._cache = PromptCache()
        self._slots = Slots(local) if local else None
        self._prefixes = self._slots or AutomaticCache()
        """The prefix cache of OpenAI's dialects."""
        self._behind: dict[str, AutomaticCache] = {}
        self._watch = SessionWatch()
        self._diagnostics = MessagesDiagnostics()
        self._compared = ResponsesDiagnostics()
        self.chooser = ReplyChooser(script, model)
        self._tool_calls, self._ids = count(1), count(1)

    def answer(self, request: Received) -> Answer:
        """Decide the response. An error of the API is an answer too; nothing is raised."""
        request_id = f"req_{request.number:024d}"
        path = urlsplit(request.target).path.removeprefix("/v1")
        endpoint = ENDPOINTS.get(path)
        headers = [("x-request-id", request_id), ("openai-version", "2020-10-01"), ("openai-organization", "stand-in")]
        if endpoint is None:
            headers = self._response_headers(request, request_id)
        try:
            if endpoint is None:
                return self._route(request, path, headers, request_id)
            return self._reply(request, endpoint, headers)
        except ApiFailure as refusal:
            status, text = refusal.status, refusal.message
            if endpoint is None:
                return Answer(whole(status, headers, error_body(status, request_id, text)))
            error = openai_error_body(status, text, param=refusal.param, code=refusal.code)
            return Answer(whole(status, headers, error))

    def _route(self, request: Received, path: str, headers: HeaderLines, request_id: str) -> Answer:
        match request.method, path:
            case "POST", "/messages":
                return self._message(request, headers, request_id)
            case "POST", "/messages/count_tokens":
                return self._count(request, headers)
            case "HEAD" | "GET", "/api/hello" | "/":
                return Answer(whole(200, headers, b'{"message":"hello"}'))
            case "GET", "/models":
                listed = [_model_entry(row.prefix) for row in models.MODELS]
                ends = {"has_more": False, "first_id": listed[0]["id"], "last_id": listed[-1]["id"]}
                return Answer(whole(200, headers, orjson.dumps({"object": "list", "data": listed, **ends})))
            case "GET", _ if path.startswith("/models/"):
                name = unquote(path.removeprefix("/models/"))
                if not any(row.prefix == models.find(name).prefix and row.prefix for row in models.MODELS):
                    raise ApiFailure(404, f"model: {name}")
                return Answer(whole(200, headers, orjson.dumps(_model_entry(name))))
            case _, "/messages" | "/messages/count_tokens" | "/models":
                raise ApiFailure(405)
        raise ApiFailure(404)

    def _message(self, request: Received, headers: HeaderLines, request_id: str) -> Answer:
        body = self._read(request, None)
        number = self.chooser.count_request()
        verdict = self._check(request, body, counting=False)
        seen = without(body, verdict.dropped)
        view = view_messages(body, request.headers)
        listed = {str(tool.get("name")): tool for tool in tools(body)}
        self._note(request, self._watch.look(listed, request.headers))
        rule, reply = self.chooser.choose(view, body)
        failing = reply.failure is not None or reply.raw is not None
        if not failing:
            self._refuse_too_long(steps(seen).tokens, str(body.get("model", "")))
        # A request that the API refuses writes nothing to the cache.
        use, prefix, begin = self._look(seen, reply, request.at, keeps=not failing)
        message_id = f"msg_{number:024d}"
        compared = None if failing else self._diagnostics.compare(seen, request.headers, message_id)
        reports = [entry.report() for entry in verdict.dropped] if CONTROLS in betas(request.headers) else []
        if verdict.dropped:
            headers = [*headers, ("anthropic-thinking-prefix-mismatch", "drop_block")]
        context = ReplyContext(
            body=body,
            message_id=message_id,
            request_id=request_id,
            tool_id=lambda: f"toolu_{next(self._tool_calls):024d}",
            use=use,
            conversation=verdict.conversation,
            transformations=reports,
            prefix=prefix,
            diagnostics=compared if reply.diagnostics is None else reply.diagnostics,
        )
        rendering = render_message(reply, context)
        sent = deliver(reply, rendering, stream=view.stream, asked=request.headers, headers=headers)
        return Answer(sent, rule, None if failing else begin)

    def _look(
        self, body: Body, reply: ScriptedReply, at: float, *, keeps: bool
    ) -> tuple[Tokens, PrefixUse | None, Callable[[], None]]:
        """Look a request up in the cache. Returns its tokens, the prefix, and what to call as its reply begins."""
        name = str(body.get("model", ""))
        prefixes = self._slots or self._find_automatic(name)
        if prefixes is None:
            cache = self._cache if keeps else PromptCache()
            used, begin = cache.request(body, at)
            return used, None, begin
        prompt, head = write_messages(body), write_messages({**body, "messages": []})
        prefix = prefixes.look(prompt, name, at, [len(head), len(prompt)] if models.bills_writes(name) else ())
        said = wrap("assistant", write_blocks(reply.blocks))
        rest = prefix.total - prefix.cached - prefix.written
        used = Tokens(input=rest, read=prefix.cached, write_5m=prefix.written)
        return used, prefix, partial(prefix.keep, said)

    def _find_automatic(self, model: str) -> AutomaticCache | None:
        """What remembers the prompts of OpenAI's models, which a gateway serves in this dialect; None for others."""
        paid = models.tariff_of_model(model)
        if paid.caching is Caching.MARKERS or paid.seconds is None:
            return None
        return self._behind.setdefault(paid.name, AutomaticCache(paid.seconds))

    def _count(self, request: Received, headers: HeaderLines) -> Answer:
        body = self._read(request, None, counting=True)
        seen = without(body, self._check(request, body, counting=True).dropped)
        chosen = self.chooser.choose_for_counting(view_messages(body, request.headers))
        if chosen is not None:
            rule, reply = chosen
            if reply.failure is not None:
                raise ApiFailure(reply.failure.status, reply.failure.message)
            if reply.raw is not None:
                return Answer(raw_steps(reply.raw), rule)
        return Answer(whole(200, headers, orjson.dumps({"input_tokens": steps(seen).tokens})))

    def _reply(self, request: Received, endpoint: OpenAiEndpoint, headers: HeaderLines) -> Answer:
        if request.method != "POST":
            raise ApiFailure(405)  # an upgrade to a WebSocket is a GET, too
        body = self._read(request, endpoint)
        view = endpoint.view(body, request.headers)
        number = self.chooser.count_request()
        first = {"input": as_list(body.get("input"))[:1]} if endpoint.items == "input" else {}
        self._note(request, self._watch.look(endpoint.view({**body, **first}, request.headers).tools, request.headers))
        rule, reply = self.chooser.choose(view, body)
        prompt = endpoint.write_prompt(body)
        breaks = [len(_head_of(body, endpoint)), len(prompt)] if models.bills_writes(view.model) else ()
        # Prompts of another model, or of another `prompt_cache_key`, share nothing.
        key = f"{body.get('model')}\n{body.get('prompt_cache_key', '')}"
        prefix = self._prefixes.look(prompt, key, request.at, breaks)
        failing = reply.failure is not None or reply.raw is not None
        compared = None
        if not failing:
            self._refuse_too_long(prefix.total, view.model, endpoint)
            if endpoint.items == "input":
                compared = self._compared.compare(body, name_response(number), prefix.total)
        if compared is not None and reply.diagnostics is not None:
            compared = reply.diagnostics
        context = OpenAiContext(body, view, number, lambda: f"{next(self._ids):024x}", prefix, self._secret, compared)
        composed = endpoint.compose(reply, context)
        sent = deliver(reply, composed.rendering, stream=view.stream, asked=request.headers, headers=headers)
        return Answer(sent, rule, None if failing else lambda: prefix.keep(composed.text))

    def _read(self, request: Received, endpoint: OpenAiEndpoint | None, *, counting: bool = False) -> Body:
        """The decoded body of a well-formed and authorised request. Raises ApiFailure."""
        large = too_large(len(request.body))
        if large is not None:
            self._note(request, [large])
            raise ApiFailure(413, large.message)
        if self.strict:
            _refuse_unauthorized(request, endpoint)
        try:
            body = orjson.loads(_decode(request))
        except ValueError as problem:
            what = "The request body is not valid JSON"
            if endpoint is not None:
                what = "We could not parse the JSON body of your request"
            raise ApiFailure(400, f"{what}: {problem}") from problem
        if endpoint is not None:
            found = self._find_openai_violations(body, endpoint)
        else:
            found = self._find_violations(body, request.headers, counting=counting)
        self._note(request, found)
        if found and (self.strict or not isinstance(body, dict)):
            worst = found[0]
            raise ApiFailure(worst.status, worst.message, param=worst.path or None, code=worst.code)
        read: Body = body
        return read

    def _find_violations(self, body: Body, headers: Headers, *, counting: bool) -> list[Violation]:
        refused = sorted(betas(headers) & {*self.chooser.script.refused_betas})
        if refused:
            text = f"Unexpected value(s) `{refused[0]}` for the `anthropic-beta` header. Please try again without it."
            raise ApiFailure(400, text)
        refuses = counting or not self.chooser.script.diagnostics
        return [*violations(body, headers, counting=counting), *find_diagnostics_violation(body, refuses=refuses)]

    def _find_openai_violations(self, body: Body, endpoint: OpenAiEndpoint) -> list[Violation]:
        if not isinstance(body, dict):
            raise ApiFailure(400, "The JSON body of your request must be an object")
        found = endpoint.find_violations(body, self._secret)
        path = "prompt_cache_options.comparison_response_id"
        if not self.chooser.script.diagnostics and path.split(".")[1] in as_dict(body.get("prompt_cache_options")):
            return [*found, Violation("O0", f"Unknown parameter: '{path}'.", path, "unknown_parameter")]
        return found

    def _check(self, request: Received, body: Body, *, counting: bool) -> Verdict:
        """The prefix check. Raises ApiFailure in strict mode when a signature does not fit."""
        verdict = check(self._secret, body, request.headers)
        if verdict.error is not None:
            self._note(request, [Violation("signature", verdict.error, verdict.error.split(":")[0])])
            if self.strict:
                raise ApiFailure(400, verdict.error)
        return verdict

    def _refuse_too_long(self, size: int, model: str, endpoint: OpenAiEndpoint | None = None) -> None:
        window = self.chooser.script.window or models.find(model).window
        if size <= window:
            return
        if endpoint is None:
            raise ApiFailure(400, f"prompt is too long: {size} tokens > {window} maximum")
        text = (
            f"This model's maximum context length is {window} tokens. However, your messages resulted in {size} tokens."
            " Please reduce the length of the messages."
        )
        raise ApiFailure(400, text, param=endpoint.items, code="context_length_exceeded")

    def _note(self, request: Received, found: list[Violation]) -> None:
        key = session_key(request.headers)
        session = key[0] if key else None
        self.violations.extend(RecordedViolation(request.number, session, violation) for violation in found)

    def _response_headers(self, request: Received, request_id: str) -> HeaderLines:
        headers = [("request-id", request_id), ("anthropic-organization-id", ORGANIZATION)]
        if request.method == "POST":
            left = max(0, 4000 - request.number)
            for kind, limit, remaining in (
                ("requests", 4000, left),
                ("tokens", 4_000_000, left * 1000),
                ("input-tokens", 3_200_000, left * 800),
                ("output-tokens", 800_000, left * 200),
            ):
                prefix = f"anthropic-ratelimit-{kind}"
                headers.append((f"{prefix}-limit", str(limit)))
                headers.append((f"{prefix}-remaining", str(remaining)))
                headers.append((f"{prefix}-reset", "2027-01-01T00:00:00Z"))
            headers += _window_headers(request)
        return headers


def _decode(request: Received) -> bytes:
    """The body without its content encoding. Raises ValueError for one that is unknown or broken."""
    encoding = (header(request.headers, "content-encoding") or "identity").lower()
    if encoding == "identity":
        return request.body
    if encoding != "gzip":
        raise ValueError(f"content-encoding {encoding} is not supported")
    try:
        return gzip.decompress(request.body)
    except (OSError, EOFError, zlib.error) as problem:
        raise ValueError(f"the gzip encoding is broken: {problem}") from problem


def _refuse_unauthorized(request: Received, endpoint: OpenAiEndpoint | None) -> None:
    names = {name.lower() for name, _ in request.headers}
    if endpoint is not None:
        if not (header(request.headers, "authorization") or "").startswith("Bearer "):
            raise ApiFailure(401, _NO_KEY)
    elif not names & {"x-api-key", "authorization"}:
        raise ApiFailure(401, "x-api-key header is required")
    elif "anthropic-version" not in names:
        raise ApiFailure(400, "anthropic-version: header is required")


def _head_of(body: Body, endpoint: OpenAiEndpoint) -> str:
    """The prompt up to the conversation: instructions and tools."""
    said = as_list(body.get(endpoint.items)) if endpoint.items == "messages" else []
    return endpoint.write_prompt({**body, endpoint.items: [*takewhile(is_leading, said)]})


def _window_headers(request: Received) -> HeaderLines:
    """The rate-limit windows of a subscription: each request uses a hundredth of five hours."""
    if not (header(request.headers, "authorization") or "").lower().startswith("bearer sk-ant-oat"):
        return []
    said: HeaderLines = []
    for window, share, reset in (("5h", 100, 1_798_765_200), ("7d", 1_000, 1_799_280_000)):
        prefix = f"anthropic-ratelimit-unified-{window}"
        said += [
            (f"{prefix}-utilization", f"{min(1.0, request.number / share):.3f}"),
            (f"{prefix}-reset", str(reset)),
            (f"{prefix}-status", "allowed" if request.number < share else "rejected"),
        ]
    return said


def _model_entry(name: str) -> dict[str, Any]:
    """One model in the shape of either vendor's list."""
    row = models.find(name)
    return {
        "type": "model",
        "object": "model",
        "id": name,
        "owned_by": "stand-in",
        "created": 1_767_225_600,
        "display_name": name.removeprefix("claude-").replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": row.window,
        "max_tokens": 128_000,
    }

"""The provider itself, without a network: a request in, the steps of a response out.

It owns what the real API owns: the prompt cache, the signing secret, the counters behind the ids. Nothing here waits,
so requests are answered in the order of their arrival.
"""

import gzip
import zlib
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import orjson

from mnemosyne.lab.provider import models
from mnemosyne.lab.provider.api_errors import error_body, whole
from mnemosyne.lab.provider.cache import Lookup, PromptCache, steps
from mnemosyne.lab.provider.defaults import default_reply
from mnemosyne.lab.provider.reading import (
    Body,
    Headers,
    after_tools,
    betas,
    count_rounds,
    header,
    lane,
    last_text,
    prompt,
    session_key,
    text_in,
    tools,
)
from mnemosyne.lab.provider.reply import ReplyContext, raw_steps, steps_for
from mnemosyne.lab.provider.rules import Violation, too_large, violations
from mnemosyne.lab.provider.script import Script, ScriptedReply, ScriptRule, When
from mnemosyne.lab.provider.sessions import SessionWatch
from mnemosyne.lab.provider.signatures import CONTROLS, Verdict, check, without
from mnemosyne.lab.provider.wire_steps import HeaderLines, Step

ORGANIZATION = "00000000-0000-4000-8000-000000000001"

Model = Callable[[Body], ScriptedReply]
"""What answers a request with tools that fits no rule of the script: it knows that request's body and nothing else."""


@attrs.frozen
class Received:
    """One HTTP request, complete."""

    number: int
    """Order of arrival, from 1."""
    method: str
    target: str
    """As it stood in the request line."""
    headers: Headers
    body: bytes
    at: float
    """When its head arrived, in seconds of the server's clock."""


@attrs.frozen
class Answer:
    """What the server does about a request."""

    steps: list[Step]
    rule: str = ""
    """The name or number of the script's rule; empty for defaults and refusals."""
    lookup: Lookup | None = None
    """Give it to `Provider.begin_reply` when the response starts."""


@attrs.frozen
class Noted:
    """A breach and the request that showed it."""

    request: int
    session: str | None
    violation: Violation


class ApiFailure(Exception):
    """The API answers with an error instead of a message."""

    def __init__(self, status: int, message: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Provider:
    """One account of the Messages API."""

    def __init__(self, script: Script, *, strict: bool, secret: bytes, model: Model | None = None) -> None:
        self.script = script
        self.strict = strict
        self._model = model
        self.violations: list[Noted] = []
        self._secret = secret
        self._cache = PromptCache()
        self._watch = SessionWatch()
        self._fits: dict[int, int] = {}
        """How many requests each rule has fitted, by its number."""
        self._messages = 0
        self._tool_calls = 0

    def answer(self, request: Received) -> Answer:
        """Decide the response. An error of the API is an answer too; nothing is raised."""
        request_id = f"req_{request.number:024d}"
        headers = self._response_headers(request, request_id)
        path = urlsplit(request.target).path
        route = self.script.routes.get(f"{request.method} {path}")
        if route is not None:
            return Answer(raw_steps(route), rule=f"route {request.method} {path}")
        try:
            return self._route(request, path.removeprefix("/v1"), headers, request_id)
        except ApiFailure as refusal:
            body = error_body(refusal.status, request_id, refusal.message)
            return Answer(whole(refusal.status, headers, body))

    def begin_reply(self, lookup: Lookup) -> None:
        """The response to the request of that lookup has begun."""
        self._cache.begin_reply(lookup)

    def _route(self, request: Received, path: str, headers: HeaderLines, request_id: str) -> Answer:
        match request.method, path:
            case "POST", "/messages":
                return self._message(request, headers, request_id)
            case "POST", "/messages/count_tokens":
                return self._count(request, headers, request_id)
            case "HEAD" | "GET", "/api/hello" | "/":
                return Answer(whole(200, headers, b'{"message":"hello"}'))
            case "GET", "/models":
                listed = [_model_entry(row.prefix) for row in models.MODELS]
                ends = {"has_more": False, "first_id": listed[0]["id"], "last_id": listed[-1]["id"]}
                return Answer(whole(200, headers, orjson.dumps({"data": listed, **ends})))
            case "GET", _ if path.startswith("/models/"):
                name = unquote(path.removeprefix("/models/"))
                if not any(row.prefix == models.find(name).prefix and row.prefix for row in models.MODELS):
                    raise ApiFailure(404, f"model: {name}")
                return Answer(whole(200, headers, orjson.dumps(_model_entry(name))))
            case _, "/messages" | "/messages/count_tokens" | "/models":
                raise ApiFailure(405)
        raise ApiFailure(404)

    def _message(self, request: Received, headers: HeaderLines, request_id: str) -> Answer:
        body = self._read(request, counting=False)
        self._messages += 1
        verdict = self._check(request, body, counting=False)
        seen = without(body, verdict.dropped)
        self._note(request, self._watch.look(body, request.headers))
        rule, reply = self._choose(body, request.headers)
        failing = reply.failure is not None or reply.raw is not None
        if failing:
            # A request that the API refuses writes nothing to the cache.
            lookup = PromptCache().request(seen, request.at)
        else:
            self._refuse_too_long(seen)
            lookup = self._cache.request(seen, request.at)
        reports = [entry.report() for entry in verdict.dropped] if CONTROLS in betas(request.headers) else []
        if verdict.dropped:
            headers = [*headers, ("anthropic-thinking-prefix-mismatch", "drop_block")]
        context = ReplyContext(
            body=body,
            headers=request.headers,
            message_id=f"msg_{self._messages:024d}",
            request_id=request_id,
            tool_id=self._next_tool_id,
            use=lookup.use,
            conversation=verdict.conversation,
            transformations=reports,
            response_headers=headers,
        )
        return Answer(steps_for(reply, context), rule, None if failing else lookup)

    def _count(self, request: Received, headers: HeaderLines, request_id: str) -> Answer:
        body = self._read(request, counting=True)
        seen = without(body, self._check(request, body, counting=True).dropped)
        for number, rule in enumerate(self.script.rules):
            if rule.counting and self._fires(number, rule, body, request.headers):
                reply = rule.reply_for(0)
                if reply is not None and reply.failure is not None:
                    raise ApiFailure(reply.failure.status, reply.failure.message)
                if reply is not None and reply.raw is not None:
                    return Answer(raw_steps(reply.raw), _label(number, rule))
        counted = steps(seen)
        return Answer(whole(200, headers, orjson.dumps({"input_tokens": counted[-1].tokens if counted else 0})))

    def _next_tool_id(self) -> str:
        self._tool_calls += 1
        return f"toolu_{self._tool_calls:024d}"

    def _read(self, request: Received, *, counting: bool) -> Body:
        """The decoded body of a well-formed and authorised request. Raises Refused."""
        large = too_large(len(request.body))
        if large is not None:
            self._note(request, [large])
            raise ApiFailure(413, large.message)
        names = {name.lower() for name, _ in request.headers}
        if self.strict and not names & {"x-api-key", "authorization"}:
            raise ApiFailure(401, "x-api-key header is required")
        if self.strict and "anthropic-version" not in names:
            raise ApiFailure(400, "anthropic-version: header is required")
        try:
            body = orjson.loads(_decode(request))
        except ValueError as problem:
            raise ApiFailure(400, f"The request body is not valid JSON: {problem}") from problem
        found = violations(body, request.headers, counting=counting)
        self._note(request, found)
        if found and (self.strict or not isinstance(body, dict)):
            raise ApiFailure(400, found[0].message)
        read: Body = body
        return read

    def _check(self, request: Received, body: Body, *, counting: bool) -> Verdict:
        """The prefix check. Raises Refused in strict mode when a signature does not fit."""
        verdict = check(self._secret, body, request.headers)
        if verdict.error is not None:
            self._note(request, [Violation("signature", verdict.error, verdict.error.split(":")[0])])
            if self.strict:
                raise ApiFailure(400, verdict.error)
        return verdict

    def _refuse_too_long(self, body: Body) -> None:
        window = self.script.window or models.find(str(body.get("model", ""))).window
        prompt_steps = steps(body)
        size = prompt_steps[-1].tokens if prompt_steps else 0
        if size > window:
            raise ApiFailure(400, f"prompt is too long: {size} tokens > {window} maximum")

    def _note(self, request: Received, found: list[Violation]) -> None:
        key = session_key(request.headers)
        session = key[0] if key else None
        self.violations.extend(Noted(request.number, session, violation) for violation in found)

    def _choose(self, body: Body, headers: Headers) -> tuple[str, ScriptedReply]:
        rounds = count_rounds(body)
        for number, rule in enumerate(self.script.rules):
            reply = rule.reply_for(rounds)
            if reply is None or rule.counting:
                continue
            if self._fires(number, rule, body, headers):
                return _label(number, rule), reply
        if self._model is not None and tools(body):
            return "model", self._model(body)
        return "", default_reply(self.script, body, headers)

    def _fires(self, number: int, rule: ScriptRule, body: Body, headers: Headers) -> bool:
        if not fits(rule.when, body, headers, self._messages):
            return False
        before = self._fits.get(number, 0)
        self._fits[number] = before + 1
        return before >= rule.skip and (rule.times is None or before < rule.skip + rule.times)

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


def _window_headers(request: Received) -> HeaderLines:
    """The windows of a subscription: whoever has logged in uses a hundredth of five hours with each request."""
    given = {name.lower(): value for name, value in request.headers}
    if not given.get("authorization", "").lower().startswith("bearer sk-ant-oat"):
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


def _label(number: int, rule: ScriptRule) -> str:
    return rule.name or f"rules[{number}]"


def fits(when: When, body: Body, headers: Headers, request: int) -> bool:
    """Whether all given conditions hold; `request` is the number of this message request."""
    checks: tuple[tuple[object, Callable[[], bool]], ...] = (
        (when.lane, lambda: lane(body, headers) == when.lane),
        (when.prompt, lambda: str(when.prompt) in prompt(body)),
        (when.last, lambda: str(when.last) in last_text(body)),
        (when.system, lambda: str(when.system) in text_in(body.get("system"))),
        (when.tools, lambda: bool(tools(body)) == when.tools),
        (when.tool, lambda: any(tool.get("name") == when.tool for tool in tools(body))),
        (when.model, lambda: fnmatchcase(str(body.get("model")), str(when.model))),
        (when.after_tools, lambda: after_tools(body) == when.after_tools),
        (when.rounds, lambda: count_rounds(body) == when.rounds),
        (when.request, lambda: request == when.request),
        (when.agent, lambda: header(headers, "x-claude-code-agent-id") == when.agent),
        (when.stream, lambda: (body.get("stream") is True) == when.stream),
    )
    return all(holds() for wanted, holds in checks if wanted is not None)


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


def _model_entry(name: str) -> dict[str, Any]:
    row = models.find(name)
    return {
        "type": "model",
        "id": name,
        "display_name": name.removeprefix("claude-").replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": row.window,
        "max_tokens": 128_000,
    }

"""The provider without a network: a request in, the steps of a response out.

It owns the state of the real API: the prompt cache, the signing secret, the counters behind the ids. Nothing here
waits, so requests are answered in the order of their arrival.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from mnemosyne.domain.cost.tariffs import Caching
from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.api_errors import ApiFailure, error_body, whole
from mnemosyne_lab.provider.cache import CacheUse, PromptCache, steps
from mnemosyne_lab.provider.choosing import Model, ReplyChooser
from mnemosyne_lab.provider.delivery import raw_steps
from mnemosyne_lab.provider.diagnostics import MessagesDiagnostics, find_diagnostics_breach
from mnemosyne_lab.provider.openai_api import ENDPOINTS, OpenAiApi
from mnemosyne_lab.provider.prefix_cache import AutomaticCache, LocalServer, PrefixUse, Slots
from mnemosyne_lab.provider.reading import Body, betas, session_key, tools
from mnemosyne_lab.provider.received import Answer, Received, RecordedViolation, decode
from mnemosyne_lab.provider.reply import ReplyContext, steps_for
from mnemosyne_lab.provider.rules import Violation, too_large, violations
from mnemosyne_lab.provider.script import Script, ScriptedReply
from mnemosyne_lab.provider.sessions import SessionWatch
from mnemosyne_lab.provider.signatures import CONTROLS, Verdict, check, without
from mnemosyne_lab.provider.templates import wrap, write_blocks, write_messages
from mnemosyne_lab.provider.view import view_messages
from mnemosyne_lab.provider.wire_steps import HeaderLines

ORGANIZATION = "00000000-0000-4000-8000-000000000001"


class Provider:
    """One account: the Messages API itself, and the dialects of OpenAI through `OpenAiApi`."""

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
        self._local = local
        self._slots = Slots(local) if local else None
        self._behind: dict[str, AutomaticCache] = {}
        self._watch = SessionWatch()
        self._diagnostics = MessagesDiagnostics()
        self._chooser = ReplyChooser(script, model)
        self._tool_calls = 0
        self._openai = OpenAiApi(
            self._chooser,
            strict=strict,
            secret=secret,
            cache=self._slots or AutomaticCache(),
            note=self._note,
            watch=self._watch,
        )

    @property
    def script(self) -> Script:
        """The script in use."""
        return self._chooser.script

    @script.setter
    def script(self, script: Script) -> None:
        self._chooser.change_script(script)

    def answer(self, request: Received) -> Answer:
        """Decide the response. An error of the API is an answer too; nothing is raised."""
        request_id = f"req_{request.number:024d}"
        path = urlsplit(request.target).path
        path = path.removeprefix("/v1")
        if path in ENDPOINTS:
            return self._openai.answer(request, ENDPOINTS[path], request_id)
        headers = self._response_headers(request, request_id)
        try:
            return self._route(request, path, headers, request_id)
        except ApiFailure as refusal:
            body = error_body(refusal.status, request_id, refusal.message)
            return Answer(whole(refusal.status, headers, body))

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
        body = self._read(request, counting=False)
        number = self._chooser.count_request()
        verdict = self._check(request, body, counting=False)
        seen = without(body, verdict.dropped)
        view = view_messages(body, request.headers)
        listed = {str(tool.get("name")): tool for tool in tools(body)}
        self._note(request, self._watch.look(listed, request.headers))
        rule, reply = self._chooser.choose(view, body)
        failing = reply.failure is not None or reply.raw is not None
        if not failing:
            self._refuse_too_long(seen)
        # A request that the API refuses writes nothing to the cache.
        use, prefix, begin = self._look(seen, reply, request.at, keeps=not failing)
        message_id = f"msg_{number:024d}"
        compared = None if failing else self._diagnostics.compare(seen, request.headers, message_id)
        reports = [entry.report() for entry in verdict.dropped] if CONTROLS in betas(request.headers) else []
        if verdict.dropped:
            headers = [*headers, ("anthropic-thinking-prefix-mismatch", "drop_block")]
        context = ReplyContext(
            body=body,
            view=view,
            message_id=message_id,
            request_id=request_id,
            tool_id=self._next_tool_id,
            use=use,
            conversation=verdict.conversation,
            transformations=reports,
            response_headers=headers,
            prefix=prefix,
            diagnostics=compared if reply.diagnostics is None else reply.diagnostics,
        )
        return Answer(steps_for(reply, context), rule, None if failing else begin)

    def _look(
        self, body: Body, reply: ScriptedReply, at: float, *, keeps: bool
    ) -> tuple[CacheUse, PrefixUse | None, Callable[[], None]]:
        """The request's cache lookup, and the action for the beginning of its reply."""
        name = str(body.get("model", ""))
        prefixes = self._slots or self._find_automatic(name)
        if prefixes is None:
            cache = self._cache if keeps else PromptCache()
            lookup = cache.request(body, at)
            return lookup.use, None, partial(cache.begin_reply, lookup)
        prompt, head = write_messages(body), write_messages({**body, "messages": []})
        prefix = prefixes.look(prompt, name, at, [len(head), len(prompt)] if models.bills_writes(name) else ())
        said = wrap("assistant", write_blocks(reply.blocks))
        rest = prefix.total - prefix.cached - prefix.written
        return CacheUse(prefix.cached, prefix.written, 0, rest), prefix, partial(prefix.keep, said)

    def _find_automatic(self, model: str) -> AutomaticCache | None:
        """What remembers the prompts of OpenAI's models, which a gateway serves in this dialect; None for others."""
        paid = models.tariff_of_model(model)
        if paid.caching is Caching.MARKERS or paid.seconds is None:
            return None
        return self._behind.setdefault(paid.name, AutomaticCache(paid.seconds))

    def _count(self, request: Received, headers: HeaderLines) -> Answer:
        body = self._read(request, counting=True)
        seen = without(body, self._check(request, body, counting=True).dropped)
        chosen = self._chooser.choose_for_counting(view_messages(body, request.headers))
        if chosen is not None:
            rule, reply = chosen
            if reply.failure is not None:
                raise ApiFailure(reply.failure.status, reply.failure.message)
            if reply.raw is not None:
                return Answer(raw_steps(reply.raw), rule)
        counted = steps(seen)
        return Answer(whole(200, headers, orjson.dumps({"input_tokens": counted[-1].tokens if counted else 0})))

    def _next_tool_id(self) -> str:
        self._tool_calls += 1
        return f"toolu_{self._tool_calls:024d}"

    def _read(self, request: Received, *, counting: bool) -> Body:
        """The decoded body of a well-formed and authorised request. Raises ApiFailure."""
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
            body = orjson.loads(decode(request))
        except ValueError as problem:
            raise ApiFailure(400, f"The request body is not valid JSON: {problem}") from problem
        refused = sorted(betas(request.headers) & {*self.script.refused_betas})
        if refused:
            text = f"Unexpected value(s) `{refused[0]}` for the `anthropic-beta` header. Please try again without it."
            raise ApiFailure(400, text)
        refuses = counting or not self.script.diagnostics
        found = [
            *violations(body, request.headers, counting=counting),
            *find_diagnostics_breach(body, refuses=refuses),
        ]
        self._note(request, found)
        if found and (self.strict or not isinstance(body, dict)):
            raise ApiFailure(400, found[0].message)
        read: Body = body
        return read

    def _check(self, request: Received, body: Body, *, counting: bool) -> Verdict:
        """The prefix check. Raises ApiFailure in strict mode when a signature does not fit."""
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


def _window_headers(request: Received) -> HeaderLines:
    """The rate-limit windows of a subscription: each request uses a hundredth of five hours."""
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

"""OpenAI's two dialects on one account: a request in, the steps of a response out.

An endpoint is what reads, judges and writes; what happens in between is the same for both.
"""

from collections.abc import Callable
from itertools import takewhile

import attrs
import orjson

from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.api_errors import ApiFailure, whole
from mnemosyne_lab.provider.choosing import ReplyChooser
from mnemosyne_lab.provider.composing import Composed, OpenAiContext, openai_error_body
from mnemosyne_lab.provider.delivery import deliver
from mnemosyne_lab.provider.diagnostics import ResponsesDiagnostics
from mnemosyne_lab.provider.prefix_cache import PrefixCache
from mnemosyne_lab.provider.reading import Body, Headers, as_dict, as_list, header
from mnemosyne_lab.provider.received import Answer, Received, decode
from mnemosyne_lab.provider.reply_chat import compose_chat
from mnemosyne_lab.provider.reply_responses import compose_responses, name_response
from mnemosyne_lab.provider.responses import list_items, view_responses
from mnemosyne_lab.provider.rules import too_large
from mnemosyne_lab.provider.rules_chat import find_chat_breaches
from mnemosyne_lab.provider.rules_markers import Violation
from mnemosyne_lab.provider.rules_responses import find_responses_breaches
from mnemosyne_lab.provider.script import ScriptedReply
from mnemosyne_lab.provider.sessions import SessionWatch
from mnemosyne_lab.provider.templates import is_leading, write_chat, write_responses
from mnemosyne_lab.provider.view import RequestView, view_chat
from mnemosyne_lab.provider.wire_steps import HeaderLines

_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth."
)


@attrs.frozen
class OpenAiEndpoint:
    """How one of the two endpoints reads, judges and writes."""

    view: Callable[[Body, Headers], RequestView]
    find_breaches: Callable[[Body, bytes], list[Violation]]
    """All breaches of a body; the secret verifies the seals."""
    write_prompt: Callable[[Body], str]
    compose: Callable[[ScriptedReply, OpenAiContext], Composed]
    items: str
    """The field that holds the conversation."""


ENDPOINTS = {
    "/chat/completions": OpenAiEndpoint(
        view_chat, lambda body, _: find_chat_breaches(body), write_chat, compose_chat, "messages"
    ),
    "/responses": OpenAiEndpoint(
        view_responses,
        find_responses_breaches,
        lambda body: write_responses(body, list_items(body)),
        compose_responses,
        "input",
    ),
}
"""By path."""


class OpenAiApi:
    """One account of OpenAI's API."""

    def __init__(
        self,
        chooser: ReplyChooser,
        *,
        strict: bool,
        secret: bytes,
        cache: PrefixCache,
        note: Callable[[Received, list[Violation]], None],
        watch: SessionWatch,
    ) -> None:
        self._chooser = chooser
        self._strict = strict
        self._secret = secret
        self._cache = cache
        self._note = note
        self._watch = watch
        self._diagnostics = ResponsesDiagnostics()
        self._ids = 0

    def answer(self, request: Received, endpoint: OpenAiEndpoint, request_id: str) -> Answer:
        """Decide the response. An error of the API is an answer too; nothing is raised."""
        headers = [("x-request-id", request_id), ("openai-version", "2020-10-01"), ("openai-organization", "stand-in")]
        try:
            return self._reply(request, endpoint, headers)
        except ApiFailure as refusal:
            body = openai_error_body(refusal.status, refusal.message, param=refusal.param, code=refusal.code)
            return Answer(whole(refusal.status, headers, body))

    def _reply(self, request: Received, endpoint: OpenAiEndpoint, headers: HeaderLines) -> Answer:
        if request.method != "POST":
            raise ApiFailure(405)  # an upgrade to a WebSocket is a GET, too
        body = self._read(request, endpoint)
        view = endpoint.view(body, request.headers)
        number = self._chooser.count_request()
        first = {"input": as_list(body.get("input"))[:1]} if endpoint.items == "input" else {}
        self._note(request, self._watch.look(endpoint.view({**body, **first}, request.headers).tools, request.headers))
        rule, reply = self._chooser.choose(view, body)
        prompt = endpoint.write_prompt(body)
        breaks = [len(_head_of(body, endpoint)), len(prompt)] if models.bills_writes(view.model) else ()
        prefix = self._cache.look(prompt, _key(body), request.at, breaks)
        failing = reply.failure is not None or reply.raw is not None
        if not failing:
            self._refuse_too_long(prefix.total, view.model, endpoint)
        compared = None
        if not failing and endpoint.items == "input":
            compared = self._diagnostics.compare(body, name_response(number), prefix.total)
        if compared is not None and reply.diagnostics is not None:
            compared = reply.diagnostics
        context = OpenAiContext(body, view, number, self._next_id, prefix, self._secret, compared)
        composed = endpoint.compose(reply, context)
        steps = deliver(reply, composed.rendering, stream=view.stream, asked=request.headers, headers=headers)
        return Answer(steps, rule, None if failing else lambda: prefix.keep(composed.text))

    def _read(self, request: Received, endpoint: OpenAiEndpoint) -> Body:
        """The decoded body of a well-formed and authorised request. Raises ApiFailure."""
        large = too_large(len(request.body))
        if large is not None:
            self._note(request, [large])
            raise ApiFailure(413, large.message)
        if self._strict and not (header(request.headers, "authorization") or "").startswith("Bearer "):
            raise ApiFailure(401, _NO_KEY)
        try:
            body = orjson.loads(decode(request))
        except ValueError as problem:
            text = f"We could not parse the JSON body of your request: {problem}"
            raise ApiFailure(400, text) from problem
        if not isinstance(body, dict):
            raise ApiFailure(400, "The JSON body of your request must be an object")
        found = [*endpoint.find_breaches(body, self._secret), *self._find_refused(body)]
        self._note(request, found)
        if found and self._strict:
            worst = found[0]
            raise ApiFailure(worst.status, worst.message, param=worst.path or None, code=worst.code)
        return body

    def _find_refused(self, body: Body) -> list[Violation]:
        path = "prompt_cache_options.comparison_response_id"
        if self._chooser.script.diagnostics or path.split(".")[1] not in as_dict(body.get("prompt_cache_options")):
            return []
        return [Violation("O0", f"Unknown parameter: '{path}'.", path, "unknown_parameter")]

    def _refuse_too_long(self, size: int, model: str, endpoint: OpenAiEndpoint) -> None:
        window = self._chooser.script.window or models.find(model).window
        if size > window:
            text = (
                f"This model's maximum context length is {window} tokens. However, your messages resulted in {size} "
                "tokens. Please reduce the length of the messages."
            )
            raise ApiFailure(400, text, param=endpoint.items, code="context_length_exceeded")

    def _next_id(self) -> str:
        self._ids += 1
        return f"{self._ids:024x}"


def _head_of(body: Body, endpoint: OpenAiEndpoint) -> str:
    """The prompt up to the conversation: instructions and tools."""
    said = as_list(body.get(endpoint.items)) if endpoint.items == "messages" else []
    return endpoint.write_prompt({**body, endpoint.items: [*takewhile(is_leading, said)]})


def _key(body: Body) -> str:
    """Prompts of another model, or of another `prompt_cache_key`, share nothing."""
    return f"{body.get('model')}\n{body.get('prompt_cache_key', '')}"

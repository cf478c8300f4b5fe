"""A helper model behind any endpoint that speaks OpenAI's Chat Completions: Ollama, vLLM, llama.cpp, a provider."""

from collections.abc import Callable
from typing import Any

import httpx2

from mnemosyne.adapters.helpers.endpoint import (
    UNFIT,
    EndpointHelper,
    complete_text,
    failure_of,
    failure_without_answer,
    read_object,
)
from mnemosyne.domain.cost.prices import Price, Tokens, tokens_of
from mnemosyne.domain.helper.model import Completion, HelperFailed, HelperPrompt
from mnemosyne.domain.text.stubs import plain

Json = dict[str, Any]


class OpenAIHelper(EndpointHelper):
    """A model of an endpoint. ``url`` is the prefix of ``/chat/completions``."""

    def __init__(
        self, http: httpx2.AsyncClient, url: str, key: str | None, model: str, price: Price, kind: str
    ) -> None:
        super().__init__(kind, model, price)
        self._http = http
        self._url = url.rstrip("/")
        self._headers = {"Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._forms = _FORMS
        """The forms of a request that the endpoint may accept; the one that it accepted, as soon as it is known."""

    async def _complete(self, prompt: HelperPrompt) -> Completion:
        request = {"model": self._model, "messages": _messages(prompt)}
        failure = None
        for form in self._forms:
            try:
                answer = await self._ask("POST", "/chat/completions", {**request, **form(prompt)})
            except HelperFailed as error:
                if error.status not in UNFIT:
                    raise
                failure = error
            else:
                self._forms = (form,)
                return _read_completion(answer)
        assert failure is not None
        raise failure

    async def check(self) -> None:
        listed = _members((await self._ask("GET", "/models", None)).get("data"))
        names = [str(model.get("id")) for model in listed]
        if names and self._model not in names:
            raise HelperFailed(f"it lists {plain(', '.join(names), 200)}, but not the model {self._model}")

    async def _ask(self, method: str, path: str, request: Json | None) -> Json:
        connected = False
        try:
            async with self._http.stream(method, self._url + path, json=request, headers=self._headers) as response:
                connected = True
                if response.status_code != 200:
                    raise failure_of(response.status_code, response.headers)
                return await read_object(response)
        except httpx2.TransportError as error:
            raise failure_without_answer(error, connected=connected) from None


def _messages(prompt: HelperPrompt) -> list[Json]:
    images = [
        {"type": "image_url", "image_url": {"url": f"data:{each.media_type};base64,{each.base64}"}}
        for each in prompt.images
    ]
    content = [*images, {"type": "text", "text": prompt.user}] if images else prompt.user
    return [{"role": "system", "content": prompt.system}, {"role": "user", "content": content}]


def _without_reasoning(prompt: HelperPrompt) -> Json:
    """Reasoning models accept neither ``max_tokens`` nor a temperature, and reasoning counts as output."""
    return {"max_completion_tokens": prompt.most_tokens, "reasoning_effort": "none", **_response_format(prompt)}


def _without_schema(prompt: HelperPrompt) -> Json:
    return {"max_tokens": prompt.most_tokens, "temperature": 0}


_FORMS: tuple[Callable[[HelperPrompt], Json], ...] = (
    lambda prompt: {**_without_schema(prompt), **_response_format(prompt)},
    _without_reasoning,
    lambda prompt: {
        **_without_schema(prompt),
        "response_format": {"type": "json_object", "schema": prompt.schema},
    },
    _without_schema,
)
"""The forms of a request, in the order of attempts, because endpoints accept different ones."""


def _response_format(prompt: HelperPrompt) -> Json:
    schema = {"name": "answer", "strict": True, "schema": prompt.schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _read_completion(answer: Json) -> Completion:
    choices = _members(answer.get("choices"))
    message = choices[0].get("message") if choices else None
    if not isinstance(message, dict):
        raise HelperFailed("its answer is not a chat completion", billed=True)
    end = "refusal" if message.get("refusal") else choices[0].get("finish_reason")
    return complete_text(message.get("content"), end, _tokens_of(answer.get("usage")))


def _tokens_of(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    return tokens_of({"input_tokens": usage.get("prompt_tokens"), "output_tokens": usage.get("completion_tokens")})


def _members(value: object) -> list[Json]:
    return [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []

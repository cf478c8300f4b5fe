"""A helper model behind any endpoint that speaks OpenAI's Chat Completions: Ollama, vLLM, llama.cpp, a provider."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import httpx2

from mnemosyne.domain.cost.prices import Price, Tokens, tokens_of
from mnemosyne.domain.helper.model import Completion, HelperFailed, HelperPrompt

LARGEST_ANSWER = 4 * 1024 * 1024
"""The limit in bytes; a usual answer has a few kilobytes."""

_BUSY = frozenset({408, 409, 425, 429})
_UNKNOWN_FIELD = frozenset({400, 404, 415, 422, 501})


class OpenAIHelper:
    """A model of an endpoint (helper_model.HelperModel). ``url`` is the prefix of ``/chat/completions``."""

    def __init__(self, http: httpx2.AsyncClient, url: str, key: str | None, model: str, price: Price) -> None:
        self._http = http
        self._url = url.rstrip("/")
        self._headers = {"Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._model = model
        self._knows_schemas = True
        self.price = price
        self.name = f"openai:{model}"

    async def complete(self, prompt: HelperPrompt) -> Completion:
        """See helper_model.HelperModel. An endpoint that refuses schemas gets none later."""
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            "max_tokens": prompt.most_tokens,
            "temperature": 0,
        }
        schema = {"response_format": _format_of(prompt.schema)} if self._knows_schemas else {}
        status, body = await self._ask("POST", "/chat/completions", {**request, **schema})
        if schema and status in _UNKNOWN_FIELD:
            status, body = await self._ask("POST", "/chat/completions", request)
            self._knows_schemas = status != 200
        _refuse(status)
        return _completion(body)

    async def check(self) -> None:
        status, body = await self._ask("GET", "/models", None)
        _refuse(status)
        listed = _members(_object(body).get("data"))
        names = [str(model.get("id")) for model in listed]
        if names and self._model not in names:
            raise HelperFailed(f"it does not list the model {self._model}")

    async def _ask(self, method: str, path: str, request: Mapping[str, Any] | None) -> tuple[int, bytes]:
        connected = False
        try:
            async with self._http.stream(method, self._url + path, json=request, headers=self._headers) as response:
                connected = True
                return response.status_code, await _read_bounded(response)
        except httpx2.TransportError as error:
            billed = connected or not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            raise HelperFailed(f"no connection: {type(error).__name__}", again=True, billed=billed) from None


def _format_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


async def _read_bounded(response: httpx2.Response) -> bytes:
    body = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > LARGEST_ANSWER:
                break
        else:
            return bytes(body)
    raise HelperFailed(f"its answer is longer than {LARGEST_ANSWER} bytes", billed=True)


def _refuse(status: int) -> None:
    """Raise HelperFailed without the endpoint's text, which may quote the prompt."""
    if status != 200:
        raise HelperFailed(f"it answers with status {status}", again=status in _BUSY or status >= 500)


def _completion(body: bytes) -> Completion:
    answer = _object(body)
    choices = _members(answer.get("choices"))
    message = choices[0].get("message") if choices else None
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str):
        raise HelperFailed("its answer is not a chat completion", billed=True)
    return Completion(text, _tokens_of(answer.get("usage")))


def _tokens_of(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    return tokens_of({"input_tokens": usage.get("prompt_tokens"), "output_tokens": usage.get("completion_tokens")})


def _object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise HelperFailed("its answer is not a JSON object", billed=True)
    return answer


def _members(value: object) -> list[dict[str, Any]]:
    return [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []

"""A helper model behind the Messages API."""

import httpx2

from mnemosyne.adapters.helpers.openai import HelperEndpoint, list_objects, parse_object, refuse
from mnemosyne.domain.cost.prices import Price, tokens_of
from mnemosyne.domain.summaries.helper_model import Completion, HelperFailed, HelperPrompt


class AnthropicHelper:
    """A model of the provider (helper_model.HelperModel). ``key`` is never a client's."""

    def __init__(self, http: httpx2.AsyncClient, url: str, key: str, model: str, price: Price) -> None:
        self._endpoint = HelperEndpoint(http, url, {"x-api-key": key, "anthropic-version": "2023-06-01"})
        self._model = model
        self.price = price
        self.name = f"anthropic:{model}"

    async def complete(self, prompt: HelperPrompt) -> Completion:
        request = {
            "model": self._model,
            "max_tokens": prompt.most_tokens,
            "system": prompt.system,
            "messages": [{"role": "user", "content": prompt.user}],
            "output_config": {"format": {"type": "json_schema", "schema": dict(prompt.schema)}},
        }
        status, body = await self._endpoint.ask("POST", "/v1/messages", request)
        refuse(status)
        answer = parse_object(body)
        texts = [block.get("text") for block in list_objects(answer.get("content")) if block.get("type") == "text"]
        usage = answer.get("usage")
        if answer.get("type") != "message" or not all(isinstance(text, str) for text in texts):
            raise HelperFailed("its answer is not a reply of the Messages API", billed=True)
        return Completion("".join(map(str, texts)), tokens_of(usage) if isinstance(usage, dict) else None)

    async def check(self) -> None:
        refuse((await self._endpoint.ask("GET", f"/v1/models/{self._model}"))[0])

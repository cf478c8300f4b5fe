"""A helper model behind the Messages API: the only import of anthropic."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2

from mnemosyne.adapters.helpers.endpoint import (
    EndpointHelper,
    complete_text,
    failure_of,
    failure_without_answer,
    read_object,
)
from mnemosyne.domain.cost.prices import Price, tokens_of
from mnemosyne.domain.helper.model import Completion, HelperFailed, HelperPrompt


class AnthropicHelper(EndpointHelper):
    """A model of an endpoint. ``url`` is the prefix of ``/v1/messages``."""

    def __init__(self, http: httpx2.AsyncClient, url: str, key: str, model: str, price: Price, kind: str) -> None:
        super().__init__(kind, model, price)
        # The URL in the environment may be this proxy's.
        self._client = anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=http)

    async def _complete(self, prompt: HelperPrompt) -> Completion:
        with _explain():
            async with self._client.messages.with_streaming_response.create(
                model=self._model,
                max_tokens=prompt.most_tokens,
                system=prompt.system,
                messages=[{"role": "user", "content": _content(prompt)}],
                output_config={"format": {"type": "json_schema", "schema": dict(prompt.schema)}},
                extra_headers={"Accept-Encoding": "identity"},
            ) as response:
                answer = await read_object(response.http_response)
        blocks = answer.get("content")
        texts = [each.get("text") for each in blocks if isinstance(each, dict)] if isinstance(blocks, list) else []
        text = "".join(each for each in texts if isinstance(each, str))
        usage = answer.get("usage")
        return complete_text(text, answer.get("stop_reason"), tokens_of(usage) if isinstance(usage, dict) else None)

    async def check(self) -> None:
        with _explain():
            await self._client.models.retrieve(self._model)


def _content(prompt: HelperPrompt) -> Any:
    images = [
        {"type": "image", "source": {"type": "base64", "media_type": each.media_type, "data": each.base64}}
        for each in prompt.images
    ]
    return [*images, {"type": "text", "text": prompt.user}] if images else prompt.user


@contextmanager
def _explain() -> Iterator[None]:
    """Translate errors, without the endpoint's text, which may quote the prompt."""
    try:
        yield
    except anthropic.APIStatusError as error:
        raise failure_of(error.status_code, error.response.headers) from None
    except anthropic.APIConnectionError as error:
        raise failure_without_answer(error.__cause__ or error, connected=False) from None
    except httpx2.TransportError as error:
        raise failure_without_answer(error, connected=True) from None
    except (anthropic.AnthropicError, ValueError, RecursionError) as error:
        raise HelperFailed(f"no usable answer: {type(error).__name__}", billed=True) from None

"""A helper model behind the Messages API: the only import of anthropic."""

from collections.abc import Iterator
from contextlib import contextmanager

import anthropic
import httpx2

from mnemosyne.domain.cost.prices import Price, tokens_of
from mnemosyne.domain.helper.model import Completion, HelperFailed, HelperPrompt

_BUSY = frozenset({408, 409, 425, 429})


class AnthropicHelper:
    """A model of the provider (helper_model.HelperModel). ``key`` is never a client's."""

    def __init__(self, http: httpx2.AsyncClient, url: str, key: str, model: str, price: Price) -> None:
        # The URL in the environment may be this proxy's.
        self._client = anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=http)
        self._model = model
        self.price = price
        self.name = f"anthropic:{model}"

    async def complete(self, prompt: HelperPrompt) -> Completion:
        with _explain():
            message = await self._client.messages.create(
                model=self._model,
                max_tokens=prompt.most_tokens,
                system=prompt.system,
                messages=[{"role": "user", "content": prompt.user}],
                output_config={"format": {"type": "json_schema", "schema": dict(prompt.schema)}},
            )
            try:
                text = "".join(block.text for block in message.content if block.type == "text")
                return Completion(text, tokens_of(message.usage.model_dump()))
            except (AttributeError, TypeError):  # the SDK accepts any body with status 200
                raise HelperFailed("its answer is not a reply of the Messages API", billed=True) from None

    async def check(self) -> None:
        with _explain():
            await self._client.models.retrieve(self._model)


@contextmanager
def _explain() -> Iterator[None]:
    """Translate errors, without the endpoint's text, which may quote the prompt."""
    try:
        yield
    except anthropic.APIStatusError as error:
        again = error.status_code in _BUSY or error.status_code >= 500
        raise HelperFailed(f"it answers with status {error.status_code}", again=again) from None
    except anthropic.APIConnectionError as error:
        cause = error.__cause__
        # If an established connection broke, the answer may have been billed.
        billed = not isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
        raise HelperFailed(f"no connection: {type(cause or error).__name__}", again=True, billed=billed) from None
    except (anthropic.AnthropicError, ValueError, RecursionError) as error:
        raise HelperFailed(f"no usable answer: {type(error).__name__}", billed=True) from None

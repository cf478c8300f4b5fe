"""The common part of helper models: reading an endpoint's answer, its failures, and whether it accepts images."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import httpx2

from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.helper.model import Completion, HelperFailed, HelperPrompt

LARGEST_ANSWER = 4 * 1024 * 1024
"""The limit in bytes; a usual answer has a few kilobytes."""

IMAGE_REFUSALS = 3
"""Consecutive refusals after which an endpoint gets no more images. A single one may be due to a broken image."""

_BUSY = frozenset({408, 409, 425, 429})
UNFIT = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses of an endpoint that may not accept the form of a request, or images. llama-cpp-python 0.3.36 answers 500."""


class EndpointHelper(ABC):
    """A model behind an endpoint (HelperModel), named ``kind:model``."""

    def __init__(self, kind: str, model: str, price: Price) -> None:
        self._model = model
        self._image_refusals = 0
        self.name = f"{kind}:{model}"
        self.price = price
        self.is_refused = False
        """Whether the endpoint has refused the key."""

    async def complete(self, prompt: HelperPrompt) -> Completion:
        """Ask once. Raises HelperFailed."""
        if prompt.images and self._image_refusals >= IMAGE_REFUSALS:
            raise HelperFailed("it does not accept images", by_images=True)
        try:
            completion = await self._complete(prompt)
        except HelperFailed as error:
            self.is_refused = self.is_refused or error.is_refusal
            if prompt.images and error.status in UNFIT:
                self._image_refusals += 1
                raise HelperFailed(str(error), status=error.status, by_images=True) from None
            raise
        if prompt.images:
            self._image_refusals = 0
        return completion

    @abstractmethod
    async def _complete(self, prompt: HelperPrompt) -> Completion: ...

    @abstractmethod
    async def check(self) -> None:
        """Check the endpoint without cost. Raises HelperFailed if it does not answer or lacks the model."""


async def read_object(response: httpx2.Response) -> dict[str, Any]:
    """Read an answer's JSON object, without reading more than LARGEST_ANSWER. Raises HelperFailed."""
    body = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > LARGEST_ANSWER:
                raise HelperFailed(f"its answer is longer than {LARGEST_ANSWER} bytes", billed=True)
    try:
        answer = json.loads(bytes(body))
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise HelperFailed("its answer is not a JSON object", billed=True)
    return answer


def complete_text(text: object, end: object, used: Tokens | None) -> Completion:
    """The completion with this text and reason for its end. Raises HelperFailed for an incomplete one."""
    if end in ("max_tokens", "length"):
        raise HelperFailed("its answer is cut off at the maximum length", billed=True)
    if end in ("refusal", "content_filter"):
        raise HelperFailed("it refuses to answer", billed=True)
    if not isinstance(text, str) or not text:
        raise HelperFailed("its answer has no text", billed=True)
    return Completion(text.encode("utf-8", "replace").decode(), used)


def failure_of(status: int, headers: Mapping[str, str]) -> HelperFailed:
    """The failure that a status means, without the endpoint's text, which may quote the prompt."""
    again = status in _BUSY or status >= 500
    try:
        pause = max(0.0, float(headers.get("retry-after", "0")))
    except ValueError:
        pause = 0.0
    return HelperFailed(f"it answers with status {status}", again=again, status=status, pause=pause)


def failure_without_answer(error: BaseException, *, connected: bool) -> HelperFailed:
    """The failure of a connection. If it was established, the answer may have been billed."""
    billed = connected or not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
    return HelperFailed(f"no connection: {type(error).__name__}", again=True, billed=billed)

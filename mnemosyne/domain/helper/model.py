"""The port of a helper model: it gets a prompt and returns text, which the caller must check."""

import json
from collections.abc import Hashable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

import attrs

from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.errors import MnemosyneError

FREE = Price(0, 0, read=0)
"""The price of a local model."""


STRING: Mapping[str, Any] = {"type": "string"}
"""The schema of a string."""


def object_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with these members, all required."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a list."""
    return {"type": "array", "items": items}


@attrs.frozen
class HelperImage:
    """An image for a model: its media type and its bytes in base64."""

    media_type: str
    base64: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class HelperPrompt:
    """A prompt for a model. The answer must match the JSON Schema ``schema``, which the prompt's task adds, and have at
    most ``most_tokens`` tokens.
    """

    system: str = attrs.field(repr=False)
    user: str = attrs.field(repr=False)
    most_tokens: int
    schema: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    images: tuple[HelperImage, ...] = attrs.field(default=(), repr=False)

    @property
    def digest(self) -> bytes:
        """The SHA-256 of everything that the model gets."""
        images = [[each.media_type, each.base64] for each in self.images]
        whole = json.dumps([self.system, self.user, self.most_tokens, self.schema, images])
        return sha256(whole.encode()).digest()


@attrs.frozen
class Completion:
    """A model's answer. ``used`` is None if the endpoint reports no usage."""

    text: str = attrs.field(repr=False)
    used: Tokens | None


class HelperFailed(MnemosyneError):
    """A helper model gave no complete answer. ``again``: a retry may help, at the earliest after ``pause`` seconds;
    ``billed``: it may have cost money. ``status`` is the HTTP status of its answer, if that is an error. ``by_images``:
    the reason is the prompt's images, and other prompts may be answered.
    """

    def __init__(
        self,
        reason: str,
        *,
        again: bool = False,
        billed: bool = False,
        status: int | None = None,
        pause: float = 0.0,
        by_images: bool = False,
    ) -> None:
        super().__init__(reason)
        self.again = again
        self.billed = billed
        self.status = status
        self.pause = pause
        self.by_images = by_images

    @property
    def is_refusal(self) -> bool:
        """Whether the endpoint refuses the credential."""
        return self.status in (401, 403)


class HelperModel(Hashable, Protocol):
    """A model behind an endpoint. It may be down, slow or wrong: the caller limits and checks it."""

    @property
    def name(self) -> str: ...

    @property
    def price(self) -> Price: ...

    async def complete(self, prompt: HelperPrompt) -> Completion:
        """Ask once. Raises HelperFailed."""

    async def check(self) -> None:
        """Check the endpoint without cost. Raises HelperFailed if it does not answer or lacks the model."""


@attrs.frozen(kw_only=True)
class ClientKey:
    """The API key of a client's request, for a helper model at the same provider, and the dialect and the model of the
    request that it came with. It is held in memory only.
    """

    key: str = attrs.field(repr=False)
    dialect: str
    model: str | None


class HelperSource(Protocol):
    """Chooses the helper models for a session."""

    def models_for(self, key: ClientKey | None) -> Sequence[HelperModel]:
        """The models for a session with this API key, in the order in which they are asked."""


@attrs.frozen
class SameModels:
    """The same models for all sessions (HelperSource)."""

    models: tuple[HelperModel, ...]

    def models_for(self, key: ClientKey | None) -> Sequence[HelperModel]:
        return self.models

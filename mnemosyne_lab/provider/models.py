"""Features that each model refuses. Sizes are in ``models.toml``.

Source: Messages API documentation (models, extended thinking). An unknown name is treated as a current model, because a
client that names a new model expects the newest behaviour.
"""

import attrs

from mnemosyne.domain.cost.catalogue import family_of, find_tariff_name, model_of, tariff_of
from mnemosyne.domain.cost.tariffs import Caching, Tariff


@attrs.frozen
class ServedModel:
    """``prefix`` is the family's name in ``models.toml``. A model may bind a thinking signature to the conversation
    before it, refuse a `tool_choice` of type `any` or `tool`, refuse messages with role `system`, or take tools that
    such a message adds and removes.
    """

    prefix: str
    version: tuple[int, int]
    binds_thinking: bool = False
    refuses_forced_tools: bool = False
    refuses_system_messages: bool = False
    changes_tools: bool = False

    @property
    def window(self) -> int:
        """Tokens of input that the model accepts."""
        return model_of(self.prefix).window


_CURRENT = {"binds_thinking": True, "refuses_forced_tools": True, "changes_tools": True}

MODELS: tuple[ServedModel, ...] = (
    ServedModel("claude-fable-5", (5, 2), **_CURRENT),
    ServedModel("claude-mythos-5", (5, 2), **_CURRENT),
    ServedModel("claude-opus-5-5", (5, 5), **_CURRENT),
    ServedModel("claude-sonnet-5-5", (5, 5), **_CURRENT),
    ServedModel("claude-haiku-5-5", (5, 5), binds_thinking=True, changes_tools=True),
    ServedModel("claude-opus-5", (5, 0), changes_tools=True),
    ServedModel("claude-sonnet-5", (5, 0), refuses_system_messages=True),
    ServedModel("claude-opus-4-8", (4, 8), changes_tools=True),
    ServedModel("claude-opus-4-7", (4, 7)),
    ServedModel("claude-opus-4-6", (4, 6)),
    ServedModel("claude-opus-4-5", (4, 5)),
    ServedModel("claude-opus-4-1", (4, 1)),
    ServedModel("claude-sonnet-4-6", (4, 6)),
    ServedModel("claude-sonnet-4-5", (4, 5)),
    ServedModel("claude-haiku-4-5", (4, 5)),
)
_UNKNOWN = ServedModel("", (5, 5), **_CURRENT)


def find(name: str) -> ServedModel:
    """The row for a model name; a row of current behaviour when the name is unknown."""
    family = family_of(name)
    return next((row for row in MODELS if row.prefix == family), _UNKNOWN)


def tariff_of_model(name: str) -> Tariff:
    """The tariff of a model at its own provider."""
    return tariff_of(find_tariff_name(credential=None, hour=False, host="", model=name))


def bills_writes(name: str) -> bool:
    """Whether a model of OpenAI bills its cache writes: then it caches prompts only at breakpoints."""
    paid = tariff_of_model(name)
    return paid.caching is Caching.PREFIX and paid.write_5m != 1

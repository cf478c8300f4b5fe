"""Target size of the prompt of a managed session."""

from mnemosyne.domain.cost.catalogue import model_of

WINDOW = 160_000
"""Default limit of a managed prompt, in tokens: recorded clients compacted at 155,000 to 176,000."""

LEAST = 8_000
"""The smallest window that a request may choose, in tokens: a client's own prompt and tools take most of it."""


def choose_window(wanted: int | None, model: str | None, stated: int | None = None) -> int:
    """The most tokens that a prompt should hold: ``wanted``, or the default, but no more than the model takes.
    ``stated`` as in ``find_model_window``.
    """
    return min(WINDOW if wanted is None else wanted, find_model_window(model, stated))


def find_model_window(model: str | None, stated: int | None = None) -> int:
    """The model's window in tokens: from the table, or the one that the provider has ``stated``, if that is smaller."""
    window = model_of(model).window
    return window if stated is None else min(window, stated)

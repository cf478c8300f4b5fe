"""How many tokens the prompt of a managed session should hold."""

from mnemosyne.domain.cost.catalogue import model_of

WINDOW = 160_000
"""The most that a managed prompt should hold, in tokens, where nobody says: recorded clients compacted at 155,000 to
176,000.
"""


def choose_window(wanted: int | None, model: str | None, stated: int | None = None) -> int:
    """The most tokens that a prompt should hold: what is ``wanted``, if the model takes it, and else the usual.
    ``stated`` is as in ``find_model_window``.
    """
    return min(WINDOW if wanted is None else wanted, find_model_window(model, stated))


def find_model_window(model: str | None, stated: int | None = None) -> int:
    """How many tokens a model takes: what the table says, or what the provider has ``stated`` if that is less."""
    window = model_of(model).window
    return window if stated is None else min(window, stated)

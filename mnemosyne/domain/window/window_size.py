"""How many tokens the prompt of a managed session should hold."""

from mnemosyne.domain.cost.catalogue import model_of

WINDOW = 160_000
"""The most that a managed prompt should hold, in tokens, where nobody says: recorded clients compacted at 155,000 to
176,000.
"""


def choose_window(wanted: int | None, model: str | None) -> int:
    """The most tokens that a prompt should hold: what is ``wanted``, if the model takes it, and else the usual."""
    return min(WINDOW if wanted is None else wanted, model_of(model).window)

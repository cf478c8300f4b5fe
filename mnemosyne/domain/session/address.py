"""Where in a session something was sent."""

import attrs


@attrs.frozen(order=True)
class Address:
    """Which attempt at which turn of which branch."""

    branch: str
    turn: int
    attempt: int

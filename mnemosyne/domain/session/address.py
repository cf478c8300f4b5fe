"""The address of a request within a session."""

import attrs


@attrs.frozen(order=True)
class Address:
    """An attempt at a turn of a branch."""

    branch: str
    turn: int
    attempt: int

"""How long a request waits for what it can do without."""

import attrs


@attrs.frozen(kw_only=True)
class Patience:
    """Seconds. What is not there by then is left to itself, and the request or the reply goes on without it."""

    database: float = 0.25
    """For what is recorded of a turn to be durable."""

    actor: float = 1.0
    """For the session's actor, which may still be busy with the turn before. With sessions of 250 turns it takes 15 ms
    (p99 60), with twelve of them at once on two cores 230 (p99 510). It is not less, because falling back costs more
    than waiting: the whole context is written to the cache anew.
    """

    loading: float = 5.0
    """For the actor where it has to read the session from the log first: 250 turns take half a second."""

    last_resort: float = 30.0
    """For the actor once more, where the provider would refuse what goes without it: the client holds more than its
    model takes.
    """

    answers: float = 10.0
    """For the answers to a reply's hidden calls."""

    index: float = 0.5
    """Of that, for the index of objects; without it, the words of some objects are compared."""

    planner: float = 0.5
    """For the planner and for what it wants to show."""

    summaries: float = 0.25
    """Of that, for summaries from the log."""

    bringing: float = 0.25
    """For what is brought unasked. Whatever takes time is done in threads; one that is not done by then is left to
    itself, and what it finds is lost.
    """

    bringing_index: float = 0.15
    """Of that, for the index of objects."""

    texts: float = 0.5
    """For the texts in cleanup tags of one reply: the session's next turn waits behind them."""


USUAL = Patience()
"""What servers have. Tests have more of it where time is not what they are about."""

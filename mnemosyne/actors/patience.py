"""How long a request waits for what it can do without: the database, the index, an actor that waits for these.

What we compute ourselves is bounded by how much work it is, and not by the clock: on a machine that is busy everything
takes longer, and what is given up half-way is begun again by the next request.
"""

import attrs

COMMITS_AWAITED = 16
"""Commits whose time a request waits for a slow database. A turn that another server's session continues takes about a
dozen statements: it looks up the session, reads it, and may meet a conflict.
"""


@attrs.frozen(kw_only=True)
class Patience:
    """Seconds. What is not there by then is left to itself, and the request or the reply goes on without it."""

    database: float = 0.25
    """For what is recorded of a turn to be durable, and for the directory of sessions, while commits are fast or the
    database is unreachable.
    """

    slow_database: float = 10.0
    """At most for the same while commits are slow: see ``for_database``."""

    actor: float = 1.0
    """For the session's actor, which may still be busy with the turn before, or wait for the database. With sessions of
    250 turns it takes 15 ms (p99 60), with twelve of them at once on two cores 230 (p99 510). Then what was sent last
    goes on, with what is new. It is not less, because such a turn has no epoch.
    """

    loading: float = 5.0
    """For the actor where it has to read the session from the log first: 250 turns take half a second."""

    last_resort: float = 30.0
    """For the actor once more, where what goes without it is too large for the model. Of a model whose size is unknown,
    the configured window counts while the actor is only busy.
    """

    answers: float = 60.0
    """For the actor to answer a round's hidden calls; then they get the answer that memory cannot be read. It is that
    long because an answer takes what it takes: the client hears pings meanwhile.
    """

    helper: float = 8.0
    """For a helper model to answer a round's questions, where there is one; then they are answered in quotes. Only that
    turn waits for it, not the session's actor.
    """

    listener: float = 0.5
    """For somebody to take a question to a helper: nobody does while the worker begins, or hangs."""

    contents: float = 10.0
    """For what an answer quotes to come from the log; without it, a call is told that memory cannot be read."""

    index: float = 0.5
    """For the index of objects; without it, the words of some objects are compared."""

    summaries: float = 0.25
    """For the summaries from the log that an epoch shows."""

    restores: float = 0.25
    """For the contents of objects that a person asked to see again."""

    knowledge: float = 0.25
    """For what is known beyond sessions, once for each that begins."""

    texts: float = 0.5
    """For the texts in cleanup tags of one reply: the session's next turn waits behind them."""

    def for_database(self, commit_seconds: float) -> float:
        """Seconds to wait for the database where a commit takes so long (``Journal.commit_seconds``): the time of a few
        commits. A turn that goes on unrecorded while the database is only slow is unknown to other servers, which costs
        the provider's cache; one that takes longer than ``slow_database`` for a commit counts as unreachable.
        """
        if commit_seconds > self.slow_database:
            return self.database
        return max(self.database, min(self.slow_database, COMMITS_AWAITED * commit_seconds))

    def times(self, factor: int) -> "Patience":
        """So many times as long for each."""
        return Patience(**{name: factor * seconds for name, seconds in attrs.asdict(self).items()})


USUAL = Patience()
"""What servers have that are told nothing else (the setting ``patience``). Tests have more of it where time is not what
they are about.
"""

"""How long a request waits for optional inputs: the database, the index, an actor that waits for these.

The proxy's own computation is bounded by the amount of work, not by the clock: a busy machine is slower, and work that
is abandoned half-way would start again with the next request.
"""

import attrs

COMMITS_AWAITED = 16
"""Number of commits that a request waits for when the database is slow. A turn that continues another server's session
takes about a dozen statements: it finds the session, reads it, and may meet a conflict.
"""


@attrs.frozen(kw_only=True)
class Patience:
    """Time limits in seconds. When one expires, the request or reply continues without the result."""

    database: float = 0.25
    """Until a turn's events are durable, and for the directory of sessions, while commits are fast or the database is
    unreachable.
    """

    slow_database: float = 10.0
    """The maximum for the same while commits are slow: see ``for_database``."""

    actor: float = 1.0
    """For the session's actor, which may be busy with the turn before, or wait for the database. With sessions of 250
    turns it takes 15 ms (p99 60), with twelve of them at once on two cores 230 (p99 510). After that, the last request
    is continued with the new messages. It is not shorter, because such a turn has no epoch.
    """

    loading: float = 5.0
    """For an actor that first has to read the session from the log: 250 turns take half a second."""

    last_resort: float = 30.0
    """For the actor once more, if the request without its plan is too large for the model. For a model of unknown size,
    the configured window is the limit while the actor is only busy.
    """

    answers: float = 60.0
    """For the actor to answer a round's hidden calls; after that, their result says that memory cannot be read. It is
    this long because the client receives pings meanwhile.
    """

    helper: float = 3.0
    """For a helper model to answer a round's questions, if there is one; after that, they are answered with quotes.
    Only that turn waits for it, not the session's actor.
    """

    listener: float = 0.5
    """For a worker to take a question to a helper; a worker that is starting or hanging takes none."""

    contents: float = 10.0
    """For the quoted contents of an answer from the log; after that, the call's result says that memory cannot be read.
    """

    index: float = 0.5
    """For the object index; after that, the words of some objects are compared."""

    policy: float = 0.25
    """For the plan of a policy from the operator's own module, which runs in a thread."""

    summaries: float = 0.25
    """For the summaries from the log that an epoch shows."""

    restores: float = 0.25
    """For the contents of objects that a person asked to see again."""

    knowledge: float = 0.25
    """For the memory beyond sessions, once for each new session."""

    texts: float = 0.5
    """For the texts in cleanup tags of one reply: the session's next turn waits for them."""

    def for_database(self, commit_seconds: float) -> float:
        """Seconds to wait for a database with this commit time (``Journal.commit_seconds``): a few commits. If the
        database is only slow, a turn that continues unrecorded is unknown to other servers, which costs the provider's
        cache. A database that takes longer than ``slow_database`` for a commit counts as unreachable.
        """
        if commit_seconds > self.slow_database:
            return self.database
        return max(self.database, min(self.slow_database, COMMITS_AWAITED * commit_seconds))

    def times(self, factor: int) -> "Patience":
        """The same limits multiplied by a factor."""
        return Patience(**{name: factor * seconds for name, seconds in attrs.asdict(self).items()})


USUAL = Patience()
"""The default (setting ``patience``). Tests use longer limits where time is not their subject."""

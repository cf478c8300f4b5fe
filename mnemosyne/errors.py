"""Errors that Mnemosyne raises on purpose. Each message says what happened, where, and what to do.

``http/`` maps them to status codes, ``cli/`` to exit codes.
"""

from collections.abc import Iterator
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


class MnemosyneError(Exception):
    """The base class."""


class BadConfiguration(MnemosyneError):
    """An invalid setting, option or file."""


class BadOption(BadConfiguration):
    """An invalid value on the command line."""


class ServerDidNotStart(MnemosyneError):
    """The server that a command needs did not start; its log has the reason."""


class CannotForward(MnemosyneError):
    """A request that never reached the provider."""


class BodyTooLarge(CannotForward):
    """A request body above the configured size."""


class BodyStalled(CannotForward):
    """A request body that stopped arriving."""


class NoModelNamed(CannotForward):
    """A request without a model, which would select one of several providers."""


class TooMuchAtOnce(CannotForward):
    """A request body that exceeds the memory for bodies that are being sent."""


class OverBudget(CannotForward):
    """A prompt that was not sent because the cost reached a limit that the user set."""


class UpstreamFailed(CannotForward):
    """No connection to the provider, or it broke before the first byte of the reply."""


class UpstreamUnreachable(UpstreamFailed):
    """No connection to the provider could be made: refused, no such host, or a certificate that is not trusted."""


class ReplyCut(MnemosyneError):
    """The connection to the provider broke in mid-reply."""


class LogFailed(MnemosyneError):
    """The event log failed."""


class LogUnavailable(LogFailed):
    """The database is unreachable, hung or full."""


class VersionConflict(LogFailed):
    """Another writer appended to the stream first."""


class UnknownEvent(LogFailed):
    """The log holds an event that this version does not know."""


class LogDamaged(LogFailed):
    """A page, an index or a row of the database is corrupt. Only a backup can restore it."""


class DatabaseUnfit(LogFailed):
    """The database lacks pgvector, is too old, or was written by a newer Mnemosyne."""


class ContentMissing(LogFailed):
    """The log names content that the store does not hold."""


class ContentForgotten(MnemosyneError):
    """The content was erased on request; its hash remains."""


class ActorStopped(MnemosyneError):
    """A session's actor has ended; the next turn starts another."""


class Outdated(MnemosyneError):
    """A proposed upstream request is outdated, because the session continued in the meantime."""


class BadTurn(MnemosyneError):
    """A call that the state of the agent's conversation does not allow."""


class BudgetTooSmall(MnemosyneError):
    """A token budget below the minimum of the request."""


class BadEntry(MnemosyneError):
    """An entry that cannot be saved in memory."""


class NotFound(MnemosyneError):
    """No such session, branch or turn."""


class Ambiguous(NotFound):
    """Several sessions may be meant."""


class FolderSilent(MnemosyneError):
    """A folder cannot be read in time."""


class WorktreeFailed(MnemosyneError):
    """A folder's files could not be saved or restored."""


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The errors in a group and its nested groups."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


def alone(problem: Exception) -> Exception:
    """Unwrap an error from the groups of nurseries."""
    while isinstance(problem, ExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem


def release_frames(error: E) -> E:
    """Remove the tracebacks of a handled error and its causes, because their frames hold references to the error and
    to large values.
    """
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
    return error


def copy_error(error: E) -> E:
    """A copy to raise: a shared error would collect the frames of every place that raises it."""
    return type(error)(*error.args)

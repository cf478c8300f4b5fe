"""Every error that Mnemosyne raises on purpose.

MnemosyneError
├── BadConfiguration        you: a setting or a file that cannot be used
│   └── BadOption           you: what stands on the command line
├── ServerDidNotStart       the server that a command needs is not there; its log says why
├── CannotForward           a request that never reached the provider
│   ├── BodyTooLarge        you: over the configured size
│   ├── BodyStalled         you: it began, and nothing came for a while
│   ├── NoModelNamed        you: which of several providers is meant, only the model would say
│   ├── TooMuchAtOnce       you and others: too many requests are being sent at the same time
│   └── UpstreamFailed      they: no connection, or it broke before the reply began
│       └── UpstreamUnreachable  no connection could be made
├── ReplyCut                they: the connection broke in mid-reply
├── LogFailed               the event log could not do what was asked
│   ├── LogUnavailable      they: the database is away, hung or full
│   ├── VersionConflict     another writer appended to the stream first
│   ├── UnknownEvent        the log holds an event that this version does not know
│   ├── LogDamaged          they: files of the database hold something else than was written
│   ├── DatabaseUnfit       they: no pgvector, too old, or written by a newer Mnemosyne
│   └── ContentMissing      the log names content that the store does not hold
├── ContentForgotten        the content was erased on request; its hash remains
├── ActorStopped            a session's actor ended before it could answer; ask the next one
├── Outdated                what was proposed to be sent does not hold any more; ask again
├── BadTurn                 you: an agent that says what the conversation does not allow now
├── BudgetTooSmall          you: fewer tokens than what must be sent has
├── BadEntry                you: something that cannot be kept in memory beyond a session
└── NotFound                you: no such session, branch or turn

The message says what, where and what to do. Status codes are chosen in ``http/``, exit codes in ``cli/``.
"""

from collections.abc import Iterator
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


class MnemosyneError(Exception):
    """The root of all errors raised on purpose."""


class BadConfiguration(MnemosyneError):
    """A setting, an option or a file that cannot be used."""


class BadOption(BadConfiguration):
    """A value on the command line that cannot be used, whatever there is."""


class ServerDidNotStart(MnemosyneError):
    """The server that a command needs is not there."""


class CannotForward(MnemosyneError):
    """A request that never reached the provider."""


class BodyTooLarge(CannotForward):
    """A request body over the configured size."""


class BodyStalled(CannotForward):
    """A request body of which nothing came for a while."""


class NoModelNamed(CannotForward):
    """A request that names no model, where several providers take some models each."""


class TooMuchAtOnce(CannotForward):
    """A request body for which there is no room beside the others that are being sent."""


class UpstreamFailed(CannotForward):
    """No connection to the provider, or it broke before the first byte of the reply."""


class UpstreamUnreachable(UpstreamFailed):
    """No connection to the provider could be made: refused, no such host, or a certificate that is not trusted."""


class ReplyCut(MnemosyneError):
    """The connection to the provider broke in mid-reply."""


class LogFailed(MnemosyneError):
    """The event log could not do what was asked."""


class LogUnavailable(LogFailed):
    """The database is away, hung or full."""


class VersionConflict(LogFailed):
    """Another writer appended to the stream first."""


class UnknownEvent(LogFailed):
    """The log holds an event that this version does not know."""


class LogDamaged(LogFailed):
    """A page, an index or a row of the database is not what was written. Only a backup can restore it."""


class DatabaseUnfit(LogFailed):
    """The database lacks pgvector, is too old, or was written by a newer Mnemosyne."""


class ContentMissing(LogFailed):
    """The log names content that the store does not hold."""


class ContentForgotten(MnemosyneError):
    """The content was erased on request; its hash remains."""


class ActorStopped(MnemosyneError):
    """A session's actor ended before it could answer, or there is none; the next turn starts another."""


class Outdated(MnemosyneError):
    """A proposed upstream request is outdated, because the session continued in the meantime."""


class BadTurn(MnemosyneError):
    """An agent says, or asks for, what its conversation does not allow now."""


class BudgetTooSmall(MnemosyneError):
    """A budget of fewer tokens than what must be sent has."""


class BadEntry(MnemosyneError):
    """Something that cannot be kept in memory beyond a session."""


class NotFound(MnemosyneError):
    """No such session, branch or turn."""


class FolderSilent(MnemosyneError):
    """A folder cannot be read in time."""


class WorktreeFailed(MnemosyneError):
    """Files could not be kept, or not be brought back."""


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The errors in a group, and in the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


def alone(problem: Exception) -> Exception:
    """An error without the groups that nurseries on its way put around it."""
    while isinstance(problem, ExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem


def release_frames(error: E) -> E:
    """The error, that is handled and kept for somebody, without the frames that it and its causes came through. One
    of them most likely holds the error, and all of them what they worked on, which would wait to be collected.
    """
    led: BaseException | None = error
    while led is not None:
        led.__traceback__ = None
        led = led.__cause__ or led.__context__
    return error


def copy_error(error: E) -> E:
    """Another one that says the same, to be raised: a shared error would gather the frames of all who raise it."""
    return type(error)(*error.args)

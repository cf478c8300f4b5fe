"""The kinds, scopes and sources of entries."""

from enum import Enum


class Scope(Enum):
    """The scope in which an entry is valid."""

    USER = "user"
    """In all projects of a tenant: preferences."""
    PROJECT = "project"
    """In one project, all its clones and worktrees together."""
    SANDBOX = "sandbox"
    """In one folder alone: a worktree, or a trial."""
    GLOBAL = "global"
    """For all users and projects of a tenant: the rules of a team."""


class EntryKind(Enum):
    """The subject of an entry: one taxonomy for project memory and preferences."""

    BRIEF = "project-brief"
    ARCHITECTURE = "architecture"
    TECH_CONTEXT = "tech-context"
    PRODUCT_CONTEXT = "product-context"
    PROGRESS = "progress"
    PATTERN = "pattern"
    ERROR_SOLUTION = "error-solution"
    DECISION = "decision"
    FACT = "fact"
    SESSION_SUMMARY = "session-summary"
    PROCEDURE = "procedure"
    PROFILE = "profile"
    RESPONSE_STYLE = "response-style"
    CODE_STYLE = "code-style"
    TOOLING = "tooling"
    WORKFLOW = "workflow"
    CONSTRAINT = "constraint"


PREFERENCES = frozenset(
    {
        EntryKind.PROFILE,
        EntryKind.RESPONSE_STYLE,
        EntryKind.CODE_STYLE,
        EntryKind.TOOLING,
        EntryKind.WORKFLOW,
        EntryKind.CONSTRAINT,
    }
)
"""Kinds of entries about how the user wants things done."""


class EntrySource(Enum):
    """The author of an entry."""

    USER = "user"
    """A person, by a command, the page, the API, or ``remember`` in a prompt."""
    AGENT = "agent"
    """An agent that called a tool or proposed what the user accepted, or a helper model that summarized a session."""
    EXTRACTED = "extracted"
    """The proxy, from a prompt."""


class OwnerProof(Enum):
    """The proof that a credential belongs to the owner of a tenant's memory."""

    FIRST = "first"
    """It was the first credential in use, before there was any memory."""
    PRESENTED = "presented"
    """It came with the secret of the data directory."""
    COMMAND = "command"
    """The owner admitted it by a command."""


class EndReason(Enum):
    """The reason why an entry ended."""

    REPLACED = "replaced"
    FORGOTTEN = "forgotten"
    TRASHED = "trashed"
    """Hidden; erased after 30 days, unless that is undone before."""

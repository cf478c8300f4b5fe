"""What entries there are, for whom they hold, and who says so."""

from enum import Enum


class Scope(Enum):
    """Where an entry holds."""

    USER = "user"
    """In all projects of a tenant: preferences."""
    PROJECT = "project"
    """In one project, all its clones and worktrees together."""
    SANDBOX = "sandbox"
    """In one folder alone: a worktree, or a trial."""
    GLOBAL = "global"
    """For all users and projects of a tenant: the rules of a team."""


class EntryKind(Enum):
    """What an entry tells of: one taxonomy for the memory of projects and for preferences."""

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
"""Kinds that say how somebody wants things done."""


class EntrySource(Enum):
    """Who wrote an entry."""

    USER = "user"
    """A person, by a command, the page or the API."""
    AGENT = "agent"
    """An agent that called a tool."""
    EXTRACTED = "extracted"
    """We, from what the user said in a session."""


class OwnerProof(Enum):
    """Why a credential belongs to the owner of a tenant's memory."""

    FIRST = "first"
    """It was the first that ever spoke, before there was any memory."""
    PRESENTED = "presented"
    """It came with the secret of the data directory."""
    COMMAND = "command"
    """Its owner said so by a command."""


class EndReason(Enum):
    """Why an entry holds no longer."""

    REPLACED = "replaced"
    FORGOTTEN = "forgotten"

"""Who says something, and whose word counts for more."""

from collections.abc import Collection
from enum import Enum


class Speaker(Enum):
    """Whose words they are, from who is trusted most to who is trusted least."""

    USER = "user"
    """The person in front of the agent, in words of their own."""
    ASSISTANT = "assistant"
    """The model."""
    CLIENT = "client"
    """The agent's program and its settings: reminders, notes, summaries, reports."""
    OTHER = "other"
    """Anybody else: what a tool brought, what was pasted, quoted or shown."""


AGREED = "agreed"
"""Tag of a claim in the assistant's words that the user agreed to."""


def speaker_of(tags: Collection[str]) -> Speaker | None:
    """Who makes a claim, by its tags; None where they do not say."""
    return next((each for each in Speaker if each.value in tags), None)

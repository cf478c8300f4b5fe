"""Reports of a client's hook: a hash of each prompt that the user submits, and the end of a session."""

from hashlib import sha256

PROMPT_HEADER = "x-mnemosyne-prompt"
"""The hexadecimal hash of a submitted prompt."""

INTERACTIVE_HEADER = "x-mnemosyne-interactive"
"""``1`` if a person is at the client, as far as the client reports it."""

ENDED_HEADER = "x-mnemosyne-ended"
"""Present if the client has ended the session."""


def hash_prompt(text: str) -> str:
    """The hash of a prompt, independent of the white space around it."""
    return sha256(text.strip().encode("utf-8", "replace")).hexdigest()

"""All dialects, and the names of conversations, which contain the dialect of their requests.

The histories of a conversation are compared with each other, so a conversation never changes its dialect. Names for
the Messages API, the first dialect, have no prefix. Events store the name as ``lane``.
"""

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES

DIALECTS = (MESSAGES, CHAT, RESPONSES)
_PREFIXED = {dialect.name: dialect for dialect in DIALECTS[1:]}

MAIN, SIDE = "main", "side"
"""The conversation of the main agent, and that of side requests. Other agents have the conversation ``agent:<id>``,
except a fork of an agent: its history begins with its parent's, so its requests are in its parent's conversation.
"""


def dialect_of(conversation: str) -> Dialect:
    """Return the dialect of a conversation's requests."""
    name, slash, _ = conversation.partition("/")
    return _PREFIXED.get(name, MESSAGES) if slash else MESSAGES


def conversation_of(dialect: Dialect, agent_id: str | None) -> str:
    """Return the conversation of an ordinary turn of the main agent, or of the agent with this id."""
    return _within(dialect, f"agent:{agent_id}" if agent_id else MAIN)


def header_conversation(conversation: str, agent_id: str | None) -> str:
    """Return the conversation named by the headers of an agent whose requests are in ``conversation``. A fork's
    requests are in its parent's.
    """
    return conversation if is_side(conversation) else conversation_of(dialect_of(conversation), agent_id)


def side_of(conversation: str) -> str:
    """Return the conversation of side requests in this conversation's dialect."""
    return _within(dialect_of(conversation), SIDE)


def is_side(conversation: str) -> bool:
    return conversation == side_of(conversation)


def _within(dialect: Dialect, name: str) -> str:
    return name if dialect is MESSAGES else f"{dialect.name}/{name}"

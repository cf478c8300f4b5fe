"""All dialects, and the lanes, whose names say in which one their requests are.

A lane's histories are compared with one another, so a lane has one dialect for ever; that of the Messages API, which
came first, is not named.
"""

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES

DIALECTS = (MESSAGES, CHAT, RESPONSES)

MAIN, SIDE = "main", "side"
"""The lane of the main agent, and that of requests beside conversations; another agent's is ``agent:<id>``, but for a
fork of an agent: its history begins with its parent's, so its requests are in its parent's lane.
"""


def dialect_of(lane: str) -> Dialect:
    """The dialect of a lane's requests."""
    return next((each for each in DIALECTS[1:] if lane.startswith(f"{each.name}/")), MESSAGES)


def lane_of(dialect: Dialect, agent_id: str | None) -> str:
    """The lane of an ordinary turn of the main agent, or of another."""
    return _within(dialect, f"agent:{agent_id}" if agent_id else MAIN)


def header_lane(lane: str, agent_id: str | None) -> str:
    """The lane that the headers of an agent name whose requests are in this one: a fork is in its parent's."""
    return lane if is_side(lane) else lane_of(dialect_of(lane), agent_id)


def side_of(lane: str) -> str:
    """The lane of requests beside the conversations of this one's dialect."""
    return _within(dialect_of(lane), SIDE)


def is_side(lane: str) -> bool:
    """Whether a lane is one of requests beside conversations."""
    return lane == side_of(lane)


def _within(dialect: Dialect, name: str) -> str:
    return name if dialect is MESSAGES else f"{dialect.name}/{name}"

"""All dialects, and the lanes, whose names tell the dialect of their requests.

The histories of a lane are compared with each other, so a lane never changes its dialect. Lanes of the Messages API,
which came first, have no dialect prefix.
"""

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES

DIALECTS = (MESSAGES, CHAT, RESPONSES)

MAIN, SIDE = "main", "side"
"""The lane of the main agent, and the lane of side requests. Other agents have the lane ``agent:<id>``, except a fork
of an agent: its history begins with its parent's, so its requests are in its parent's lane.
"""


def dialect_of(lane: str) -> Dialect:
    """Return the dialect of a lane's requests."""
    return next((dialect for dialect in DIALECTS[1:] if lane.startswith(f"{dialect.name}/")), MESSAGES)


def lane_of(dialect: Dialect, agent_id: str | None) -> str:
    """Return the lane of an ordinary turn of the main agent, or of the agent with this id."""
    return _within(dialect, f"agent:{agent_id}" if agent_id else MAIN)


def header_lane(lane: str, agent_id: str | None) -> str:
    """Return the lane named by the headers of an agent whose requests are in ``lane``. A fork is in its parent's
    lane.
    """
    return lane if is_side(lane) else lane_of(dialect_of(lane), agent_id)


def side_of(lane: str) -> str:
    """Return the lane of side requests in this lane's dialect."""
    return _within(dialect_of(lane), SIDE)


def is_side(lane: str) -> bool:
    """Return whether this is a lane of side requests."""
    return lane == side_of(lane)


def _within(dialect: Dialect, name: str) -> str:
    return name if dialect is MESSAGES else f"{dialect.name}/{name}"

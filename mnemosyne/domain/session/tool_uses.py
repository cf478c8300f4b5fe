"""What the tools of an agent's host read and changed, as the host declares it in a header of its next request."""

import json
from collections.abc import Iterable

from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.events import ToolUse

USES_HEADER = "x-mnemosyne-tool-uses"

MOST_USES = 256
"""How many calls may be declared by a request; a session remembers as many."""

MOST_SOURCES, LONGEST = 16, 400
"""How many sources a call may name in each list, and how many characters of each."""


def write_uses(uses: Iterable[ToolUse]) -> str:
    """The value of the header, in ASCII."""
    return json.dumps({use.call: [use.reads, use.writes] for use in uses})


def read_uses(headers: Iterable[tuple[str, str]]) -> tuple[ToolUse, ...]:
    """The uses that a request declares; anything malformed is ignored."""
    value = next((value for name, value in headers if name.lower() == USES_HEADER), None)
    try:
        declared = {} if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return ()
    items = declared.items() if isinstance(declared, dict) else ()
    lists = [(call, given) for call, given in items if isinstance(given, list) and len(given) == 2]
    return tuple(ToolUse(sanitize.text(call), _names(reads), _names(writes)) for call, (reads, writes) in lists)[
        :MOST_USES
    ]


def _names(given: object) -> tuple[str, ...]:
    named = (each.strip() for each in given if isinstance(each, str)) if isinstance(given, list) else ()
    return tuple(dict.fromkeys(sanitize.text(each)[:LONGEST] for each in named if each))[:MOST_SOURCES]

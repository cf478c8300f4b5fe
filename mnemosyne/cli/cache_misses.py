"""The cache misses of all sessions, for ``mnemosyne usage --misses``."""

from collections.abc import Sequence
from typing import Any

from mnemosyne.cli.printing import print_table, say
from mnemosyne.figures import count_text, dollars, dollars_text, plural
from mnemosyne.services.cache_misses import MissGroup
from mnemosyne.services.unstructuring import members

_NAMED = 8
"""The number of characters of a session's name that are shown."""


def misses_as_json(groups: Sequence[MissGroup]) -> list[dict[str, Any]]:
    return [
        {
            **members(group, "is_miss requests tokens unpriced", cause="text"),
            "dollars": dollars(group.nanodollars) if group.unpriced < group.requests else None,
            "worst": {"session": group.worst[0], **members(group.worst[1], "branch turn attempt")},
        }
        for group in groups
    ]


def print_misses(groups: Sequence[MissGroup]) -> None:
    print_table(
        ("NOT READ FROM THE CACHE BECAUSE", "REQUESTS", "TOKENS", "EXTRA COST", "MOST"),
        [(group.text, str(group.requests), count_text(group.tokens), *_miss_cells(group)) for group in groups],
        right=("REQUESTS", "TOKENS", "EXTRA COST"),
        whole="MOST",
    )
    total = sum(group.nanodollars for group in groups if group.is_miss)
    misses = sum(group.requests for group in groups if group.is_miss)
    say(f"{plural(misses, 'request')} missed the cache and cost {dollars_text(total)} more than with it.")


def _miss_cells(group: MissGroup) -> tuple[str, str]:
    name, address = group.worst
    price = dollars_text(None if group.unpriced == group.requests else group.nanodollars, partial=group.unpriced > 0)
    return price if group.is_miss else "-", f"{name[:_NAMED]} {address.branch} {address.turn}"

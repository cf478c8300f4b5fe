"""The cache misses of all sessions, and the provider's verdicts on its cache, for ``mnemosyne usage``."""

from collections.abc import Sequence
from typing import Any

from mnemosyne.cli.printing import print_table, say
from mnemosyne.figures import count_text, dollars, dollars_text
from mnemosyne.services.cache_misses import MissGroup
from mnemosyne.services.cache_verdicts import Agreement
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
    missed = [group for group in groups if group.is_miss]
    if not missed:
        say("No request missed the cache.")
        return
    has_unpriced = any(group.unpriced for group in missed)
    is_priced = any(group.unpriced < group.requests for group in missed)
    total = sum(group.nanodollars for group in missed) if is_priced else None
    say(f"The cache misses cost {dollars_text(total, partial=has_unpriced)} more than reads from the cache.")


def _miss_cells(group: MissGroup) -> tuple[str, str]:
    name, address = group.worst
    price = dollars_text(None if group.unpriced == group.requests else group.nanodollars, partial=group.unpriced > 0)
    return price if group.is_miss else "-", f"{name[:_NAMED]} {address.branch} {address.turn}"


def print_agreement(found: Agreement) -> None:
    say(found.sentence)
    for stream, each in found.differing:
        place = f"{str(stream)[:_NAMED]} {each.address.branch} {each.address.turn}"
        say(f"{place}{f'/{each.round}' if each.round is not None else ''}: {each.sentence}")

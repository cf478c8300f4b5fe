"""How full a window is, for people and for programs."""

import sys
from typing import TYPE_CHECKING, Any

from mnemosyne.cli.figures import count_text

if TYPE_CHECKING:
    from mnemosyne.domain.history.memory_travel import Moment
    from mnemosyne.domain.objects.eviction import Standing

WIDTH = 20


def window_line(found: "Moment") -> str:
    """``██████░░░░ 31 % of 98.0k usable, normal; …``."""
    usable = found.assessed.usable
    return (
        f"{bar(found.history, usable)} {percent(found.history, usable)} of {count_text(usable)} usable tokens, "
        f"zone {found.assessed.zone} (history {count_text(found.history)}; system prompt and tools "
        f"{count_text(found.fixed)} more)"
    )


def bar(part: int, whole: int) -> str:
    """A share as a bar, in letters where the terminal knows no others."""
    filled = min(WIDTH, round(WIDTH * part / whole)) if whole else WIDTH
    full, empty = "█", "░"
    try:
        (full + empty).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        full, empty = "#", "."
    return full * filled + empty * (WIDTH - filled)


def percent(part: int, whole: int) -> str:
    """A share in percent."""
    return f"{100 * part / whole:.0f} %" if whole else "100 %"


def window_as_json(found: "Moment") -> dict[str, Any]:
    """The window of a turn."""
    return {
        "branch": found.branch,
        "turn": found.turn,
        "zone": found.assessed.zone,
        "window": {
            "prompt_tokens": found.assessed.tokens,
            "fixed_tokens": found.fixed,
            "history_tokens": found.history,
            "usable_tokens": found.assessed.usable,
            "counted_tokens": found.counted,
        },
    }


def flags(found: "Moment", standing: "Standing") -> list[str]:
    """What else is to be known of an object at a turn."""
    each = standing.object
    wished = found.wished.get(each.id)
    said = {
        each.role.value: each.role.value != "transcript",
        "pinned": each.is_pinned(found.turn),
        "stale": each.stale,
        "released": each.released,
        "forgotten": each.forgotten,
        "" if wished is None else f"would→{wished[1].after.label}": wished is not None,
    }
    return [flag for flag, holds in said.items() if holds]

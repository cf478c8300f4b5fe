"""Format numbers, money and durations for people, and make untrusted names safe to print."""

from typing import Any

NANODOLLARS = 10**9


def count_text(count: float | None) -> str:
    """``950``, ``12.3k``, ``1.2M``; ``-`` for None."""
    if count is None:
        return "-"
    if count < 10_000:
        return f"{count:.0f}"
    for size, unit in ((1_000, "k"), (1_000_000, "M")):
        if count < 1_000 * size:
            return f"{count / size:.1f}{unit}"
    return f"{count / 1e9:.1f}G"


def dollars_text(nanodollars: int | None) -> str:
    """``$0.0123``, ``-$12.34``; more digits for small amounts; ``?`` for None."""
    if nanodollars is None:
        return "?"
    amount = abs(nanodollars) / NANODOLLARS
    digits = 2 if amount >= 10 or not nanodollars else 4
    return f"{'-' if nanodollars < 0 else ''}${amount:.{digits}f}"


def dollars(nanodollars: int | None) -> float | None:
    """The amount in dollars."""
    return None if nanodollars is None else nanodollars / NANODOLLARS


def seconds_text(microseconds: int | None) -> str:
    """``0.4 s``, ``2 min 03``."""
    if microseconds is None:
        return "-"
    seconds = microseconds / 1e6
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02}" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02}"


def is_priced(model: str | None) -> bool:
    """Whether a model's price is known."""
    from mnemosyne.domain.cost.catalogue import price_of

    return price_of(model) is not None


def printable(value: Any) -> str:
    """Replace all control characters of an untrusted text."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(value))


def plural(count: int, noun: str) -> str:
    """``1 turn``, ``2 turns``; ``1 branch``, ``2 branches``; ``1 reply``, ``2 replies``."""
    if count == 1:
        return f"{count} {noun}"
    if noun.endswith(("ry", "ly")):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('ch') else 's'}"

"""Numbers, money and durations for people, and what a stranger named, made safe to print."""

from typing import Any

NANODOLLARS = 10**9


def count_text(count: int | None) -> str:
    """``950``, ``12.3k``, ``1.2M``; ``-`` for what is not known."""
    if count is None:
        return "-"
    if count < 10_000:
        return str(count)
    for size, unit in ((1_000, "k"), (1_000_000, "M")):
        if count < 1_000 * size:
            return f"{count / size:.1f}{unit}"
    return f"{count / 1e9:.1f}G"


def dollars_text(nanodollars: int | None) -> str:
    """``$0.0123``; more digits where the amount is small; ``?`` where no price is known."""
    if nanodollars is None:
        return "?"
    dollars = nanodollars / NANODOLLARS
    return f"${dollars:.2f}" if dollars >= 10 or not nanodollars else f"${dollars:.4f}"


def dollars(nanodollars: int | None) -> float | None:
    """For programs."""
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
    """A text that came from outside; nothing in it can command a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(value))

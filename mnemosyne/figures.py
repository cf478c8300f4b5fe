"""Format numbers, money, sizes and times for people: the only such functions of commands, pages and reports. And make
untrusted names safe to print.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mnemosyne.times import utc

if TYPE_CHECKING:  # commands that join a server need no domain
    from mnemosyne.domain.session.input_events import SettingsTaken

NANODOLLARS = 10**9


def count_text(count: float | None) -> str:
    """A number of tokens: ``950``, ``12.3k``, ``-1.2M``; ``-`` for None."""
    if count is None:
        return "-"
    if abs(count) < 10_000:
        return f"{count:.0f}"
    for size, unit in ((1_000, "k"), (1_000_000, "M")):
        if abs(count) < 1_000 * size:
            return f"{count / size:.1f}{unit}"
    return f"{count / 1e9:.1f}G"


def amount_text(amount: float) -> str:
    """Dollars: ``$1,234.56``; below ten cents two significant digits, such as ``$0.050``."""
    exponent = int(f"{amount:.1e}".partition("e")[2])
    digits = max(2, 1 - exponent) if amount else 2
    return f"{'-' if amount < 0 else ''}${abs(amount):,.{digits}f}"


def dollars_text(nanodollars: int | None, *, partial: bool = False) -> str:
    """The amount as ``amount_text``; ``?`` for None, ``$1.43+`` if it is ``partial``: some replies have no price."""
    if nanodollars is None:
        return "?"
    return amount_text(nanodollars / NANODOLLARS) + ("+" if partial else "")


def dollars(nanodollars: int | None) -> float | None:
    """The amount in dollars."""
    return None if nanodollars is None else nanodollars / NANODOLLARS


def percent_text(share: float, digits: int = 0) -> str:
    """A share of 1 in percent: ``81 %``, ``12.5 %``."""
    return f"{100 * share:.{digits}f} %"


def bytes_text(count: int) -> str:
    """``950 B``, ``12.3 KB``."""
    size, units = float(count), iter(("B", "KB", "MB", "GB"))
    for unit in units:
        if size < 1000:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def seconds_text(microseconds: int | None) -> str:
    """A duration: ``0.4 s``, ``2 min 03``."""
    if microseconds is None:
        return "-"
    seconds = microseconds / 1e6
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02}" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02}"


def age_text(microseconds: int) -> str:
    """A time before now: ``now``, ``12 min ago``, ``3 h ago``, ``5 d ago``."""
    seconds = max(0, microseconds // 1_000_000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "now"


_DATE = "%Y-%m-%d %H:%M:%S"


def utc_text(at: int | None) -> str:
    """A time (µs of UTC) in UTC: ``2026-11-23 06:12:40``."""
    return "-" if at is None else utc(at).strftime(_DATE)


def local_time(at: int) -> str:
    """A time (µs of UTC) in the local time zone; ``-`` for 0."""
    return utc(at).astimezone().strftime(_DATE) if at else "-"


def iso_time(at: int) -> str | None:
    """A time (µs of UTC) for programs, by RFC 3339; None for 0."""
    return utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None


def is_priced(model: str | None) -> bool:
    """Whether a model's price is known."""
    from mnemosyne.domain.cost.catalogue import price_of

    return price_of(model) is not None


def price_sentence(names: Iterable[str], what: str) -> str:
    """A sentence that names models without a known price, and the command that sets a price."""
    listed = sorted(names)
    problem = f"No price is known for {', '.join(map(printable, listed))}: {what} counted but not priced."
    simple = next((name for name in listed if name.isprintable() and not set(name) & set(" ()'")), None)
    if simple is None:
        return problem
    return f"{problem} Set it, in dollars: mnemosyne config price {shlex.quote(simple)} INPUT OUTPUT CACHE-READ"


def printable(value: Any) -> str:
    """Replace all control characters of an untrusted text; a line end becomes visible."""
    text = str(value).replace("\n", "\N{RETURN SYMBOL}")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def plural(count: int, noun: str) -> str:
    """``1 turn``, ``2 turns``; ``1 branch``, ``2 branches``; ``1 reply``, ``2 replies``."""
    if count == 1:
        return f"{count} {noun}"
    if noun.endswith(("ry", "ly")):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('ch') else 's'}"


def settings_as_json(taken: "SettingsTaken") -> dict[str, Any]:
    """The settings of a session's planning, as far as a request can choose them."""
    names = ("window", "policy", "policy_version", "chosen", "refused")
    grounding = {} if taken.grounding == "free" else {"grounding": taken.grounding}
    return {**{name: getattr(taken, name) for name in names}, "fidelity": taken.fidelity.value, **grounding}


def settings_text(taken: Mapping[str, Any]) -> str:
    """The settings of ``settings_as_json`` as sentences."""
    policy = f"{taken['policy']} {taken['policy_version']}".rstrip()
    window = "" if taken["window"] is None else f", window {count_text(taken['window'])} tokens"
    chosen = f"; its requests chose {' and '.join(taken['chosen'])}" if taken["chosen"] else ""
    refused = f". Refused: {'; '.join(taken['refused'])}" if taken["refused"] else ""
    grounding = f", grounding {taken['grounding']}" if "grounding" in taken else ""
    return f"policy {printable(policy)}, fidelity {taken['fidelity']}{window}{grounding}{chosen}{refused}"

"""How values are told: to people in templates, to programs as JSON."""

from mnemosyne.domain.objects.events import FaultKind
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.figures import count_text, dollars_text, plural
from mnemosyne.terminal import harmless
from mnemosyne.times import utc

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


def tokens_text(count: float | None) -> str:
    """As in a terminal; a dash for what is not known."""
    return DASH if count is None else count_text(count)


def money_text(nanodollars: int | None) -> str:
    """As in a terminal, with a minus that cannot be taken for a dash."""
    return dollars_text(nanodollars).replace("-", MINUS)


def time_text(at: int | None) -> str:
    """``2026-11-23 06:12:40``, in UTC; the page shows it in the reader's own zone."""
    return DASH if at is None else utc(at).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: int) -> str:
    """The same for a machine (RFC 3339)."""
    return utc(at).isoformat()


def words(name: str) -> str:
    """``file_context`` as people say it."""
    return name.replace("_", " ")


_BECAUSE = {
    Cause.PRESSURE: "the window was filling up",
    Cause.ECONOMY: "rewriting the history was cheaper than sending it with every turn",
    Cause.RELEASE: "it was let go",
    Cause.GOAL: "the user turned to something else",
    Cause.FAULT: "the model asked for it",
    Cause.PREFETCH: "a person asked for it",
    Cause.ATTEMPT: "the turn was tried again",
}
_LEVELS = {
    Fidelity.FULL: "full",
    Fidelity.DETAILED: "detailed",
    Fidelity.COMPACT: "compact",
    Fidelity.STUB: "a line",
    Fidelity.EVICTED: "out",
}


def because(cause: Cause) -> str:
    """Why an object's fidelity changed, as the rest of a sentence."""
    return _BECAUSE[cause]


def level_text(fidelity: Fidelity) -> str:
    """``L4 out``."""
    return f"{fidelity.label} {_LEVELS[fidelity]}"


_HOW_MISSED = {
    FaultKind.EXPLICIT: "the model restored it",
    FaultKind.MICRO: "the model asked about it",
    FaultKind.IMPLICIT: "the agent read or ran it again",
}


def describe_miss(kind: str) -> str:
    """How it showed that something was missing."""
    return _HOW_MISSED[FaultKind(kind)]


FILTERS = {
    "tokens": tokens_text,
    "money": money_text,
    "time": time_text,
    "iso": iso,
    "words": words,
    "plural": plural,
    "because": because,
    "missed": describe_miss,
    "level": level_text,
    "harmless": harmless,
}
"""By the names that templates call them by. ``harmless`` takes out what turns the direction of writing."""

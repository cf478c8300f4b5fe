"""Format values for templates, as Jinja filters."""

from mnemosyne.domain.objects.events import FaultKind
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.figures import count_text, dollars_text, plural
from mnemosyne.services.map_chart import KEY
from mnemosyne.terminal import harmless
from mnemosyne.times import utc

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


def tokens_text(count: float | None) -> str:
    """Format a token count as the CLI does; a dash if unknown."""
    return DASH if count is None else count_text(count)


def money_text(nanodollars: int | None) -> str:
    """Format an amount as the CLI does, with a minus sign instead of a hyphen."""
    return dollars_text(nanodollars).replace("-", MINUS)


def time_text(at: int | None) -> str:
    """Format a time in UTC (``2026-11-23 06:12:40``); the page's script converts it to the reader's time zone."""
    return DASH if at is None else utc(at).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: int) -> str:
    """Format a time by RFC 3339."""
    return utc(at).isoformat()


def words(name: str) -> str:
    """Replace underscores by spaces: ``file_context``."""
    return name.replace("_", " ")


_BECAUSE = {
    Cause.PRESSURE: "the context window was filling up",
    Cause.ECONOMY: "compaction was cheaper than sending it with every turn",
    Cause.RELEASE: "it was released",
    Cause.GOAL: "the user changed the task",
    Cause.FAULT: "the model requested it",
    Cause.PREFETCH: "a user requested it",
    Cause.ATTEMPT: "the turn was retried",
}


def because(cause: Cause) -> str:
    """Return the cause of a fidelity change as a clause after "because"."""
    return _BECAUSE[cause]


def level_text(fidelity: Fidelity) -> str:
    """Format a fidelity, for example ``L4 evicted``."""
    return KEY.get(fidelity.label, f"{fidelity.label} evicted")


_HOW_MISSED = {
    FaultKind.EXPLICIT: "the model restored it",
    FaultKind.MICRO: "the model queried it",
    FaultKind.IMPLICIT: "the agent read or ran it again",
}


def describe_miss(kind: str) -> str:
    """Describe how a page fault showed."""
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
"""The filters by their names in templates. ``harmless`` removes control characters of text direction."""

"""Format values for templates, as Jinja filters."""

from collections.abc import Iterable

from markupsafe import Markup, escape

from mnemosyne import figures
from mnemosyne.domain.history.window_contents import KIND_NAMES, WindowContents
from mnemosyne.domain.objects.events import FaultKind
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.services.charts import bar
from mnemosyne.services.map_chart import LEVELS
from mnemosyne.terminal import harmless

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


def typographic(text: str) -> str:
    """A number as in the CLI, with a minus sign instead of a hyphen, and a dash if it is unknown."""
    return DASH if text == "-" else text.replace("-", MINUS)


def tokens_text(count: float | None) -> str:
    return typographic(figures.count_text(count))


def money_text(nanodollars: int | None, unpriced: object = None) -> str:
    """An amount, marked as partial if there are ``unpriced`` replies."""
    return typographic(figures.dollars_text(nanodollars, partial=bool(unpriced)))


def price_hint(unknown: Iterable[str]) -> str:
    """The models without a known price, and the command that sets one."""
    return figures.price_sentence(unknown, "their usage is")


def time_text(at: int | None) -> str:
    """A time in UTC; the page's script converts it to the reader's time zone."""
    return DASH if at is None else figures.utc_text(at)


def age(at: int, now: int) -> str:
    """A time as an age: ``3 h ago``."""
    return figures.age_text(now - at)


def words(name: str) -> str:
    """Replace underscores by spaces: ``file_context``."""
    return name.replace("_", " ")


_BECAUSE = {
    Cause.PRESSURE: "the context window was filling up",
    Cause.ECONOMY: "compaction was cheaper than sending it with every turn",
    Cause.RELEASE: "it was released",
    Cause.GOAL: "the user's goal may need it",
    Cause.FAULT: "the model requested it",
    Cause.PREFETCH: "a user requested it",
    Cause.ATTEMPT: "the request was repeated",
}


def because(cause: Cause) -> str:
    """Return the cause of a fidelity change as a clause after "because"."""
    return _BECAUSE[cause]


def level_text(fidelity: Fidelity) -> str:
    """Format a fidelity, for example ``L4 evicted``."""
    return LEVELS.get(fidelity.label, f"{fidelity.label} evicted")


_HOW_MISSED = {
    FaultKind.EXPLICIT: "the model restored it",
    FaultKind.MICRO: "the model queried it",
    FaultKind.IMPLICIT: "the agent read or ran it again",
}


def describe_miss(kind: str) -> str:
    """Describe how a page fault showed."""
    return _HOW_MISSED[FaultKind(kind)]


def bar_of_kinds(contents: WindowContents) -> str:
    parts = [
        (
            each.kind.value,
            f"{KIND_NAMES[each.kind]}: {figures.count_text(each.tokens)} tokens, "
            f"{figures.percent_text(each.tokens / contents.tokens)}",
            each.tokens,
        )
        for each in contents.kinds
        if each.tokens
    ]
    return bar("; ".join(title for _, title, _ in parts), parts, contents.tokens)


LONGEST_LABEL = 56


def shorten(label: str) -> str:
    """Shorten a label to one line; a path keeps its last folders, which distinguish files."""
    if len(label) <= LONGEST_LABEL:
        return label
    if not label.startswith("/"):
        return f"{label[: LONGEST_LABEL - 1]}…"
    return f"…/{label[2 - LONGEST_LABEL :].partition('/')[2] or label[2 - LONGEST_LABEL :]}"


def breakable(label: str) -> Markup:
    """Let a label break after a slash."""
    return Markup(str(escape(label)).replace("/", "/<wbr>"))


FILTERS = {
    "tokens": tokens_text,
    "money": money_text,
    "price_hint": price_hint,
    "time": time_text,
    "iso": figures.iso_time,
    "age": age,
    "bytes": figures.bytes_text,
    "seconds": figures.seconds_text,
    "words": words,
    "plural": figures.plural,
    "because": because,
    "missed": describe_miss,
    "level": level_text,
    "shorten": shorten,
    "breakable": breakable,
    "kind_name": KIND_NAMES.__getitem__,
    "bar_of_kinds": bar_of_kinds,
    "harmless": harmless,
}
"""The filters by their names in templates. ``harmless`` removes control characters of text direction."""

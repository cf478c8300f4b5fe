"""Text and JSON for the state of a context window and the decisions of the planner."""

from typing import TYPE_CHECKING, Any

from mnemosyne.cli.printing import fits_encoding
from mnemosyne.figures import count_text, percent_text, plural, printable
from mnemosyne.services.unstructuring import members

if TYPE_CHECKING:
    from mnemosyne.domain.history.rewrite_preview import PlannedRewrite
    from mnemosyne.domain.objects.aggregate import MemoryObject
    from mnemosyne.domain.objects.events import TurnAssessed
    from mnemosyne.domain.objects.protection import Resident
    from mnemosyne.domain.session.round_events import BranchModeSet
    from mnemosyne.domain.window.planning import NoRewrite
    from mnemosyne.services.session_list import ListedDecision

WIDTH = 20

SOURCE = 40
"""Characters of a source in a table."""


def window_line(view: "TurnAssessed") -> str:
    """``██████░░░░ 31 % of 98.0k usable tokens, zone normal (…)``, as the session page counts them."""
    usable = view.fixed + view.usable
    return (
        f"{bar(view.tokens, usable)} {percent(view.tokens, usable)} of {count_text(usable)} usable tokens, "
        f"zone {view.zone} (history {count_text(view.history)}, system prompt and tools {count_text(view.fixed)})"
    )


def bar(part: int, whole: int) -> str:
    """A share as a bar; in ASCII if the terminal has no Unicode."""
    filled = min(WIDTH, round(WIDTH * part / whole)) if whole else WIDTH
    full, empty = "█░" if fits_encoding("█░") else "#."
    return full * filled + empty * (WIDTH - filled)


def percent(part: int, whole: int) -> str:
    """A share in percent."""
    return percent_text(part / whole if whole else 1)


def window_as_json(view: "TurnAssessed", counted: int | None) -> dict[str, Any]:
    """The window of a turn as JSON; ``counted`` is the provider's count of the prompt."""
    sizes = {"fixed_tokens": "fixed", "history_tokens": "history", "usable_tokens": "usable"}
    window = {**members(view, prompt_tokens="tokens"), "counted_tokens": counted, **members(view, **sizes)}
    return {**members(view, "branch turn zone"), "window": window}


def flags(standing: "Resident", turn: int, planned: "PlannedRewrite | NoRewrite | None") -> list[str]:
    """The flags of an object at a turn, such as ``pinned`` or ``stale``."""
    from mnemosyne.domain.history.rewrite_preview import PlannedRewrite

    each = standing.object
    would = planned.fidelities.get(each.id) if isinstance(planned, PlannedRewrite) else None
    states = {
        each.role.value: each.role.value != "transcript",
        "pinned": each.is_pinned(turn),
        "stale": each.stale,
        "released": each.released,
        "forgotten": each.forgotten,
        "" if would is None else f"would→{would.label}": would is not None,
    }
    return [flag for flag, is_set in states.items() if is_set]


def source_text(each: "MemoryObject") -> str:
    """The source of an object, or its stub, shortened for a table."""
    text = each.stub if each.source_tool is None else render_source(each, each.source_tool)
    text = printable(" ".join(text.split())) or "(forgotten)"
    if len(text) <= SOURCE:
        return text
    if each.source_tool and (each.source_key or "").startswith("/"):  # the end of a path distinguishes files
        return f"{each.source_tool} …{text[len(each.source_tool) + 2 - SOURCE :]}"
    return text[: SOURCE - 1] + "…"


def render_source(each: "MemoryObject", tool: str) -> str:
    """The tool and its argument, unless the argument begins with the tool's name."""
    key = each.source_key
    return tool if key is None else key if key.startswith(tool) else f"{tool} {key}"


def turns_text(each: "MemoryObject") -> str:
    """``3`` or ``3-5``."""
    return str(each.first_turn) if each.first_turn == each.last_turn else f"{each.first_turn}-{each.last_turn}"


# The planner's next decision


def plan_sentence(planned: "PlannedRewrite | NoRewrite") -> str:
    """The planner's next decision for a branch that is only observed."""
    from mnemosyne.domain.history.rewrite_preview import PlannedRewrite

    if not isinstance(planned, PlannedRewrite):
        return f"With managing on, the next request would not compact the context: {planned.reason}."
    began = planned.began
    price = f"at a cost of {count_text(began.price)} input tokens" if began.price > 0 else "for free"
    return (
        f"With managing on, the next request would evict or shorten {plural(len(planned.changes), 'object')} "
        f"(about {count_text(began.freed)} tokens) {price}: {began.reason}."
    )


EPOCH = "epoch reason freed price payback hour"
"""The JSON keys of an epoch."""


def plan_as_json(planned: "PlannedRewrite | NoRewrite | None") -> dict[str, Any] | None:
    """The planner's next decision as JSON; None if the branch is or was managed."""
    from mnemosyne.domain.history.rewrite_preview import PlannedRewrite

    if planned is None:
        return None
    if not isinstance(planned, PlannedRewrite):
        return {"epoch": None, "why_not": planned.reason, "objects": []}
    return {
        "epoch": members(planned.began, EPOCH),
        "why_not": None,
        "objects": [
            {**members(change, "object before after"), "tokens": planned.freed.get(change.object)}
            for change in planned.changes
        ],
    }


# The mode of a branch


def decision_text(decision: "BranchModeSet | ListedDecision | None") -> str:
    """The mode of a branch and its reason."""
    if decision is None:
        return "observed: managing was not requested"
    return mode_text(decision.mode.value, decision.why)


def mode_text(mode: str, why: str) -> str:
    """``managed: `` and the reason."""
    from mnemosyne.domain.window.rounds import ASKED_FOR

    how = {"manage": "managed", "observe": "observed", "bypass": "managed no longer"}[mode]
    return f"{how}: {'managing was requested' if why == ASKED_FOR else why}"


def decision_as_json(decision: "BranchModeSet | ListedDecision | None") -> dict[str, Any]:
    """The mode of a branch and its reason as JSON."""
    return {
        "mode": "observe" if decision is None else decision.mode.value,
        "mode_why": None if decision is None else decision.why,
    }

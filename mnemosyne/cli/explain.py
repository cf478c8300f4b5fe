"""``mnemosyne explain``: what memory did at a turn, and why."""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import click

from mnemosyne.app.process import now
from mnemosyne.app.settings import settings_of
from mnemosyne.cli.accounts import account_of
from mnemosyne.cli.log_access import branch_option, log_of, prints, session_argument, turn_option, with_log
from mnemosyne.cli.objects import object_as_json
from mnemosyne.cli.printing import say
from mnemosyne.cli.search import render_helper
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import (
    EPOCH,
    decision_as_json,
    decision_text,
    percent,
    plan_as_json,
    plan_sentence,
    source_text,
    window_as_json,
    window_line,
)
from mnemosyne.domain.cost.catalogue import family_of, model_of
from mnemosyne.domain.cost.tariffs import Tariff
from mnemosyne.domain.history.memory_travel import MemorySnapshot
from mnemosyne.domain.history.rewrite_preview import PlannedRewrite
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import ObjectCreated, ObjectEvent, ObjectSuperseded
from mnemosyne.domain.session.counted_sizes import size_event
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.window.planning import NoRewrite
from mnemosyne.domain.window.window_size import find_model_window
from mnemosyne.figures import (
    count_text,
    is_priced,
    iso_time,
    local_time,
    percent_text,
    plural,
    printable,
    settings_as_json,
    settings_text,
)
from mnemosyne.http.inspector.happenings import describe_event, describe_object
from mnemosyne.services import windows
from mnemosyne.services.asking import helper_as_json
from mnemosyne.services.cache_misses import describe_reading, reading_as_json
from mnemosyne.services.citations import citations_text
from mnemosyne.services.unstructuring import members
from mnemosyne.services.windows import Explanation

SHOWN = 8
"""Number of objects of a list in the text output; JSON contains them all."""

Paragraph = tuple[str, Sequence[str]]
"""A sentence and the lines below it."""


def _units(tariff: Tariff) -> str:
    """``quota, and in dollars too``: the planner optimizes the first unit and limits the others."""
    first, *others = (unit.value for unit in tariff.units)
    return first + "".join(f", and in {unit} too" for unit in others)


def _paragraphs(found: MemorySnapshot, planned: PlannedRewrite | NoRewrite | None) -> Iterator[Paragraph]:
    if found.goal is not None:
        yield f"Goal, according to a helper model: {found.goal}", []
    yield _list_events(found)
    yield "The window:", list(_window(found))
    model = found.began.model
    assumed = [] if is_priced(model) else ["Its cost is weighted like that of most models, and never shown in dollars."]
    if not family_of(model or ""):
        window = count_text(model_of(model).window)
        assumed.append(f"It is assumed to be a current model with a window of {window} tokens.")
    if assumed:
        yield f"The table of models has incomplete data for {printable(model or 'a model without a name')}:", assumed
    if (held := found.client_tokens) is not None:
        takes = _model_window(found)
        yield (
            f"The client's own history has about {count_text(held)} tokens, and the model's limit is"
            f" {count_text(takes)}: {_OUTCOMES[_outcome(held, takes)]}.",
            [],
        )
    if planned is not None:
        yield plan_sentence(planned), _list_changes(found, planned) if isinstance(planned, PlannedRewrite) else []
    yield _list_kept(found)
    yield from _render_helped(found)
    if found.account is not None:
        first, *more = account_of(found.account)
        yield first, more


def _list_events(found: MemorySnapshot) -> Paragraph:
    """The events of the turn."""
    lines = [_event_text(found, event) for event in (found.told, found.failed, found.epoch) if event is not None]
    unique: list[ObjectEvent] = []
    for event in (*found.happened, *found.faults, *found.moved):
        if event not in unique:
            unique.append(event)
    lines += [f"{_object_text(found.memory.objects[event.object])}: {_event_text(found, event)}" for event in unique]
    arrived = f"{plural(len(found.began.chains), 'new message')} arrived"
    return (f"{arrived}, with these events:", lines) if lines else (f"{arrived}; no object was created or changed.", [])


def _event_text(found: MemorySnapshot, event: Event) -> str:
    if isinstance(event, ObjectCreated):
        event = size_event(event, event, found.scales)
    what, why = (
        describe_object(event, sized=True) if isinstance(event, ObjectEvent) else describe_event(event) or ("", "")
    )
    return f"{what} ({printable(why)})" if why else what


def _window(found: MemorySnapshot) -> Iterator[str]:
    if found.anchor is None:
        how = "from the text alone, because the provider had not counted any tokens yet"
    else:
        freed = ", minus the tokens freed by the compaction," if found.since_rewritten else ","
        how = f"from the provider's last count of {count_text(found.anchor.total)} tokens{freed} plus the new content"
    estimate = count_text(found.assessed.tokens)
    yield window_line(found.assessed)
    yield f"The prompt was estimated at {estimate} tokens: {how}."
    if found.counted is not None:
        off = found.assessed.tokens - found.counted
        yield (
            f"The provider then counted {count_text(found.counted)}: the estimate was "
            + (f"{percent_text(abs(off) / found.counted, 1)} too {'high' if off > 0 else 'low'}." if off else "exact.")
        )
    else:
        yield "The provider's own count was not recorded."
    if (stated := found.session.stated_windows.get(found.began.model)) is not None:
        where = f"{stated.branch} {stated.turn}"
        yield f"The model's limit is {count_text(stated.window)} tokens, as the provider stated at {where}."
    if found.last_tokens is not None:
        more = found.assessed.tokens - found.last_tokens
        yield (
            f"This estimate is {count_text(abs(more))} tokens {'higher' if more >= 0 else 'lower'} than that of the"
            f" last measured turn ({percent(abs(more), found.last_tokens)})."
        )


COMPACTS_FROM = 80
"""Percent of the model's window: clients compact before it is full (at 78 to 88 % of 200,000 tokens in recordings)."""

_OUTCOMES = {
    "fits": "it would also fit without the proxy",
    "near": "without the proxy the client would have to compact it now",
    "refused": "without the proxy the provider would refuse it as too long",
}


def _model_window(found: MemorySnapshot) -> int:
    model = found.began.model
    return find_model_window(model, found.session.find_stated_window(model))


def _outcome(held: int, takes: int) -> str:
    """The outcome of sending ``held`` tokens to a model with a limit of ``takes``."""
    if held > takes:
        return "refused"
    return "near" if 100 * held > COMPACTS_FROM * takes else "fits"


def _list_changes(found: MemorySnapshot, planned: PlannedRewrite) -> list[str]:
    """The objects that would be evicted or shortened, largest saving first."""
    return [
        f"{_object_text(found.memory.objects[change.object])}: {change.before.label} → {change.after.label}, frees "
        f"{count_text(planned.freed[change.object])}"
        for change in sorted(planned.changes, key=lambda change: -planned.freed[change.object])
    ]


def _list_kept(found: MemorySnapshot) -> Paragraph:
    kept = found.list_kept()
    if not kept:
        return "Nothing is pinned or protected.", []
    why: dict[str, list[str]] = {}
    for each, reason in kept:
        why.setdefault(reason, []).append(each.id)
    lines = [f"{reason}: {', '.join(ids)}" for reason, ids in why.items()]
    return f"{plural(len(kept), 'object')} must stay as {'it is' if len(kept) == 1 else 'they are'}:", lines


def _render_helped(found: MemorySnapshot) -> Iterator[Paragraph]:
    for each in found.helped:
        lines = [
            f"{sentence.object} bytes {sentence.start}-{sentence.end}: {sentence.text}" for sentence in each.sentences
        ]
        yield f"The model asked its memory: “{each.question}” {render_helper(each)}", lines


def _object_text(each: MemoryObject) -> str:
    return f"{each.id} {each.kind.value} ({source_text(each)})"


def snapshot_as_json(found: MemorySnapshot, planned: PlannedRewrite | NoRewrite | None) -> dict[str, Any]:
    """A turn as JSON."""
    superseded = [event for event in found.happened if isinstance(event, ObjectSuperseded)]
    told, held = found.told, found.client_tokens
    takes = _model_window(found)
    return {
        **window_as_json(found.assessed, found.counted),
        "model": found.began.model,
        "priced": is_priced(found.began.model),
        "goal": found.goal,
        "new_messages": len(found.began.chains),
        "anchor_tokens": None if found.anchor is None else found.anchor.total,
        "previous_prompt_tokens": found.last_tokens,
        "without_us": None
        if held is None
        else {"tokens": held, "model_window": takes, "outcome": _outcome(held, takes)},
        "made": [
            object_as_json(found.object(event.object)) for event in found.happened if isinstance(event, ObjectCreated)
        ],
        "superseded": [members(event, "object by how") for event in superseded],
        "planned": plan_as_json(planned),
        "settings": None if (taken := found.session.find_taken(found.branch)) is None else settings_as_json(taken),
        "policy_failure": None if found.failed is None else found.failed.policy,
        "epoch": None if found.epoch is None else members(found.epoch, EPOCH),
        "told": None if told is None else members(told, "turn tokens entries"),
        "helped": [{"question": each.question, **helper_as_json(each)} for each in found.helped],
        "kept": [{"object": each.id, "why": why} for each, why in found.list_kept()],
        "changed": [members(event, "object before after cause") for event in found.moved],
    }


def _as_json(explanation: Explanation) -> dict[str, Any]:
    since = explanation.imported_at
    return {
        "session": str(explanation.stream),
        **snapshot_as_json(explanation.snapshot, explanation.planned),
        **decision_as_json(explanation.decision),
        "tariff": explanation.tariff.name,
        "cache": [reading_as_json(each) for each in explanation.cache],
        "citations": None if explanation.citations is None else attrs.asdict(explanation.citations),
        "imported_at": None if since is None else iso_time(since),
    }


def _print(explanation: Explanation) -> None:
    found = explanation.snapshot
    say(f"{found.branch} {found.turn}", bold=True, nl=False)
    say(f"  {local_time(found.began.at)}, {found.began.model or 'no model'}")
    if explanation.imported_at is not None:
        when = local_time(explanation.imported_at)
        say(f"This session was imported on {when}: its content, times and costs are those of the imported file.")
    say(f"This conversation was {decision_text(explanation.decision)}.")
    if (filled := found.filled) is not None:
        sizes = f"{count_text(filled.tokens)} of {count_text(filled.window)} tokens"
        say(f"The request filled its window with an estimated {sizes}: {filled.why}.")
    say(f"Costs are computed with the tariff {explanation.tariff.name}, in {_units(explanation.tariff)}.")
    if (taken := found.session.find_taken(found.branch)) is not None:
        say(f"Its settings: {settings_text(settings_as_json(taken))}.")
    cache = ((" ".join(describe_reading(each)), ()) for each in explanation.cache)
    cited = () if explanation.citations is None else ((citations_text(explanation.citations), ()),)
    for sentence, lines in (*_paragraphs(found, explanation.planned), *cited, *cache):
        say()
        say(sentence)
        for line in lines[:SHOWN]:
            say(f"  {line}")
        if len(lines) > SHOWN:
            say(f"  … and {len(lines) - SHOWN} more")


@click.command()
@session_argument
@branch_option
@turn_option("the last")
@log_options()
@prints(_as_json, _print)
def explain(session: str, branch: str, turn: int | str | None, **options: Any) -> Explanation:
    """Explain a turn in sentences: whether it was managed and why, its new content, the size of the context, evictions,
    citations, and the cost.

    \b
      mnemosyne explain 319a --turn 12

    For a conversation that is only observed, the planner shows its plan for the next request, and why.
    """
    config = log_of(options)
    settings = settings_of(config)
    return with_log(
        config, lambda storage: windows.explain(storage, session, branch, turn, now=now(), settings=settings)
    )

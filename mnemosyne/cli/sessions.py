"""``mnemosyne sessions``: what was recorded."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from uuid import UUID

import click

from mnemosyne.app.discovery import find_server, render_unrecorded
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.branches import branch_as_json
from mnemosyne.cli.printing import iso_time, price_sentence, print_json, print_table, say
from mnemosyne.cli.reading import has_log, json_option, render_emptiness, with_read_models
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import decision_text, excess_as_json, excess_text, now_us
from mnemosyne.domain.history.excess import Excess
from mnemosyne.figures import count_text, dollars, dollars_text, is_priced, plural, printable
from mnemosyne.services.excesses import read_excesses
from mnemosyne.services.overviews import SessionOverview, make_overviews
from mnemosyne.services.session_list import ListedSession, SessionList, find_oversized, list_sessions
from mnemosyne.services.unstructuring import members

Over = Mapping[UUID, Sequence[Excess]]

SHORT = 8
"""How many characters of an id are shown, unless two begin alike."""


SHOWN = 20
"""How many sessions are listed, unless another number is asked for."""


@click.command()
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help=f"At most so many.  [default: {SHOWN}; all with --json]"
)
@log_options()
@json_option
def sessions(limit: int | None, as_json: bool, **options: object) -> None:
    """List the recorded sessions, the last active first: each by the first words that its user typed, with the folder
    in which its client worked, whether it is managed, how large its context is, what it cost and what was saved.

    Other commands take a session by its id, by what the client calls it, or by the beginning of either.
    `mnemosyne open` shows them in a browser.
    """
    config = configuration(options)

    async def read(models: OpenReadModels) -> tuple[SessionList, list[SessionOverview], Over]:
        listed = await list_sessions(models, limit=limit if as_json else limit or SHOWN)
        overviews = await make_overviews(models.archive, models, listed, openings={})
        streams = await find_oversized(models, [each.stream for each in listed.sessions], config.manage_window)
        if not streams:
            return listed, overviews, {}

        return listed, overviews, await read_excesses(models.archive, streams, config.manage_window)

    found = with_read_models(config, read) if has_log(config) else None
    if as_json:
        print_json([] if found is None else _list_as_json(*found))
    elif found is None or not (found[1] or found[0].damaged):
        say(render_emptiness(config), err=True)
    else:
        _print_sessions(*found)
    server = find_server(config)
    for path, count in server.unrecorded.items() if server is not None else ():
        say(f"{render_unrecorded(path, count)}.", err=True)


def _print_sessions(listed: SessionList, overviews: Sequence[SessionOverview], over: Over) -> None:
    near = [str(other) for each in listed.sessions for other in each.neighbours]
    ids, now = short_ids([*(str(each.stream) for each in overviews), *near]), now_us()
    rows = [(ids[str(each.stream)], *_row(each, now)) for each in overviews]
    print_table(_HEADERS, rows, right="TURNS CONTEXT COST SAVED ACTIVE", spare=("MODE", "FOLDER", "CONTEXT"))
    if listed.total > len(rows):
        say(f"{plural(listed.total - len(rows), 'session')} more; --limit {listed.total} lists all.", err=True)
    told = _render_unmanaged(listed.sessions), _render_unpriced(overviews), _render_oversized(over, ids)
    for sentence in chain(*told, _render_damaged(_damages(listed, overviews))):
        say(sentence, err=True)


_HEADERS = ("SESSION", "WHAT IT IS ABOUT", "FOLDER", "MODE", "TURNS", "CONTEXT", "COST", "SAVED", "ACTIVE")


def _render_unmanaged(found: Sequence[ListedSession]) -> Iterator[str]:
    """How many sessions were not managed although that was wanted, and why, by their main branch."""
    decisions = (each.main.decision for each in found if each.main is not None)
    why = Counter(decision_text(each) for each in decisions if each is not None and each.mode.value != "manage")
    for text, count in why.most_common():
        yield f"{plural(count, 'session')} {text}."


def _render_unpriced(found: Sequence[SessionOverview]) -> Iterator[str]:
    """Which models have no price, or not on the terms of some turns."""
    unknown = frozenset[str]().union(*(each.unknown for each in found))
    if unknown:
        yield price_sentence(unknown, "what they use is")


def _render_oversized(over: Mapping[UUID, Sequence[Excess]], ids: Mapping[str, str]) -> Iterator[str]:
    """The managed sessions of which requests were larger than their window, each with the largest."""
    for stream, found in over.items():
        largest = max(found, key=lambda each: each.sent)
        times = plural(len(found), "time")
        yield f"Session {ids[str(stream)]} sent more than its window {times}, the most: {excess_text(largest)}."


def _damages(listed: SessionList, overviews: Sequence[SessionOverview]) -> dict[UUID, str]:
    """What is wrong with sessions: of all that the log is known to be damaged in, and of those that were listed."""
    known = {stream: damage.sentence for stream, damage in listed.damaged.items()}
    return known | {each.stream: each.damage for each in overviews if each.damage is not None}


def _render_damaged(damages: Mapping[UUID, str]) -> Iterator[str]:
    """The damaged sessions, and what to do about them."""
    for stream, damage in list(damages.items())[:SHOWN]:
        yield f"Session {stream} is damaged: {printable(damage)}."
    if len(damages) > SHOWN:
        yield f"{plural(len(damages) - SHOWN, 'session')} more are damaged; --json lists all."
    if damages:
        yield (
            "What cannot be read of them is set aside, and all other sessions go on. Restore a backup from before, or "
            "`mnemosyne forget` them; where a newer Mnemosyne wrote them, use that one."
        )


def short_ids(ids: list[str]) -> dict[str, str]:
    """For each id, as much of its beginning as tells it from the others."""
    length = SHORT
    while len({each[:length] for each in ids}) < len(set(ids)):
        length += 1
    return {each: each[:length] for each in ids}


def _list_as_json(listed: SessionList, overviews: Sequence[SessionOverview], over: Over) -> list[dict[str, Any]]:
    both = zip(listed.sessions, overviews, strict=True)
    rows = [_as_json(each, overview, over.get(each.stream, ())) for each, overview in both]
    unlisted = listed.damaged.keys() - {each.stream for each in listed.sessions}
    damaged = [each for stream, each in listed.damaged.items() if stream in unlisted]
    return rows + [
        {"id": str(each.session), "external_id": each.external_id, "damage": each.sentence} for each in damaged
    ]


def _as_json(session: ListedSession, overview: SessionOverview, over: Sequence[Excess]) -> dict[str, Any]:
    return {
        **members(session, "external_id client model turns", id="stream"),
        **members(overview, "title project mode damage", context_tokens="context"),
        "priced": is_priced(session.model),
        "unpriced_models": sorted(overview.unknown),
        "branches": [
            branch_as_json(each.name, each.parent, each.forked_at, each.last, each.decision)
            for each in session.branches
        ],
        "dollars": dollars(overview.cost),
        "dollars_saved": dollars(overview.saved),
        "oversized": [excess_as_json(each) for each in over],
        "imported_at": None if session.imported_at is None else iso_time(session.imported_at),
        "started_at": iso_time(session.first_at),
        "last_active_at": iso_time(session.last_at),
    }


def _row(each: SessionOverview, now: int) -> tuple[str, ...]:
    known = {"imported": each.imported_at is not None, "forgotten": each.forgotten, "damaged": each.damage is not None}
    marks = "".join(f" ({mark})" for mark, is_so in known.items() if is_so)
    folder = "/".join((each.project or "-").rstrip("/").split("/")[-2:])
    return (
        printable(each.title or each.name) + marks,
        printable(folder),
        each.mode.value,
        str(each.turns),
        count_text(each.context),
        dollars_text(each.cost),
        dollars_text(each.saved) if each.saved is None or each.saved >= 0 else f"-{dollars_text(-each.saved)}",
        age_text(now - each.last_at),
    )


def age_text(microseconds: int) -> str:
    """``now``, ``12 min``, ``3 h``, ``5 d``: how long ago something was."""
    seconds = max(0, microseconds // 1_000_000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "now"

"""``mnemosyne sessions``: the recorded sessions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

import click

from mnemosyne.app.discovery import find_server, render_unrecorded
from mnemosyne.app.process import now
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.branches import branch_as_json
from mnemosyne.cli.log_access import NothingRecorded, log_of, prints, render_emptiness, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import decision_text
from mnemosyne.config import Config
from mnemosyne.figures import (
    age_text,
    count_text,
    dollars,
    dollars_text,
    is_priced,
    iso_time,
    plural,
    price_sentence,
    printable,
)
from mnemosyne.services.overviews import SessionOverview, make_overviews
from mnemosyne.services.session_list import ListedSession, SessionList, list_sessions
from mnemosyne.services.sessions import read_trashed
from mnemosyne.services.unstructuring import members

SHORT = 8
"""Characters of an id in the output, unless two ids share them."""

SHOWN = 20
"""The default number of listed sessions."""


Found = tuple[SessionList, list[SessionOverview]]


def _print(found: Found) -> None:
    listed, overviews = found
    near = [str(other) for session in listed.sessions for other in session.neighbours]
    ids, at = short_ids([*(str(overview.stream) for overview in overviews), *near]), now()
    rows = [(ids[str(overview.stream)], *_row(overview, at)) for overview in overviews]
    print_table(
        _HEADERS, rows, right="TURNS CONTEXT COST SAVED ACTIVE", whole="SESSION", spare=("MODE", "FOLDER", "CONTEXT")
    )
    if listed.total > len(rows):
        say(f"{plural(listed.total - len(rows), 'session')} more; --limit {listed.total} lists all.", err=True)
    notes = _render_unmanaged(listed.sessions), _render_unpriced(overviews)
    for sentence in chain(*notes, _render_damaged(_damages(listed, overviews))):
        say(sentence, err=True)


_HEADERS = ("SESSION", "TITLE", "FOLDER", "MODE", "TURNS", "CONTEXT", "COST", "SAVED", "ACTIVE")


def _render_unmanaged(found: Sequence[ListedSession]) -> Iterator[str]:
    """Count the sessions whose main branch was not managed although requested, by reason."""
    decisions = (each.main.decision for each in found if each.main is not None)
    why = Counter(decision_text(each) for each in decisions if each is not None and each.mode.value != "manage")
    for text, count in why.most_common():
        yield f"{plural(count, 'session')} {text}."


def _render_unpriced(found: Sequence[SessionOverview]) -> Iterator[str]:
    """Name the models without a price for some turns."""
    unknown = frozenset[str]().union(*(each.unknown for each in found))
    if unknown:
        yield price_sentence(unknown, "their usage is")


def _damages(listed: SessionList, overviews: Sequence[SessionOverview]) -> dict[UUID, str]:
    """The damage of sessions: of those marked damaged in the log, and of the listed ones."""
    known = {stream: damage.sentence for stream, damage in listed.damaged.items()}
    return known | {each.stream: each.damage for each in overviews if each.damage is not None}


def _render_damaged(damages: Mapping[UUID, str]) -> Iterator[str]:
    """Name the damaged sessions, and suggest what to do."""
    for stream, damage in list(damages.items())[:SHOWN]:
        yield f"Session {stream} is damaged: {printable(damage)}."
    if len(damages) > SHOWN:
        yield f"{plural(len(damages) - SHOWN, 'session')} more are damaged; --json lists all."
    if damages:
        yield (
            "Their unreadable events are skipped; other sessions are not affected. Restore an earlier backup, or run "
            "`mnemosyne forget` for them; if a newer version of Mnemosyne wrote them, use that version."
        )


def short_ids(ids: list[str]) -> dict[str, str]:
    """Map each id to its shortest unique prefix, of at least SHORT characters."""
    length = SHORT
    while len({id_[:length] for id_ in ids}) < len(set(ids)):
        length += 1
    return {id_: id_[:length] for id_ in ids}


def _list_as_json(found: Found) -> list[dict[str, Any]]:
    listed, overviews = found
    both = zip(listed.sessions, overviews, strict=True)
    at = now()
    rows = [_as_json(each, overview, at) for each, overview in both]
    unlisted = listed.damaged.keys() - {each.stream for each in listed.sessions}
    damaged = [each for stream, each in listed.damaged.items() if stream in unlisted]
    return rows + [
        {"id": str(each.session), "external_id": each.external_id, "damage": each.sentence} for each in damaged
    ]


def _as_json(session: ListedSession, overview: SessionOverview, at: int) -> dict[str, Any]:
    return {
        **members(session, "external_id client model turns", id="stream"),
        **members(overview, "title project mode damage", context_tokens="context"),
        "priced": is_priced(session.model),
        "settings": session.settings,
        "unpriced_models": sorted(overview.unknown),
        "branches": [
            branch_as_json(each.name, each.parent, each.forked_at, each.last, each.decision)
            for each in session.branches
        ],
        "dollars": dollars(overview.cost),
        "dollars_saved": dollars(overview.saved),
        "imported_at": None if session.imported_at is None else iso_time(session.imported_at),
        "started_at": iso_time(session.first_at),
        "last_active_at": iso_time(session.last_at),
        "status": overview.status(at).value,
    }


def _row(each: SessionOverview, at: int) -> tuple[str, ...]:
    known = {"imported": each.imported_at is not None, "forgotten": each.forgotten, "damaged": each.damage is not None}
    marks = "".join(f" ({mark})" for mark, is_so in known.items() if is_so)
    folder = "/".join((each.project or "-").rstrip("/").split("/")[-2:])
    return (
        printable(each.title or each.name) + marks,
        printable(folder),
        each.mode.value,
        str(each.turns),
        count_text(each.context),
        dollars_text(each.cost, partial=bool(each.unknown)),
        dollars_text(each.saved),
        age_text(at - each.last_at),
    )


def _print_gaps(config: Config) -> None:
    server = find_server(config)
    for path, count in server.unrecorded.items() if server is not None else ():
        say(f"{render_unrecorded(path, count)}.", err=True)


@click.command()
@click.option(
    "--limit", type=click.IntRange(1, 10**9), metavar="N", help=f"Maximum number.  [default: {SHOWN}; all with --json]"
)
@log_options()
@prints(_list_as_json, _print, empty=[])
def sessions(limit: int | None, **options: Any) -> Found:
    """List the recorded sessions, last active first, with the first words of the user, the folder, the mode, the size
    of the context, the cost and the savings.

    \b
      mnemosyne sessions --limit 50

    Other commands accept a session's id, the client's id for it, or a prefix of either.
    """
    as_json = click.get_current_context().params["as_json"]
    click.get_current_context().call_on_close(partial(_print_gaps, configuration(options, warns=False)))

    async def read(models: OpenReadModels) -> Found:
        listed = await list_sessions(models, limit=limit if as_json else limit or SHOWN)
        overviews = await make_overviews(models.archive, models, listed, openings={})
        if not (overviews or listed.damaged):
            hidden = "All sessions are in the trash; `mnemosyne trash --list` shows them."
            raise NothingRecorded(hidden if await read_trashed(models.archive) else render_emptiness(models.config))
        return listed, overviews

    return with_read_models(log_of(options), read)

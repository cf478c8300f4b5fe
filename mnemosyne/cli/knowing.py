"""What the commands have in common that deal with what is known beyond sessions."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from mnemosyne.adapters.embedding.entry_meaning import EntryMeaning
from mnemosyne.app.knowledge import open_desk
from mnemosyne.app.storage import Storage
from mnemosyne.cli.printing import local_time, print_json, print_table, say
from mnemosyne.cli.reading import log_options, with_log
from mnemosyne.cli.settings import configuration
from mnemosyne.cli.since import start_of
from mnemosyne.domain.knowledge.recalling import PlacedEntry
from mnemosyne.services.knowledge import KnowledgeDesk, WriteMoment, WriteReport, describe_write
from mnemosyne.services.provenance import WordsPlace

F = TypeVar("F", bound=Callable[..., object])
Result = TypeVar("Result")

SCOPES = ("project", "user", "sandbox", "global")


def knowledge_options(command: F) -> F:
    """Give a command the folder whose memory it is about, and the settings that say where the log is."""
    command = click.option(
        "--project",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(),
        metavar="DIR",
        help="A folder of the project.  [default: this one]",
    )(command)
    return log_options()(command)


kind_option = click.option("--kind", metavar="KIND", help="What it tells of, such as decision or tooling.")
scope_option = click.option("--scope", type=click.Choice(SCOPES), help="Where it holds.")


def with_desk(options: dict[str, Any], work: Callable[[KnowledgeDesk, Storage], Awaitable[Result]]) -> Result:
    """Do something with what is known; a log is made where there is none."""
    folder = options.pop("folder")
    config = configuration(options)

    async def run(storage: Storage) -> Result:
        meaning = EntryMeaning(config.data_dir)
        return await work(open_desk(storage, config.tenant, folder, meaning=meaning), storage)

    return with_log(config, run)


def moment() -> WriteMoment:
    """Now, and a new id."""
    return WriteMoment(time.time_ns() // 1000, secrets.token_hex(4))


def parse_time(text: str | None) -> int | None:
    """A time as people write it, in µs of UTC."""
    return None if text is None else start_of(text)


def print_report(done: WriteReport, *, as_json: bool) -> None:
    """Print what a write did, and how it is taken back."""
    if as_json:
        print_json(describe_write(done))
        return
    about = (
        f" {done.entry.id} ({done.scope.value}, {done.entry.kind.value}): {done.entry.content}" if done.entry else ""
    )
    why = f" \N{EM DASH} {done.why}" if done.why else ""
    say(f"{done.what}{about}{why}")
    if done.what not in ("skipped", "undone", "confirmed", "linked", "admitted", "dismissed"):
        say(f"New sessions know it; those under way do not. `mnemosyne memory undo {done.write}` takes it back.")


def print_entries(entries: list[PlacedEntry], nothing: str) -> None:
    """Print entries as a table."""
    if not entries:
        say(nothing)
        return
    rows = [
        (
            each.entry.id,
            each.place.scope.value,
            each.entry.kind.value,
            each.entry.content or "(erased)",
            each.entry.source.value + ("" if each.entry.confidence is None else f" {each.entry.confidence:.2f}"),
            local_time(each.entry.valid_from),
            "" if each.entry.valid_until is None else local_time(each.entry.valid_until),
        )
        for each in entries
    ]
    headers = ("id", "scope", "kind", "what is known", "source", "from", "until")
    print_table(headers, rows, whole=("id",), spare=("source", "scope"))


def print_sources(entries: list[PlacedEntry], places: Mapping[str, WordsPlace | None]) -> None:
    """Print where entries were said, of those whose ids are given."""
    for each in entries:
        source = each.entry.provenance
        if source is not None and each.entry.id in places:
            place = places[each.entry.id]
            where = f", bytes {place.start}-{place.end} of its request" if place is not None else ""
            say(f"{each.entry.id}: turn {source.turn} of {str(source.session)[:8]}, branch {source.branch}{where}")


def describe_place(place: WordsPlace | None) -> dict[str, Any]:
    """Where an entry was said as members of a JSON object; none where that is not known."""
    return {} if place is None else {"words": {"start": place.start, "end": place.end}}

"""Shared code of the commands for saved facts (entries)."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from mnemosyne.adapters.embedding.embedder import EntryMeaning
from mnemosyne.app.knowledge import open_knowledge
from mnemosyne.app.storage import Storage
from mnemosyne.cli.log_access import json_option, start_of, with_log
from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.figures import local_time
from mnemosyne.services.knowledge import KnowledgeService, WriteStamp
from mnemosyne.services.memory_operations import (
    BY_NAME,
    PLACE,
    SOURCE,
    TIME,
    WRITER,
    ApiCall,
    Arguments,
    KnowledgeOperation,
)

F = TypeVar("F", bound=Callable[..., object])
Result = TypeVar("Result")
Json = Mapping[str, Any]


project_option = click.option(
    "--project",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="DIR",
    help="A folder of the project.  [default: this one]",
)


def knowledge_options(command: F) -> F:
    """Add the project folder and the settings that locate the log to a command."""
    return log_options()(project_option(command))


def with_knowledge(options: dict[str, Any], work: Callable[[KnowledgeService, Storage], Awaitable[Result]]) -> Result:
    """Open the log, creating it if missing, and run ``work`` with the knowledge service."""
    folder = options.pop("folder")
    config = configuration(options)

    async def run(storage: Storage) -> Result:
        store, meaning = KnowledgeStore(storage.events, storage.journal), EntryMeaning(config.data_dir)
        return await work(open_knowledge(store, config.tenant, folder, meaning=meaning), storage)

    return with_log(config, run)


def stamp() -> WriteStamp:
    """A stamp with the current time and a new id."""
    return WriteStamp(time.time_ns() // 1000, secrets.token_hex(4))


# Commands that are operations


def call_operation(operation: KnowledgeOperation, options: dict[str, Any], given: Arguments) -> Any:
    """Run an operation. Returns its answer."""
    return with_knowledge(
        options, lambda knowledge, storage: operation.answer(ApiCall(knowledge, storage, given, stamp()))
    )


def does(
    name: str, *arguments: str, part: str | None = None, **renamed: str
) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Turn an operation into a command. Each property of the operation becomes an option of the same name, except those
    in ``renamed`` and the positional ``arguments``: ``name=METAVAR``, in brackets if optional. The decorated function
    prints the answer, or that ``part`` of it; its docstring is the help text.
    """
    operation = BY_NAME[name]
    placed = dict(argument.split("=") for argument in arguments)

    def decorate(show: Callable[[Any], None]) -> Callable[..., None]:
        @wraps(show)
        def command(as_json: bool, **options: Any) -> None:
            given = {name: options.pop(name) for name in operation.properties if name in options}
            answer = call_operation(
                operation, options, {name: value for name, value in given.items() if value not in (None, False)}
            )
            shown = answer if part is None else answer[part]
            if as_json:
                print_json(shown)
            else:
                show(shown)

        made: Callable[..., None] = json_option(knowledge_options(command))
        for key, schema in reversed([*operation.properties.items()]):
            if key not in {*placed, *PLACE, *WRITER, *SOURCE}:
                made = _option(key, renamed.get(key, key), schema, key in operation.required)(made)
        for key, metavar in reversed([*placed.items()]):
            made = click.argument(key, metavar=metavar, required=metavar[0] != "[")(made)
        return made

    return decorate


def _option(name: str, shown: str, schema: Json, required: bool) -> Callable[[F], F]:
    text = schema.get("description")
    option = f"--{shown.replace('_', '-')}"
    if schema["type"] == "boolean":
        return click.option(option, name, is_flag=True, help=text)
    return click.option(option, name, type=_type(schema), required=required, help=text)


def _type(schema: Json) -> click.ParamType[Any]:
    if schema["type"] == "integer":
        return click.IntRange(schema["minimum"], schema["maximum"])
    if schema.get("format") == TIME:
        return Time()
    return click.Choice(schema["enum"]) if "enum" in schema else click.STRING


class Time(click.ParamType[str]):
    """A time as people write it, converted to µs of UTC for the operation."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(start_of(value))


# For people


def print_report(done: Json) -> None:
    """Print the result of a write and how to undo it."""
    entry, why = done["entry"], f" \N{EM DASH} {done['why']}" if done["why"] else ""
    about = f" {entry['id']} ({done['scope']}, {entry['kind']}): {entry['content']}" if entry else ""
    say(f"{done['what']}{about}{why}")
    if done["what"] not in ("skipped", "undone", "confirmed", "linked", "admitted", "dismissed"):
        say(f"It applies to new sessions, not to running ones. `mnemosyne memory undo {done['write']}` reverts it.")


def print_entries(entries: Sequence[Json], nothing: str) -> None:
    """Print entries as a table."""
    if not entries:
        say(nothing)
        return
    rows = [
        (
            entry["id"],
            entry["scope"],
            entry["kind"],
            entry["content"] or "(erased)",
            entry["source"] + ("" if entry["confidence"] is None else f" {entry['confidence']:.2f}"),
            local_time(entry["valid_from"]),
            "" if entry["valid_until"] is None else local_time(entry["valid_until"]),
        )
        for entry in entries
    ]
    headers = ("id", "scope", "kind", "fact", "source", "from", "until")
    print_table(headers, rows, whole=("id",), spare=("source", "scope"))


def print_sources(entries: Sequence[Json]) -> None:
    """Print the turns in which entries were stated."""
    for entry in entries:
        if (source := entry["provenance"]) is not None:
            words = entry.get("words")
            where = "" if words is None else f", bytes {words['start']}-{words['end']} of its request"
            say(f"{entry['id']}: turn {source['turn']} of {source['session'][:8]}, branch {source['branch']}{where}")

"""What the commands have in common that deal with what is known beyond sessions."""

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
from mnemosyne.cli.printing import local_time, print_json, print_table, say
from mnemosyne.cli.reading import json_option, with_log
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.since import start_of
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.services.knowledge import KnowledgeService, WriteStamp
from mnemosyne.services.memory_api import ApiCall, Arguments
from mnemosyne.services.memory_operations import BY_NAME, PLACE, SOURCE, TIME, WRITER, KnowledgeOperation

F = TypeVar("F", bound=Callable[..., object])
Result = TypeVar("Result")
Json = Mapping[str, Any]


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


def with_knowledge(options: dict[str, Any], work: Callable[[KnowledgeService, Storage], Awaitable[Result]]) -> Result:
    """Do something with what is known; a log is made where there is none."""
    folder = options.pop("folder")
    config = configuration(options)

    async def run(storage: Storage) -> Result:
        store, meaning = KnowledgeStore(storage.events, storage.journal), EntryMeaning(config.data_dir)
        return await work(open_knowledge(store, config.tenant, folder, meaning=meaning), storage)

    return with_log(config, run)


def stamp() -> WriteStamp:
    """Now, and a new id."""
    return WriteStamp(time.time_ns() // 1000, secrets.token_hex(4))


# Commands that are operations


def call_operation(operation: KnowledgeOperation, options: dict[str, Any], given: Arguments) -> Any:
    """What an operation answers."""
    return with_knowledge(
        options, lambda knowledge, storage: operation.answer(ApiCall(knowledge, storage, given, stamp()))
    )


def does(
    name: str, *arguments: str, part: str | None = None, **renamed: str
) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Make a command of an operation. Its arguments are options of their names, but those that are ``renamed`` and
    those that stand by their place: ``name=METAVAR``, in brackets if it may be missing. The function shows people what
    the operation answers, or that ``part`` of it; its docstring is the help.
    """
    operation = BY_NAME[name]
    placed = dict(each.split("=") for each in arguments)

    def decorate(show: Callable[[Any], None]) -> Callable[..., None]:
        @wraps(show)
        def command(as_json: bool, **options: Any) -> None:
            told = {each: options.pop(each) for each in operation.properties if each in options}
            answer = call_operation(
                operation, options, {each: value for each, value in told.items() if value not in (None, False)}
            )
            shown = answer if part is None else answer[part]
            if as_json:
                print_json(shown)
            else:
                show(shown)

        made: Callable[..., None] = json_option(knowledge_options(command))
        for each, schema in reversed([*operation.properties.items()]):
            if each not in {*placed, *PLACE, *WRITER, *SOURCE}:
                made = _option(each, renamed.get(each, each), schema, each in operation.required)(made)
        for each, metavar in reversed([*placed.items()]):
            made = click.argument(each, metavar=metavar, required=metavar[0] != "[")(made)
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
    """A time as people write it; an operation takes it in µs of UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(start_of(value))


# For people


def print_report(done: Json) -> None:
    """Print what a write did, and how it is taken back."""
    entry, why = done["entry"], f" \N{EM DASH} {done['why']}" if done["why"] else ""
    about = f" {entry['id']} ({done['scope']}, {entry['kind']}): {entry['content']}" if entry else ""
    say(f"{done['what']}{about}{why}")
    if done["what"] not in ("skipped", "undone", "confirmed", "linked", "admitted", "dismissed"):
        say(f"New sessions know it; those under way do not. `mnemosyne memory undo {done['write']}` takes it back.")


def print_entries(entries: Sequence[Json], nothing: str) -> None:
    """Print entries as a table."""
    if not entries:
        say(nothing)
        return
    rows = [
        (
            each["id"],
            each["scope"],
            each["kind"],
            each["content"] or "(erased)",
            each["source"] + ("" if each["confidence"] is None else f" {each['confidence']:.2f}"),
            local_time(each["valid_from"]),
            "" if each["valid_until"] is None else local_time(each["valid_until"]),
        )
        for each in entries
    ]
    headers = ("id", "scope", "kind", "what is known", "source", "from", "until")
    print_table(headers, rows, whole=("id",), spare=("source", "scope"))


def print_sources(entries: Sequence[Json]) -> None:
    """Print where entries were said."""
    for each in entries:
        if (source := each["provenance"]) is not None:
            words = each.get("words")
            where = "" if words is None else f", bytes {words['start']}-{words['end']} of its request"
            say(f"{each['id']}: turn {source['turn']} of {source['session'][:8]}, branch {source['branch']}{where}")

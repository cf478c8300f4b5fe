"""``mnemosyne remember`` and ``memory``: save, list and change facts (entries)."""

import json
import secrets
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from mnemosyne.adapters.embedding.embedder import EntryMeaning
from mnemosyne.app.knowledge import open_knowledge
from mnemosyne.app.object_index import model_of
from mnemosyne.app.process import now
from mnemosyne.app.storage import Storage
from mnemosyne.cli.config import read_credential
from mnemosyne.cli.forget import clean_files, print_files, quick_option
from mnemosyne.cli.group import Commands
from mnemosyne.cli.log_access import Result, prints, project_option, time_of, with_log
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.data_dir import memory_key, prepare_data_dir
from mnemosyne.domain.knowledge.initial import READ, propose_entries
from mnemosyne.domain.knowledge.kinds import Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.errors import BadEntry, BadOption, NotFound
from mnemosyne.figures import local_time, plural
from mnemosyne.regular_files import LineTooLong, open_regular, read_files, read_lines
from mnemosyne.services.knowledge import KnowledgeService, WriteStamp, describe_write
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
from mnemosyne.services.unstructuring import members
from mnemosyne.terminal import json_text

F = TypeVar("F", bound=Callable[..., object])
Json = Mapping[str, Any]


def knowledge_options(command: F) -> F:
    """Add the project folder and the settings that locate the log to a command."""
    return log_options(of_first_shard=True)(project_option(command))


def with_knowledge(options: dict[str, Any], work: Callable[[KnowledgeService, Storage], Awaitable[Result]]) -> Result:
    """Open the log, creating it if missing, and run ``work`` with the knowledge service."""
    folder = options.pop("folder")
    config = configuration(options)

    async def run(storage: Storage) -> Result:
        store, meaning = KnowledgeStore(storage.events, storage.journal), EntryMeaning(model_of(config))
        return await work(open_knowledge(store, config.tenant, folder, meaning=meaning), storage)

    return with_log(config, run)


def stamp() -> WriteStamp:
    """A stamp with the current time and a new id."""
    return WriteStamp(now(), secrets.token_hex(4))


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
    in ``renamed`` and the positional ``arguments``: ``name=METAVAR``, in brackets if optional; those of the place,
    writer and source only if renamed. The decorated function
    prints the answer, or that ``part`` of it; its docstring is the help text.
    """
    operation = BY_NAME[name]
    placed = dict(argument.split("=") for argument in arguments)

    def decorate(show: Callable[[Any], None]) -> Callable[..., None]:
        @wraps(show)
        def command(**options: Any) -> Any:
            given = {name: options.pop(name) for name in operation.properties if name in options}
            answer = call_operation(
                operation, options, {name: value for name, value in given.items() if value not in (None, False)}
            )
            if part is not None and answer.get("left_out"):
                say(f"{plural(answer['left_out'], 'entry')} more: raise --limit to list them.", err=True)
            return answer if part is None else answer[part]

        made: Callable[..., None] = knowledge_options(prints(lambda shown: shown, show)(command))
        for key, schema in reversed([*operation.properties.items()]):
            if key in renamed or key not in {*placed, *PLACE, *WRITER, *SOURCE}:
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
        return click.IntRange(schema["minimum"], schema.get("maximum"))
    if schema.get("format") == TIME:
        return Time()
    return click.Choice(schema["enum"]) if "enum" in schema else click.STRING


class Time(click.ParamType[str]):
    """A time as people write it, converted to µs of UTC for the operation."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        option = param.opts[0] if param else "time"
        return str(time_of(value, option, is_end=option != "--since"))  # as of a day: its end, as on the page


# For people


def print_report(done: Json) -> None:
    """Print the result of a write and how to undo it."""
    entry, why = done["entry"], f" \N{EM DASH} {done['why']}" if done["why"] else ""
    about = f" {entry['id']} ({done['scope']}, {entry['kind']}): {entry['content']}" if entry else ""
    say(f"{done['what']}{about}{why}")
    if done["what"] == "undone":
        say(f"`mnemosyne memory undo {done['write']}` redoes it.")
    elif done["what"] not in ("skipped", "linked", "admitted", "dismissed"):
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
            entry["source"] + ("" if entry["confirmed"] else ", unconfirmed"),
            local_time(entry["valid_from"]),
            "" if entry["valid_until"] is None else local_time(entry["valid_until"]),
            entry["used"],
        )
        for entry in entries
    ]
    headers = ("id", "scope", "kind", "fact", "source", "from", "until", "sessions get it")
    print_table(headers, rows, whole=("id",), spare=("scope", "kind"))


def print_sources(entries: Sequence[Json]) -> None:
    """Print the turns in which entries were stated."""
    for entry in entries:
        if (source := entry["provenance"]) is not None:
            words = entry.get("words")
            where = (
                "" if source["span"] is None else f", characters {source['span'][0]}-{source['span'][1]} of its prompt"
            )
            where += "" if words is None else f", bytes {words['start']}-{words['end']} of its request"
            say(f"{entry['id']}: turn {source['turn']} of {source['session'][:8]}, branch {source['branch']}{where}")


# The commands


@click.group(cls=Commands)
def memory() -> None:
    """Facts about a project and preferences of its user, which managed sessions get when they begin.

    \b
      mnemosyne remember "The tests run with make test."
      mnemosyne memory list
      mnemosyne memory undo c5b8b709      revert the write of that id

    A changed entry ends, and a new one replaces it. ENTRY is an id, or words that only one entry contains.
    """


@memory.command("list", short_help="List the active entries.")
@does("listMemories", part="entries")
def list_command(entries: Any) -> None:
    """List the entries that are active now, or were active at another time.

    \b
      mnemosyne memory list --as-of 2026-11-21

    An entry has two times: when it is true (--true-at), and when it was recorded (--known-at); --as-of selects by both.
    A time is a date (the end of that day), 2026-11-21T14:00, or 12h, 7d, 2w ago.
    """
    params = click.get_current_context().params
    chosen = any(params[name] for name in ("as_of", "true_at", "known_at", "scope", "kind"))
    nothing = "There are no entries here yet. `mnemosyne remember TEXT` adds one."
    print_entries(entries, "No entry here matches the options." if chosen else nothing)


@memory.command(short_help="Search the entries.")
@does("recall", "query=QUESTION", part="entries")
def recall(entries: Any) -> None:
    """Search the entries, best match first, including unconfirmed ones.

    \b
      mnemosyne memory recall "how are the tests run?"
    """
    print_entries(entries, "No entry here matches.")


@memory.command(short_help="Show earlier versions of entries.")
@does("showMemory", "id=[ID]", part="entries")
def history(entries: Any) -> None:
    """Show all entries, including ended ones, with their times and sources; with an ID, only its earlier and later
    versions. Undone entries are not shown.

    \b
      mnemosyne memory history c5b8b709
    """
    print_entries(entries, "No entry is recorded here.")
    print_sources(entries)


@memory.command(short_help="Change an entry.")
@does("updateMemory", "id=ENTRY", "content=TEXT", valid_from="since")
def update(done: Any) -> None:
    """Change an entry: it ends, and a new one replaces it.

    \b
      mnemosyne memory update c5b8b709 "The tests run with make check."
    """
    print_report(done)


def _print_forget(done: Mapping[str, Any]) -> None:
    if "erased" in done:
        say(f"The text of {plural(done['erased'], 'entry')} was erased.")
        print_files(done["files"])
    else:
        print_report(done)


@memory.command(short_help="End an entry, or erase its text.")
@click.argument("wanted", metavar="ENTRY")
@click.option("--erase", is_flag=True, help="Erase the text of all matching entries from the log permanently.")
@quick_option
@knowledge_options
@prints(lambda done: done, _print_forget)
def forget(wanted: str, erase: bool, quick: bool, **options: Any) -> Mapping[str, Any]:
    """End an entry: it is no longer added to sessions, but stays in the log.

    \b
      mnemosyne memory forget c5b8b709
      mnemosyne memory forget "Jane Doe" --erase

    With --erase, the text of every entry that contains ENTRY is erased permanently, also of entries that ended.
    Sessions that contain the text keep it; use `mnemosyne forget` for those.
    """

    async def erase_words(knowledge: KnowledgeService, storage: Storage) -> Mapping[str, Any]:
        count = await knowledge.erase(wanted, stamp())
        return {"erased": count, "files": "kept" if quick else await clean_files(storage)}

    if erase:
        return with_knowledge(options, erase_words)
    done: Mapping[str, Any] = call_operation(BY_NAME["forgetMemory"], options, {"id": wanted})
    return done


@memory.command(short_help="Confirm that an entry is true.")
@does("confirmMemory", "id=ENTRY")
def confirm(done: Any) -> None:
    """Confirm that an entry is true. New sessions get an entry that was learned from a prompt only after you confirm it
    or type it again in another session, and for three months after that.

    \b
      mnemosyne memory confirm c5b8b709
    """
    print_report(done)


@memory.command(short_help="Link two entries.")
@does("linkMemories", "id=ENTRY", "other=OTHER")
def link(done: Any) -> None:
    """Link two entries of the same scope, such as a constraint and its reason.

    \b
      mnemosyne memory link c5b8b709 0a1b2c3d
    """
    print_report(done)


@memory.command(short_help="Undo a write.")
@does("undoWrite", "write=[WRITE]")
def undo(done: Any) -> None:
    """Undo a write, except an erasure; without an id, the last one. Undoing an undo redoes the write.

    \b
      mnemosyne memory undo c5b8b709
    """
    print_report(done)


@memory.command(short_help="Preview the entries that a new session gets.")
@does("showBlock", "prompt=[PROMPT]")
def preview(answer: Any) -> None:
    """Show the text that a new managed session would get if it began with PROMPT.

    \b
      mnemosyne memory preview "Fix the date parser"
    """
    say(answer["text"] or "Nothing: no active entry here would be added to a session.")


def _print_initial(shown: Sequence[Json]) -> None:
    for each in shown:
        if "content" in each:
            say(f"{each['kind']}: {each['content']}")
        else:
            print_report(each)
    if any("content" in each for each in shown):
        say("`mnemosyne memory init --yes` saves these entries.")


@memory.command(short_help="Propose entries from the project's own files.")
@click.option("--yes", is_flag=True, help="Save the proposed entries.")
@knowledge_options
@prints(lambda shown: shown, _print_initial)
def init(yes: bool, **options: Any) -> Sequence[Json]:
    """Read the README and the manifests in the project's folder, and propose entries: its purpose, its technology, its
    commands. Nothing is saved without --yes; existing entries are not changed.

    \b
      mnemosyne memory init --yes
    """
    proposed = propose_entries(read_files(Path(options["folder"]), READ, longest=200_000))
    if not proposed:
        raise NotFound(f"No entries can be proposed: none of {', '.join(READ)} in this folder describes the project.")
    if not yes:
        return [{"kind": entry.kind.value, "content": entry.content} for entry in proposed]

    async def work(knowledge: KnowledgeService, _storage: Storage) -> Any:
        return [await knowledge.remember(Scope.PROJECT, entry, stamp()) for entry in proposed]

    return [describe_write(write, now()) for write in with_knowledge(options, work)]


def _print_admission(done: Any) -> None:
    if isinstance(done, Mapping):
        print_report(done)
        if "fingerprint" in done:
            say(f"Its fingerprint is {done['fingerprint']}.")
    elif done:
        rows = [(key["fingerprint"], key["how"], local_time(key["at"])) for key in done]
        print_table(("fingerprint", "how", "since"), rows, whole=("fingerprint",))
    else:
        say("No credential is admitted.")


@memory.command(short_help="Grant a credential access to your memory.")
@click.option("--variable", metavar="NAME", help="Read the credential from this environment variable.")
@click.option("--list", "listed", is_flag=True, help="List the admitted credentials.")
@click.option("--remove", metavar="FINGERPRINT", help="Revoke this one.")
@log_options(of_first_shard=True)
@prints(lambda done: done, _print_admission)
def admit(variable: str | None, listed: bool, remove: str | None, **options: Any) -> Any:
    """Allow requests with a credential to read your memory and add to it.

    \b
      mnemosyne memory admit --variable ANTHROPIC_API_KEY
      mnemosyne memory admit --list

    You need this only for clients that neither `mnemosyne run` nor a plugin starts. The credential is the value that
    the client sends as `x-api-key`, or after `Bearer`. It is read from standard input and not stored: the log contains
    a keyed fingerprint.
    """
    if sum((variable is not None, listed, remove is not None)) > 1:
        raise click.UsageError("--variable, --list and --remove are mutually exclusive.")
    place = {**options, "folder": Path()}
    if listed:
        admitted = with_knowledge(place, lambda knowledge, _: knowledge.list_admitted())
        return [members(key, "fingerprint how at") for key in admitted]
    if remove is not None:
        return describe_write(with_knowledge(place, lambda knowledge, _: knowledge.dismiss(remove, stamp())), now())
    data_dir = configuration(options).data_dir
    prepare_data_dir(data_dir)
    fingerprint = memory_key(data_dir).fingerprint(read_credential(variable))
    done = with_knowledge(place, lambda knowledge, _: knowledge.admit(fingerprint, stamp()))
    return {**describe_write(done, now()), "fingerprint": fingerprint}


@memory.command("export", short_help="Write the entries to a file.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), default="-")
@knowledge_options
def export_command(file: Path, **options: Any) -> None:
    """Write every entry that is visible here as a line of JSON; without FILE, to standard output.

    \b
      mnemosyne memory export facts.jsonl
    """

    async def work(knowledge: KnowledgeService, _storage: Storage) -> list[str]:
        return [json_text(entry) async for entry in knowledge.export(now())]

    lines = with_knowledge(options, work)
    if str(file) == "-":
        for line in lines:
            say(line)
        return
    write_private(file, "".join(f"{line}\n" for line in lines))
    say(f"{plural(len(lines), 'entry')} written to {file}.")


def _print_counts(counts: Mapping[str, int]) -> None:
    say(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "The file has no entries.")


@memory.command("import", short_help="Read entries from a file.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@knowledge_options
@prints(dict, _print_counts)
def import_command(file: Path, **options: Any) -> Mapping[str, int]:
    """Import the entries of a file that `mnemosyne memory export` wrote, skipping existing ones; `-` is standard input.

    \b
      mnemosyne memory import facts.jsonl
    """
    lines = list(_read_objects(file))
    return with_knowledge(options, lambda knowledge, _: knowledge.import_lines(lines, stamp()))


_LONGEST_LINE = 1024 * 1024
"""Bytes; far more than the longest entry."""


def _read_objects(file: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects in a file, or in standard input for ``-``, one on each line. Raises BadEntry, BadOption."""
    try:
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else open_regular(file) as opened:
            for number, line in enumerate(read_lines(opened, _LONGEST_LINE), start=1):
                try:
                    read = json.loads(line)
                except (ValueError, RecursionError):
                    read = None
                if not isinstance(read, dict):
                    raise BadEntry(f"Line {number} of {file} is not a JSON object. Nothing was imported.")
                yield read
    except LineTooLong as error:
        raise BadEntry(f"{file}: {error}. Nothing was imported.") from None
    except OSError as error:
        raise BadOption(f"{file} cannot be read: {error.strerror or error}.") from None


@click.command()
@does("addMemory", "content=[TEXT]", valid_from="since", session="session", turn="turn")
def remember(done: Any) -> None:
    """Save a fact, in one sentence, for future sessions of this project; managed sessions get it when they begin.

    \b
      mnemosyne remember "The tests run with make test."
      mnemosyne remember --scope user --kind response-style "Be brief."
      mnemosyne remember --session 319a --turn 7      keep that reply as a note

    Without TEXT, it keeps the reply of --turn in --session. With --scope user, preferences apply to all your projects.
    Keys, and text between <private> and </private>, are not saved.
    """
    print_report(done)

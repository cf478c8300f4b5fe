"""``mnemosyne memory``: what is known beyond sessions, and what becomes of it."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from mnemosyne.app.storage import Storage
from mnemosyne.cli.config import read_credential
from mnemosyne.cli.forget import clean_files, print_files, quick_option
from mnemosyne.cli.group import Commands
from mnemosyne.cli.knowing import (
    call_operation,
    does,
    knowledge_options,
    print_entries,
    print_report,
    print_sources,
    stamp,
    with_knowledge,
)
from mnemosyne.cli.printing import local_time, print_json, print_table, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.reading import json_option
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.data_dir import memory_key, prepare_data_dir
from mnemosyne.domain.knowledge.initial import READ, propose_entries
from mnemosyne.domain.knowledge.kinds import Scope
from mnemosyne.errors import BadEntry, BadOption, NotFound
from mnemosyne.figures import plural
from mnemosyne.regular_files import LineTooLong, open_regular, read_files, read_lines
from mnemosyne.services.knowledge import KnowledgeService, describe_write
from mnemosyne.services.memory_operations import BY_NAME
from mnemosyne.terminal import json_text


@click.group(cls=Commands)
def memory() -> None:
    """What is known of a project, and what its user prefers: told to managed sessions as they begin.

    Entries come from `mnemosyne remember`, from agents' tools, and from what you settle in a session. None is ever
    overwritten: one that changes ends, and another takes its place. ENTRY is an id, or words that one entry alone has.

    \b
      mnemosyne remember "The tests run with make test."
      mnemosyne memory list
      mnemosyne memory undo c5b8b709      what the write of that id did
    """


@memory.command("list", short_help="List what holds.")
@does("listMemories", part="entries")
def list_command(entries: Any) -> None:
    """List what is known here: the entries that hold now, or held at another time.

    Two times belong to an entry: when it is true, and when we knew it. `--true-at` asks for the first with what is
    known today, `--known-at` for what we would have said then, `--as-of` for both together. A time is a date, or 12h,
    7d, 2w ago.
    """
    print_entries(entries, "Nothing is known here yet. `mnemosyne remember TEXT` begins it.")


@memory.command(short_help="Find what is known by a question.")
@does("recall", "query=QUESTION", part="entries")
def recall(entries: Any) -> None:
    """Find what is known by a question, the best first; also what is believed too little to be told unasked."""
    print_entries(entries, "Nothing known here has these words.")


@memory.command(short_help="Show what an entry said before.")
@does("showMemory", "id=[ID]", part="entries")
def history(entries: Any) -> None:
    """Show every entry that ever was, with the times at which each was true, and where each was said; with an ID, what
    came before and after.
    """
    print_entries(entries, "Nothing was ever known here.")
    print_sources(entries)


@memory.command(short_help="Have an entry say something else.")
@does("updateMemory", "id=ENTRY", "content=TEXT", valid_from="since")
def update(done: Any) -> None:
    """Have an entry say something else: it ends, and another one takes its place."""
    print_report(done)


@memory.command(short_help="End an entry, or erase its words.")
@click.argument("wanted", metavar="ENTRY")
@click.option("--erase", is_flag=True, help="Take the words of every entry that has them out of the log, for good.")
@quick_option
@knowledge_options
@json_option
def forget(wanted: str, erase: bool, quick: bool, as_json: bool, **options: Any) -> None:
    """End an entry: no session is told it any more, and it stays on record.

    With `--erase`, ENTRY may be words, such as a name: every entry that has them loses all its words, also those that
    held once. That cannot be undone. Then the tables that held words are written anew, as `mnemosyne forget` does.
    Sessions that were told it keep what they were told: `mnemosyne forget` is for those.
    """

    async def erase_words(knowledge: KnowledgeService, storage: Storage) -> tuple[int, str]:
        count = await knowledge.erase(wanted, stamp())
        return count, "kept" if quick else await clean_files(storage)

    if erase:
        count, files = with_knowledge(options, erase_words)
        if as_json:
            print_json({"erased": count, "files": files})
        else:
            say(f"The words of {plural(count, 'entry')} are gone.")
            print_files(files)
        return
    done = call_operation(BY_NAME["forgetMemory"], options, {"id": wanted})
    if as_json:
        print_json(done)
    else:
        print_report(done)


@memory.command(short_help="Say that an entry is still true.")
@does("confirmMemory", "id=ENTRY")
def confirm(done: Any) -> None:
    """Say that an entry is still true. What we found ourselves is believed less and less until somebody does."""
    print_report(done)


@memory.command(short_help="Say that two entries belong together.")
@does("linkMemories", "id=ENTRY", "other=OTHER")
def link(done: Any) -> None:
    """Say that two entries of one scope belong together, such as a constraint and what it comes from."""
    print_report(done)


@memory.command(short_help="Take a write back.")
@does("undoWrite", "write=[WRITE]")
def undo(done: Any) -> None:
    """Take a write back, whatever it was but an erasure; without its id, the last one."""
    print_report(done)


@memory.command(short_help="Show what the next session is told.")
@does("showBlock", "prompt=[PROMPT]")
def block(found: Any) -> None:
    """Show what a managed session would be told that begins now with PROMPT: what you prefer, what the project is, and
    what has to do with the prompt.
    """
    say(found["text"] or "Nothing: no entry holds here that a session would be told unasked.")


@memory.command(short_help="Propose what the project says of itself.")
@click.option("--yes", is_flag=True, help="Remember what is proposed.")
@knowledge_options
@json_option
def init(yes: bool, as_json: bool, **options: Any) -> None:
    """Read the README and the manifests of the project's folder, and show what would be remembered of them: what it is,
    what it is made with, what is run. Nothing is written without --yes, and what is known already is left as it is.
    """
    proposed = propose_entries(read_files(Path(options["folder"]), READ, longest=200_000))
    if not proposed:
        raise NotFound(f"Nothing in this folder says what it is; {', '.join(READ)} are read.")
    if not yes:
        if as_json:
            print_json([{"kind": each.kind.value, "content": each.content} for each in proposed])
            return
        for each in proposed:
            say(f"{each.kind.value}: {each.content}")
        say("`mnemosyne memory init --yes` remembers it.")
        return

    async def work(knowledge: KnowledgeService, _storage: Storage) -> Any:
        return [await knowledge.remember(Scope.PROJECT, each, stamp()) for each in proposed]

    done = [describe_write(each) for each in with_knowledge(options, work)]
    if as_json:
        print_json(done)
        return
    for write in done:
        print_report(write)


@memory.command(short_help="Count a credential as yours.")
@click.option("--variable", metavar="NAME", help="Read the credential from this environment variable.")
@click.option("--list", "listed", is_flag=True, help="Show which credentials count.")
@click.option("--remove", metavar="FINGERPRINT", help="Count this one no longer.")
@log_options()
@json_option
def admit(variable: str | None, listed: bool, remove: str | None, as_json: bool, **options: Any) -> None:
    """Let requests with a credential read your memory and add to it. Requests with any other are served, and have no
    part in it.

    You need this only for clients that `mnemosyne run` and the plugins do not start, and after their key has changed.
    The credential is what the client sends as `x-api-key`, or in `authorization` behind `Bearer`. It is read from
    standard input, without echo at a terminal, and kept nowhere: a keyed fingerprint stands for it.

    \b
      mnemosyne memory admit --variable ANTHROPIC_API_KEY
      mnemosyne memory admit --list
    """
    if sum((variable is not None, listed, remove is not None)) > 1:
        raise click.UsageError("--variable, --list and --remove exclude each other.")
    place = {**options, "folder": Path()}
    if listed:
        admitted = with_knowledge(place, lambda knowledge, _: knowledge.list_admitted())
        if as_json:
            print_json([{"fingerprint": each.fingerprint, "how": each.how.value, "at": each.at} for each in admitted])
        elif admitted:
            rows = [(each.fingerprint, each.how.value, local_time(each.at)) for each in admitted]
            print_table(("fingerprint", "how", "since"), rows, whole=("fingerprint",))
        else:
            say("No credential is admitted.")
        return
    if remove is not None:
        done = with_knowledge(place, lambda knowledge, _: knowledge.dismiss(remove, stamp()))
    else:
        data_dir = configuration(options).data_dir
        prepare_data_dir(data_dir)
        fingerprint = memory_key(data_dir).fingerprint(read_credential(variable))
        done = with_knowledge(place, lambda knowledge, _: knowledge.admit(fingerprint, stamp()))
    if as_json:
        print_json(describe_write(done))
        return
    print_report(describe_write(done))
    if remove is None:
        say(f"Its fingerprint is {fingerprint}.")


@memory.command("export", short_help="Write what is known to a file.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), default="-")
@knowledge_options
def export_command(file: Path, **options: Any) -> None:
    """Write every entry that is seen from here as a line of JSON, with its times; without FILE, to the terminal."""

    async def work(knowledge: KnowledgeService, _storage: Storage) -> list[str]:
        return [json_text(each) async for each in knowledge.export()]

    lines = with_knowledge(options, work)
    if str(file) == "-":
        for line in lines:
            say(line)
        return
    write_private(file, "".join(f"{line}\n" for line in lines))
    say(f"{plural(len(lines), 'entry')} written to {file}.")


@memory.command("import", short_help="Read what is known from a file.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@knowledge_options
@json_option
def import_command(file: Path, as_json: bool, **options: Any) -> None:
    """Take in the lines that `mnemosyne memory export` wrote, into this project; what is known already is skipped. With
    `-` they are read from standard input.
    """
    lines = list(_read_objects(file))
    counts = with_knowledge(options, lambda knowledge, _: knowledge.import_lines(lines, stamp()))
    if as_json:
        print_json(dict(counts))
        return
    say(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "There was nothing to take in.")


_LONGEST_LINE = 1024 * 1024
"""Bytes: far more than the longest entry has."""


def _read_objects(file: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one on each line; of standard input for ``-``. Raises BadEntry, BadOption."""
    try:
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else open_regular(file) as opened:
            for number, line in enumerate(read_lines(opened, _LONGEST_LINE), start=1):
                try:
                    read = json.loads(line)
                except (ValueError, RecursionError):
                    read = None
                if not isinstance(read, dict):
                    raise BadEntry(f"Line {number} of {file} is no JSON object. Nothing was taken in.")
                yield read
    except LineTooLong as error:
        raise BadEntry(f"{file}: {error}. Nothing was taken in.") from None
    except OSError as error:
        raise BadOption(f"{file} cannot be read: {error.strerror or error}.") from None


@click.command()
@does("addMemory", "content=TEXT", valid_from="since")
def remember(done: Any) -> None:
    """Have the next sessions of this project know something, in a sentence; managed ones are told as they begin.

    Kinds of preference (profile, response-style, code-style, tooling, workflow, constraint) hold in all your projects
    with `--scope user`. `mnemosyne memory` lists, changes and forgets what is known. Keys and what stands between
    <private> and </private> are not kept.
    """
    print_report(done)

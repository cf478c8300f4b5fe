"""``mnemosyne trash``: hide sessions and memory entries until they are restored or erased."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mnemosyne.cli.log_access import log_of, prints
from mnemosyne.cli.memory import call_operation
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import local_time, printable
from mnemosyne.services.memory_operations import BY_NAME


def _print(answer: Mapping[str, Any]) -> None:
    if "trash" in answer:
        _print_list(answer["trash"])
        return
    name = f"{answer['kind']} {answer['id']}"
    if answer["what"] == "restored":
        say(f"{name}: restored")
        return
    until, undo = local_time(answer["until"]), f"mnemosyne trash --restore {answer['id']}"
    say(f"{name}: in the trash until {until}; `{undo}` restores it")


def _print_list(found: Sequence[Mapping[str, Any]]) -> None:
    if not found:
        say("The trash is empty.", err=True)
        return
    rows = [
        (each["id"], each["kind"], printable(each["text"] or "-"), local_time(each["at"]), local_time(each["until"]))
        for each in found
    ]
    print_table(("ID", "KIND", "TEXT", "SINCE", "ERASED AFTER"), rows, whole=("ID",), spare=("TEXT",))


@click.command()
@click.argument("what", metavar="SESSION|ENTRY", required=False)
@click.option("--list", "lists", is_flag=True, help="List what is in the trash.")
@click.option("--restore", is_flag=True, help="Restore it from the trash.")
@log_options()
@prints(lambda answer: answer, _print)
def trash(what: str | None, lists: bool, restore: bool, **options: Any) -> Mapping[str, Any]:
    """Move a session, or the memory entry with this id, to the trash: lists, searches and new sessions no longer
    show it.

    \b
      mnemosyne trash 319a
      mnemosyne trash --list
      mnemosyne trash 319a --restore

    After 30 days a server, or `mnemosyne retain`, erases it. A session that its client continues leaves the trash.
    `mnemosyne forget` erases at once.
    """
    if (what is None) is not lists or (lists and restore):
        raise click.UsageError("Give a SESSION or ENTRY, or --list without either.")
    log_of(dict(options))
    name = "listTrash" if what is None else "restoreFromTrash" if restore else "putIntoTrash"
    done: Mapping[str, Any] = call_operation(
        BY_NAME[name], {**options, "folder": Path()}, {} if what is None else {"id": what}
    )
    return done

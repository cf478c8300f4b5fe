"""``mnemosyne rename``, ``close``, ``undo``, ``trash``, ``pin`` and ``unpin``: a person's changes to a session."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from mnemosyne.cli.log_access import log_of, prints, session_argument
from mnemosyne.cli.memory import call_operation
from mnemosyne.cli.objects import session_option
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import local_time, printable
from mnemosyne.services.memory_operations import BY_NAME, LARGEST

Json = Mapping[str, Any]


def _edit(name: str, options: dict[str, Any], **given: Any) -> Json:
    """Run an API operation on an existing log, with the ``given`` arguments and the options of the same names. Return
    its answer.
    """
    operation = BY_NAME[name]
    given |= {key: options.pop(key) for key in operation.properties if key in options}
    log_of(dict(options))
    done: Json = call_operation(
        operation, {**options, "folder": Path()}, {key: value for key, value in given.items() if value is not None}
    )
    return done


# A session


def _print_session(answer: Json) -> None:
    is_undone = click.get_current_context().params.get("undo")
    unchanged = {None: "nothing to change", False: "closed already", True: "not closed"}[is_undone]
    say(f"session {answer['id']}: {unchanged if answer['what'] == 'unchanged' else answer['what']}")


@click.command()
@session_argument
@click.argument("title")
@log_options()
@prints(dict, _print_session)
def rename(session: str, title: str, **options: Any) -> Json:
    """Name a session in lists and on pages; an empty TITLE restores the automatic name.

    \b
      mnemosyne rename 319a "Tariffs of the invoices"
      mnemosyne rename 319a ""
    """
    return _edit("editSession", options, id=session, title=title)


@click.command()
@session_argument
@click.option("--undo", is_flag=True, help="Reopen the session.")
@log_options()
@prints(dict, _print_session)
def close(session: str, undo: bool, **options: Any) -> Json:
    """Close a session: its status becomes completed, or abandoned if its last prompt is unfinished. Its next turn opens
    it again. A session that is not closed ends after a day without a turn. If a server with a helper model is running,
    it summarizes the session at once for the next session.

    \b
      mnemosyne close 319a
    """
    return _edit("editSession", options, id=session, closed=not undo)


@click.command()
@session_argument
@log_options()
@prints(dict, _print_session)
def undo(session: str, **options: Any) -> Json:
    """Undo the last change of a session: its name, closing, grounding, managing on or off, or a pin. Run it again to
    redo the change. `mnemosyne memory undo` undoes changes of saved facts.

    \b
      mnemosyne undo 319a
    """
    return _edit("undoSession", options, id=session)


# The trash


def _print_trash(answer: Json) -> None:
    if "trash" not in answer:
        name = f"{answer['kind']} {answer['id']}"
        until, undo = local_time(answer["until"]), f"mnemosyne trash --restore {answer['id']}"
        kept = f"in the trash until {until}; `{undo}` restores it"
        say(f"{name}: {'restored' if answer['what'] == 'restored' else kept}")
    elif not answer["trash"]:
        say("The trash is empty.", err=True)
    else:
        rows = [
            (each["id"], each["kind"], printable(each["text"] or "-"), *map(local_time, (each["at"], each["until"])))
            for each in answer["trash"]
        ]
        print_table(("ID", "KIND", "TEXT", "SINCE", "ERASED AFTER"), rows, whole=("ID",), spare=("TEXT",))


@click.command()
@click.argument("what", metavar="SESSION|ENTRY", required=False)
@click.option("--list", "lists", is_flag=True, help="List what is in the trash.")
@click.option("--restore", is_flag=True, help="Restore it from the trash.")
@log_options()
@prints(dict, _print_trash)
def trash(what: str | None, lists: bool, restore: bool, **options: Any) -> Json:
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
    name = "listTrash" if what is None else "restoreFromTrash" if restore else "putIntoTrash"
    return _edit(name, options, id=what)


# Pins


def _changes_pin(past: str, state: str) -> Callable[[Callable[..., Json]], click.Command]:
    """Make a command for an object's pin; ``state`` is the sentence about its result."""

    def show(answer: Json) -> None:
        say(f"{answer['id']} {state}{' (no change)' if answer['what'] == 'unchanged' else ''}.")

    reason = click.option("--reason", default=f"{past} by hand", show_default=True, metavar="TEXT", help="The reason.")

    def decorate(command: Callable[..., Json]) -> click.Command:
        made = log_options()(prints(dict, show)(command))
        return click.command()(click.argument("id", metavar="ID")(session_option(reason(made))))

    return decorate


_branch_option = click.option(
    "--branch", metavar="NAME", help="Only in this branch and its later forks.  [default: in every one]"
)


@_changes_pin("pinned", "is pinned")
@click.option(
    "--turns", type=click.IntRange(1, LARGEST), metavar="N", help="Pin for N turns.  [default: until unpinned]"
)
@_branch_option
def pin(**options: Any) -> Json:
    """Pin an object: it keeps its fidelity, however full the context is, until `mnemosyne unpin`.

    \b
      mnemosyne pin 5ft4gvt --reason "the plan" --turns 20

    --turns counts from the last turn of the object's branch. Pinning again replaces the pin. Pins may take at most half
    of the window; beyond that, unpin others first. Pins stay when the window becomes smaller.
    """
    return _edit("pinObject", options)


@_changes_pin("unpinned", "is not pinned")
@_branch_option
def unpin(**options: Any) -> Json:
    """Unpin an object that `mnemosyne pin` pinned.

    \b
      mnemosyne unpin 5ft4gvt
    """
    return _edit("unpinObject", options)

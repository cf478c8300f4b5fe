"""``mnemosyne diff``: changes between two turns."""

import json
from typing import Any

import click

from mnemosyne.cli.context import block_as_json
from mnemosyne.cli.log_access import branch_option, json_option, log_of, session_argument, with_log
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.history.context_view import Comparison, ContextBlock, ContextChange
from mnemosyne.figures import plural
from mnemosyne.services.contexts import compare_turns

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@click.command()
@session_argument
@branch_option
@click.option(
    "--turn", "turns", nargs=2, required=True, metavar="A B", help="Two turns or checkpoints, as for `context`."
)
@log_options()
@json_option
def diff(session: str, branch: str, turns: tuple[str, str], as_json: bool, **options: object) -> None:
    """Show which blocks and settings were added, removed or changed from turn A to turn B.

    \b
      mnemosyne diff 319a --turn 12 14

    Blocks are compared by their meaning to the model: moving a cache marker is not a change.
    """
    found = with_log(log_of(options), lambda storage: compare_turns(storage, session, branch, turns))
    if as_json:
        print_json(_as_json(found))
    else:
        _print(found)


def _print(found: Comparison) -> None:
    for change in found.changes:
        sign, colour = _SIGNS[change.what]
        say(f"{sign} {_line(change)}", fg=colour)
    for key, (before, after) in found.settings.items():
        say(f"~ {key}: {_render(before)} -> {_render(after)}", fg="yellow")
    counts = {what: sum(change.what == what for change in found.changes) for what in _SIGNS}
    say(f"{plural(found.same, 'block')} the same, " + ", ".join(f"{n} {what}" for what, n in counts.items()))


def _line(change: ContextChange) -> str:
    block = change.after or change.before
    assert block is not None
    size = f"{block.size} bytes"
    if change.before is not None and change.after is not None:
        size = f"{change.before.size} -> {change.after.size} bytes"
    return f"{_where(block)}, {size}: {block.preview}".rstrip(": ")


def _where(block: ContextBlock) -> str:
    place = block.section if block.message is None else f"message {block.message}"
    return " ".join(filter(None, (place, block.role, block.kind, block.name)))


def _render(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}\N{HORIZONTAL ELLIPSIS}"


def _as_json(found: Comparison) -> dict[str, Any]:
    return {
        "same": found.same,
        "changes": [
            {
                "what": change.what,
                "before": block_as_json(change.before) if change.before is not None else None,
                "after": block_as_json(change.after) if change.after is not None else None,
            }
            for change in found.changes
        ],
        "settings": {key: {"before": before, "after": after} for key, (before, after) in found.settings.items()},
    }

"""``mnemosyne context`` and ``diff``: the content of a context window at a turn, and the changes between two turns."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from mnemosyne.cli.branches import address_of
from mnemosyne.cli.log_access import branch_option, json_option, log_of, prints, session_argument, with_log
from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.history.context_view import Comparison, ContextBlock, ContextChange
from mnemosyne.domain.session.round_events import FallbackSent
from mnemosyne.errors import LogFailed
from mnemosyne.figures import bytes_text, count_text, iso_time, local_time, percent_text, plural, printable
from mnemosyne.services.contexts import Rebuilt, SessionContext, compare_turns, read_context, rebuild_turn
from mnemosyne.services.unstructuring import members

if TYPE_CHECKING:
    from mnemosyne.domain.history.window_contents import WindowContents


@click.command()
@session_argument
@branch_option
@click.option(
    "--turn", metavar="TURN[.ATTEMPT][/ROUND]", help="Which turn, or checkpoint.  [default: the last; its last attempt]"
)
@click.option("--raw", is_flag=True, help="Write only the body, byte for byte.")
@click.option(
    "--manifest", is_flag=True, help="Print what the model could see as JSON: each object with its fidelity and place."
)
@click.option(
    "--by-kind", is_flag=True, help="Show what fills the window instead: tokens by kind, and the largest items."
)
@log_options()
@json_option
def context(
    session: str,
    branch: str,
    turn: str | None,
    raw: bool,
    manifest: bool,
    by_kind: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Show the context at a turn: each block with its size, its estimated tokens and the turn that added it; then the
    reply.

    \b
      mnemosyne context 319a --turn 12      the client's request
      mnemosyne context 319a --turn 12/1    what the proxy sent for it
      mnemosyne context 319a --raw > body.json

    The body is rebuilt from the log and proven by its SHA-256. Credentials are never stored: each of their bytes is
    shown as `*`, or as `1` in a number.
    """
    if (manifest or by_kind) and raw:
        raise click.UsageError("--manifest and --by-kind cannot be combined with --raw.")
    config = log_of(options)
    if by_kind:
        from mnemosyne.services.manifests import contents_as_json, read_contents

        contents = with_log(config, lambda storage: read_contents(storage, session, branch, turn))
        if as_json:
            print_json(contents_as_json(contents))
        else:
            print_kinds(contents, LARGEST)
        return
    if manifest:
        from mnemosyne.services.manifests import manifest_as_json, read_manifest

        print_json(manifest_as_json(with_log(config, lambda storage: read_manifest(storage, session, branch, turn))))
        return
    if raw:
        _write(with_log(config, lambda storage: rebuild_turn(storage, session, branch, turn)))
        return
    found = with_log(config, lambda storage: read_context(storage, session, branch, turn))
    if as_json:
        print_json(_as_json(found))
    else:
        _print(found)


LARGEST = 20
"""Number of items listed with ``--by-kind``."""


def print_kinds(contents: "WindowContents", most: int = 0) -> None:
    """Print what fills the window: its tokens by kind, and its ``most`` largest items."""
    from mnemosyne.domain.history.window_contents import KIND_NAMES

    of_window = (
        f", {percent_text(contents.share)} of {count_text(contents.window)} usable tokens" if contents.share else ""
    )
    how = "counted by the provider" if contents.is_counted else "estimated"
    say(f"{contents.branch} {contents.turn}: {count_text(contents.tokens)} tokens, {how}{of_window}", bold=True)
    kinds = [(KIND_NAMES[each.kind], each.tokens) for each in contents.kinds]
    _print_shares("KIND", kinds, contents.tokens)
    items = [(f"{KIND_NAMES[kind]}: {printable(each.label)}", each.tokens) for kind, each in contents.largest[:most]]
    if items:
        say()
        _print_shares("ITEM", items, contents.tokens)


def _print_shares(title: str, rows: Sequence[tuple[str, int]], whole: int) -> None:
    table = [(count_text(tokens), percent_text(tokens / (whole or 1)), name) for name, tokens in rows]
    print_table(("TOKENS", "SHARE", title), table, right="TOKENS SHARE")


def _write(rebuilt: Rebuilt) -> None:
    if not rebuilt.proven:
        raise LogFailed(
            f"Nothing was written, because the rebuilt body differs from the recorded one: {rebuilt.difference}."
        )
    stdout = sys.stdout.buffer
    stdout.write(rebuilt.body)
    stdout.flush()


def _print(found: SessionContext) -> None:
    attempt = found.rebuilt.attempt
    began = attempt.began
    at = local_time(attempt.sent.at)
    say(f"{began.branch} {address_of(attempt)}: {began.model or 'no model'}, {at}", bold=True)
    if found.goal is not None:
        say(f"Goal, according to a helper model: {found.goal}")
    for sentence in _asides(found):
        say(sentence, fg="yellow")
    if found.view.opaque is not None:
        say(f"Cannot be parsed as a conversation: {found.view.opaque}. `--raw` writes its {found.view.size} bytes.")
    else:
        _print_blocks(found.view.blocks)
    tokens = plural(sum(block.tokens or 0 for block in found.view.blocks), "token")
    proof = "proven" if found.rebuilt.proven else found.rebuilt.difference
    say(
        f"{plural(len(found.view.blocks), 'block')}, {bytes_text(found.view.size)}, about {tokens}, "
        f"sha256 {attempt.sent.sha256.hex()[:16]} {proof}"
    )
    say()
    _print_reply(found)


def _asides(found: SessionContext) -> Iterator[str]:
    """Sentences about unrecorded turns before this one, and about a request that the proxy replaced."""
    attempt = found.rebuilt.attempt
    for gap in found.gaps:
        turns = plural(gap.turns, "turn")
        yield f"Before this turn, {turns} went unrecorded since {local_time(gap.since)}: {gap.reason}"
    if attempt.was_replaced:
        address = address_of(attempt)
        rounds = f" in {plural(len(attempt.rounds), 'round')}" if len(attempt.rounds) > 1 else ""
        first = attempt.rounds[0].began
        why = f", because {first.why}" if isinstance(first, FallbackSent) else ""
        yield f"This is the client's request. The proxy sent another one{rounds}{why}: `--turn {address}/1` shows it."


_HEADERS = ("#", "WHERE", "ROLE", "KIND", "NAME", "BYTES", "TOKENS", "FROM", "CACHE", "BEGINS")


def _print_blocks(blocks: Sequence[ContextBlock]) -> None:
    rows = [_row(index, block) for index, block in enumerate(blocks)]
    print_table(_HEADERS, rows, right="# BYTES TOKENS", spare="CACHE NAME")


def _row(index: int, block: ContextBlock) -> tuple[str, ...]:
    return (
        str(index),
        block.section if block.message is None else f"message {block.message}",
        block.role or "-",
        block.kind,
        block.name or block.tool_id or "-",
        str(block.size),
        "?" if block.tokens is None else str(block.tokens),
        "reply" if block.origin is None else f"turn {block.origin}",
        block.marker or "-",
        block.preview,
    )


def _print_reply(found: SessionContext) -> None:
    attempt = found.rebuilt.attempt
    ended = attempt.reply_event
    if ended is None:
        which = "turn" if attempt.round is None else "round"
        say(f"This {which} has no recorded end: it is in progress, was interrupted, or its server was killed.")
        return
    how = getattr(ended, "stop_reason", None) or getattr(ended, "error_type", None) or getattr(ended, "reason", "")
    status = getattr(ended, "status", None)
    status_text = "" if status is None else f", status {status}"
    say(f"{attempt.status.value}: {how or '-'}{status_text}, {local_time(ended.at)}", bold=True)
    if found.reply:
        _print_blocks(found.reply)
    usage = ", ".join(f"{key} {value}" for key, value in ended.usage.items() if isinstance(value, int))
    if usage:
        rounds = ended.usage.get("iterations")
        of = f" of {len(rounds)} rounds together" if isinstance(rounds, list | tuple) and len(rounds) > 1 else ""
        say(f"usage{of}: {usage}")


def _as_json(found: SessionContext) -> dict[str, Any]:
    rebuilt, attempt = found.rebuilt, found.rebuilt.attempt
    return {
        **members(found, session="stream", opaque="view.opaque"),
        **members(attempt.began, "branch turn attempt model stream relation"),
        **members(attempt, "status", version="body_version", round="round.began.round"),
        **members(attempt.sent, "sha256 stored_sha256", bytes="size"),
        "at": iso_time(attempt.sent.at),
        "ok": rebuilt.proven,
        "tokens": sum(block.tokens or 0 for block in found.view.blocks),
        "goal": found.goal,
        "settings": found.view.settings,
        "blocks": [{"index": index} | block_as_json(block) for index, block in enumerate(found.view.blocks)],
        "reply": _reply_as_json(found),
    }


def block_as_json(block: ContextBlock) -> dict[str, Any]:
    """A block as JSON, without its text."""
    return members(block, "section message role kind name tool_id tokens origin marker digest", bytes="size")


def _reply_as_json(found: SessionContext) -> dict[str, Any] | None:
    ended = found.rebuilt.attempt.reply_event
    if ended is None:
        return None
    names = ("message_id", "model", "stop_reason", "error_type", "reason", "first_byte")
    return {
        **{name: getattr(ended, name, None) for name in names},
        "http_status": getattr(ended, "status", None),
        "at": iso_time(ended.at),
        "bytes": found.reply_size,
        "usage": dict(ended.usage),
        "blocks": [{"index": index} | block_as_json(block) for index, block in enumerate(found.reply)],
    }


# Changes between two turns

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def _print_changes(found: Comparison) -> None:
    for change in found.changes:
        sign, colour = _SIGNS[change.what]
        say(f"{sign} {_change_text(change)}", fg=colour)
    for key, (before, after) in found.settings.items():
        say(f"~ {key}: {_value_text(before)} -> {_value_text(after)}", fg="yellow")
    counts = {what: sum(change.what == what for change in found.changes) for what in _SIGNS}
    say(f"{plural(found.same, 'block')} the same, " + ", ".join(f"{n} {what}" for what, n in counts.items()))


def _change_text(change: ContextChange) -> str:
    block = change.after or change.before
    assert block is not None
    size = f"{block.size} bytes"
    if change.before is not None and change.after is not None:
        size = f"{change.before.size} -> {change.after.size} bytes"
    return f"{_where(block)}, {size}: {block.preview}".rstrip(": ")


def _where(block: ContextBlock) -> str:
    place = block.section if block.message is None else f"message {block.message}"
    return " ".join(filter(None, (place, block.role, block.kind, block.name)))


def _value_text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}\N{HORIZONTAL ELLIPSIS}"


def _changes_as_json(found: Comparison) -> dict[str, Any]:
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


@click.command()
@session_argument
@branch_option
@click.option(
    "--turn", "turns", nargs=2, required=True, metavar="A B", help="Two turns or checkpoints, as for `context`."
)
@log_options()
@prints(_changes_as_json, _print_changes)
def diff(session: str, branch: str, turns: tuple[str, str], **options: Any) -> Comparison:
    """Show which blocks and settings were added, removed or changed from turn A to turn B.

    \b
      mnemosyne diff 319a --turn 12 14

    Blocks are compared by their meaning to the model: moving a cache marker is not a change.
    """
    return with_log(log_of(options), lambda storage: compare_turns(storage, session, branch, turns))

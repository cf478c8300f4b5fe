"""``mnemosyne timeline``: a session turn by turn."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import click

from mnemosyne.app.storage import Storage
from mnemosyne.cli.log_access import log_of, prints, session_argument, time_of, with_log, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import mode_text
from mnemosyne.domain.history.change_actors import Actor, ChosenChanges
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.figures import count_text, dollars, dollars_text, iso_time, local_time, plural, printable, seconds_text
from mnemosyne.http.inspector.happenings import Happening, list_happenings
from mnemosyne.services import sessions
from mnemosyne.services.timeline import Timeline, read_timeline, total

Row = Mapping[str, Any]


def _as_json(found: Timeline) -> dict[str, Any]:
    return {
        "session": _plain(found.session),
        "branches": [_plain(row) for row in found.branches],
        "turns": [_plain(row) for row in found.turns],
        "gaps": [_plain(row) for row in found.gaps],
        "modes": [_plain(row) for row in found.modes],
    }


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON values: times and ids as text, amounts in dollars."""
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if name == "nanodollars":
            shown["dollars"] = dollars(value)
        elif name in ("at", "since") or (name.endswith("_at") and name != "forked_at"):
            shown[name] = iso_time(value or 0)
        else:
            shown[name] = str(value) if name == "stream" else value
    return shown


def _print(found: Timeline) -> None:
    row = found.session
    client = " ".join(filter(None, (row["client"], row["client_version"])))
    agents = {branch["branch"] for branch in found.branches if BranchKind(branch["kind"]).is_agent_context}
    turns = {(turn["branch"], turn["turn"]): turn["branch"] in agents for turn in found.turns}.values()
    facts = [
        client or "unknown client",
        row["model"],
        local_time(row["started_at"] or 0)[:DATE],
        plural(len(found.branches), "branch"),
        plural(sum(turns), "turn"),
        None if all(turns) else plural(len(turns) - sum(turns), "side request"),
        dollars_text(found.nanodollars),
        "its content was forgotten" if row["forgotten_at"] else None,
    ]
    say(printable(row["external_id"] or row["stream"]), bold=True, nl=False)
    say("  " + " · ".join(printable(fact) for fact in facts if fact))
    _print_table(found)


HEADERS = ("TURN", "WHEN", "MODEL", "IN", "READ", "WRITE", "OUT", "COST", "TOOK", "END")
NUMBERS = "WHEN IN READ WRITE OUT COST TOOK"


def _print_table(found: Timeline) -> None:
    depths = _depths(found.branches)
    days = {local_time(row["began_at"])[:DATE] for row in found.turns}
    clock = _time_of_day if len(days) == 1 else local_time
    lines = [(row["version"], _cells(row, depths, clock), _style(row)) for row in found.turns]
    lines += [(row["version"], _gap(row, clock), "yellow") for row in found.gaps]
    lines += [(row["version"], _mode(row, depths, clock), "") for row in found.modes]
    lines.sort(key=lambda line: line[0])
    rows, styles = [row for _, row, _ in lines], [style for *_, style in lines]
    print_table(HEADERS, rows, right=NUMBERS, whole="TURN", spare="MODEL TOOK", styles=styles)


DATE = len("2026-11-21")


def _time_of_day(at: int) -> str:
    return local_time(at)[DATE:].strip()


def _depths(branches: Sequence[Row]) -> dict[str, int]:
    """The depth of each branch in the tree of branches."""
    depths: dict[str, int] = {}
    for row in branches:  # a branch is opened after its parent
        depths[row["branch"]] = depths.get(row["parent"], -1) + 1 if row["parent"] else 0
    return depths


def _cells(row: Row, depths: Mapping[str, int], clock: Callable[[int], str]) -> tuple[str, ...]:
    attempt = f".{row['attempt']}" if row["attempt"] > 1 else ""
    written = total(row, ("cache_write_5m_tokens", "cache_write_1h_tokens"))
    took = row["ended_at"] - row["began_at"] if row["ended_at"] is not None else None
    return (
        f"{'  ' * depths.get(row['branch'], 0)}{row['branch']} {row['turn']}{attempt}",
        clock(row["began_at"]),
        _model(row["reply_model"] or row["model"]),
        count_text(row["input_tokens"]),
        count_text(row["cache_read_tokens"]),
        count_text(written),
        count_text(row["output_tokens"]),
        dollars_text(row["nanodollars"]) if row["input_tokens"] is not None else "-",
        seconds_text(took),
        _end(row),
    )


def _model(name: str | None) -> str:
    """The model name without the common prefix and the date."""
    return re.sub(r"-\d{8}$", "", printable(name or "-").removeprefix("claude-"))


def _end(row: Row) -> str:
    match row["state"]:
        case "open":
            return "(not ended)"
        case "interrupted":
            return f"interrupted: {printable(row['reason'])}"
    if row["error_type"] or (row["status"] or 0) >= 400:
        return f"{row['status']} {printable(row['error_type'] or '')}".strip()
    return printable(row["stop_reason"] or "-")


def _style(row: Row) -> str:
    if row["state"] == "finished":
        return "red" if row["error_type"] or (row["status"] or 0) >= 400 else ""
    return "yellow"


def _gap(row: Row, clock: Callable[[int], str]) -> tuple[str, ...]:
    text = f"{plural(row['turns'], 'turn')} not recorded: {printable(row['reason'])}"
    return _remark("(gap)", clock(row["since"]), text)


def _mode(row: Row, depths: Mapping[str, int], clock: Callable[[int], str]) -> tuple[str, ...]:
    name = f"{'  ' * depths.get(row['branch'], 0)}{row['branch']}"
    return _remark(name, clock(row["at"]), mode_text(row["mode"], printable(row["why"])))


def _remark(name: str, when: str, text: str) -> tuple[str, ...]:
    """A row that is not a turn."""
    return (name, when, *[""] * (len(HEADERS) - 3), text)


def _as_json_of(found: Timeline | Sequence[Happening]) -> Any:
    return _as_json(found) if isinstance(found, Timeline) else [_plain(attrs.asdict(each)) for each in found]


def _print_either(found: Timeline | Sequence[Happening]) -> None:
    if isinstance(found, Timeline):
        return _print(found)
    rows = [
        (local_time(each.at), each.by, f"{each.branch or ''} {each.turn or ''}".strip(), _change(each), each.why)
        for each in reversed(found)
    ]
    return print_table(
        ("WHEN", "BY", "TURN", "CHANGE", "WHY"), [tuple(map(printable, row)) for row in rows], spare="WHY"
    )


def _change(each: Happening) -> str:
    return f"{each.object} {each.what}" if each.object else each.what


async def _read_changes(storage: Storage, session: str, chosen: ChosenChanges) -> Sequence[Happening]:
    return list_happenings(await storage.events.read(await sessions.find(storage, session)), chosen, None)


@click.command()
@session_argument
@click.option("--branch", metavar="BRANCH", help="Only this branch.")
@click.option("--changes", is_flag=True, help="List changes instead of turns, each with its actor.")
@click.option("--by", type=click.Choice([each.value for each in Actor]), help="Only the changes of this actor.")
@click.option("--since", metavar="WHEN", help="Only changes since this time: 2026-11-21T14:00, or 12h, 7d, 2w ago.")
@click.option("--until", metavar="WHEN", help="Only changes until this time, or the end of this day.")
@log_options()
@prints(_as_json_of, _print_either)
def timeline(
    session: str,
    branch: str | None,
    changes: bool,
    by: str | None,
    since: str | None,
    until: str | None,
    **options: Any,
) -> Timeline | Sequence[Happening]:
    """Show a session turn by turn: every attempt with its tokens, cost, duration and result, and where managing started
    or stopped.

    \b
      mnemosyne timeline 319a --branch main
      mnemosyne timeline 319a --changes
      mnemosyne timeline 319a --by user
      mnemosyne timeline 319a --since 2026-11-21T14:00 --until 2026-11-21T15:00

    IN counts uncached input tokens, READ tokens read from the cache, WRITE tokens written to it. Branches are indented
    under their parent. --by, --since and --until imply --changes.
    """
    config = log_of(options)
    if not (changes or by or since or until):
        return with_read_models(config, lambda models: read_timeline(models, session, branch))
    chosen = ChosenChanges(
        since=time_of(since),
        until=None if until is None else time_of(until, "--until", is_end=True),
        by=None if by is None else Actor(by),
        branch=branch,
    )
    return with_log(config, lambda storage: _read_changes(storage, session, chosen))

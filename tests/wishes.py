"""The table of the original wishes, for the page that prints it (cog)."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

STATES = ("works", "part", "declined", "open")
FILE = Path(__file__).parents[1] / "docs/research/seeds.toml"
Group = Mapping[str, Any]


def read_file() -> tuple[dict[str, Group], list[Mapping[str, str]]]:
    """The groups of wishes, each with its subject as ``about``; and the targets."""
    groups = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return groups, groups.pop("targets")


def wishes_of(group: Group) -> dict[int, Mapping[str, Any]]:
    return {int(number): wish for number, wish in group.items() if number != "about"}


def state_of(wish: Mapping[str, Any]) -> str:
    """One of STATES; a wish without a proof or a reason is open. Raises ValueError for two states."""
    found = [state for state in STATES if state in wish] or ["open"]
    (state,) = found
    return state


def summary_table() -> str:
    lines = ["| group | subject | works | in part | declined | open |", "|---|---|--:|--:|--:|--:|"]
    sums = [0] * len(STATES)
    for name, group in read_file()[0].items():
        states = [state_of(wish) for wish in wishes_of(group).values()]
        counts = [states.count(state) for state in STATES]
        sums = [before + count for before, count in zip(sums, counts, strict=True)]
        lines.append(f"| [{name}](#{name.lower()}) | {group['about']} | {_cells(counts)} |")
    return "\n".join([*lines, f"| | all {sum(sums)} | {_cells(sums)} |"]) + "\n"


def targets_table() -> str:
    head = "| wish | target | asked | reached | sample | command |\n|---|---|---|---|---|---|\n"
    columns = ("wish", "target", "asked", "reached", "sample")
    return head + "".join(f"| {_cells([row[each] for each in columns])} | `{row['run']}` |\n" for row in read_file()[1])


def wishes_tables() -> str:
    return "\n".join(line for name, group in read_file()[0].items() for line in _table(name, group))


def _table(name: str, group: Group) -> Iterator[str]:
    yield f"### {name}\n\n{group['about'].capitalize()}.\n\n| | wish | state | |\n|---|---|---|---|"
    for number, wish in wishes_of(group).items():
        match state_of(wish):
            case "works":
                state, why = "works", f"`{wish['works']}`"
            case "part":
                state, why = "in part", f"{wish['part']}: `{wish['shown']}`"
            case "declined":
                state, why = "declined", f"{wish['declined']} ADR {wish['adr']}"
            case _:
                state, why = "open", ""
        yield f"| {number} | {wish['wish']} | {state} | {why.replace('|', chr(92) + '|')} |"
    yield ""


def _cells(values: list[Any]) -> str:
    return " | ".join(map(str, values))

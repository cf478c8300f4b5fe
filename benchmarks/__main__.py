"""``python -m benchmarks [NAME …]``: measure, print the rows, and write them where asked."""

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from benchmarks import gateways
from benchmarks.harness import Group, Row, run_group
from benchmarks.report import as_json, as_table, described, this_machine
from benchmarks.report import write_results as put

MEASURED = (
    "log peers gateways processes beside calls commands planning bills retrieval answers facts likelihood "
    "segmentation short_forms tokens wasted_work"
)
"""The modules with a group of benchmarks, in the order in which they run."""

GROUPS: Sequence[Group] = [gateways.RELAY, *(import_module(f"benchmarks.{name}").GROUP for name in MEASURED.split())]
NAMES = tuple(name for group in GROUPS for name in (group.name, *(f"{group.name}.{part}" for part in group.parts)))
RESULTS = Path(__file__).with_name("RESULTS.md")


@click.command(help=f"Run benchmarks and print their rows. NAME is one of: {', '.join(NAMES)}; without one, all run.")
@click.argument("names", nargs=-1, metavar="[NAME …]", type=click.Choice(NAMES))
@click.option("--quick", is_flag=True, help="Show in seconds that everything runs; the numbers mean nothing.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the rows to this file, too.")
@click.option("--write-results", is_flag=True, help="Put the tables of the whole groups that ran into RESULTS.md.")
@click.option(
    "--date", default=lambda: time.strftime("%Y-%m-%d", time.gmtime()), help="The date to write. [today, UTC]"
)
def main(names: Sequence[str], quick: bool, json_file: Path | None, write_results: bool, date: str) -> None:
    if write_results and (quick or any("." in name for name in names)):
        raise click.UsageError("--write-results is for whole groups, and not for quick runs.")
    machine = this_machine()
    click.echo(f"{described(machine, date)}\n")
    rows: list[Row] = []
    for group in GROUPS:
        everything = group.name in names or (not names and group.by_default)
        parts = [part for part in group.parts if everything or f"{group.name}.{part}" in names]
        if not parts:
            continue
        of_group = run_group(group, parts, quick=quick, say=lambda text: click.echo(text, err=True))
        rows += of_group
        click.echo(as_table(of_group))
        if write_results:
            put(RESULTS, group.name, f"Measured {described(machine, date)}.\n\n{as_table(of_group)}")
    if json_file is not None:
        json_file.write_text(as_json(machine, date, rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

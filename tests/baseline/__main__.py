"""Compares the application's output for sessions with a reference: ``make baseline`` (``ALL=1``, ``UPDATE=1``).

The reference for the repository's samples is ``baseline.json``; for public sessions on this machine it is
``.cache/baseline.json``: run this once on the commit to compare with.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click
import trio

from tests.baseline.comparing import Groups, compare
from tests.baseline.hashing import hash_golden, hash_report, hash_upstream
from tests.baseline.samples import samples
from tests.domain.recorded import DATA
from tests.golden.sessions import FOLDERS

REFERENCE = Path(__file__).parent / "baseline.json"
CACHE = Path(".cache") / "baseline.json"
EVERY = 6
"""Without ``--all``, every so many-th of the public sessions is played."""

Json = dict[str, Any]


def main() -> int:
    """Returns 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.baseline", description=__doc__)
    parser.add_argument("--all", action="store_true", help="play every public session, not a few")
    parser.add_argument("--update", action="store_true", help="make what is found now the reference")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the reference of public sessions is kept")
    options = parser.parse_args()
    found: Groups = {f"golden {folder.name}": trio.run(hash_golden, folder) for folder in FOLDERS}
    found |= _hash_sessions(samples(), every_policy=True)
    public = _hash_sessions(list(_public(1 if options.all else EVERY)), every_policy=False)
    differing = _compare(REFERENCE, found, whole=True, update=options.update)
    differing += _compare(options.cache, public, whole=False, update=options.update)
    click.echo("\n".join(differing) or "same")
    return 1 if differing else 0


def _public(every: int) -> Iterator[Json]:
    """The public sessions beside the repository, if there are any."""
    paths = sorted((DATA / "sessions").rglob("*.jsonl"))
    lines = (line for path in paths for line in path.read_bytes().splitlines())
    yield from map(json.loads, islice(lines, 0, None, every))


def _hash_sessions(sessions: list[Json], *, every_policy: bool) -> Groups:
    """The upstream bodies of each session, and its reports, on all cores."""
    found: Groups = {}
    with ProcessPoolExecutor() as pool:
        upstream = pool.map(hash_upstream, sessions)
        reports = pool.map(partial(hash_report, every_policy=every_policy), sessions)
        for session, bodies, report in zip(sessions, upstream, reports, strict=True):
            found[f"session {session['name']}"] = bodies
            found[f"report {session['name']}"] = report
            click.echo(".", nl=False, err=True)
    click.echo(err=True)
    return found


def _compare(path: Path, found: Groups, *, whole: bool, update: bool) -> list[str]:
    """How the groups differ from those in a file. It is written first if it is to be updated; groups of which it
    knows nothing yet are added, unless it holds the ``whole`` of them.
    """
    reference: Groups = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    new = {name: entries for name, entries in found.items() if update or (not whole and name not in reference)}
    if new:
        reference = new if whole else reference | new
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(reference, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        click.echo(f"{path}: {len(new)} groups written")
    return list(compare(reference if whole else {name: reference[name] for name in found}, found))


if __name__ == "__main__":
    sys.exit(main())

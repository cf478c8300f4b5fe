"""The results of a trial: a file of JSON lines that grows run by run, so that a trial that was stopped goes on."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.strict import structure
from mnemosyne_lab.trial.statistics import PairCounts
from mnemosyne_lab.trial.tasks import ARMS

FORMAT = 1


@attrs.frozen(kw_only=True)
class TrialTerms:
    """What must be the same for a trial to go on: the tasks, by their digest, the seed and both addresses."""

    tasks: str
    seed: int
    urls: Mapping[str, str]


@attrs.frozen(kw_only=True)
class RunResult:
    """A finished run: whether its check ``passed``, its duration, its cost in dollars (None if unknown), and whether it
    was stopped for exceeding its time. ``exit`` is the command's exit code. ``changes`` of its files and the end of its
    ``output`` are for a judge; None in a file of an earlier version.
    """

    pair: str
    arm: str = attrs.field(validator=attrs.validators.in_(ARMS))
    first: bool
    passed: bool
    exit: int | None
    seconds: float
    dollars: float | None
    stopped: bool = False
    changes: str | None = attrs.field(default=None, repr=False)
    output: str | None = attrs.field(default=None, repr=False)


class TrialRecord:
    """The results file at ``path``. ``answers`` are a helper's accepted answers, by its name and the prompt's hash."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.answers: dict[tuple[str, str], str] = {}

    def open(self, terms: TrialTerms) -> list[RunResult]:
        """The runs that are in it; a file that is not there is begun. A last line that was cut off is taken out: that
        run is done again.

        Raises BadConfiguration for a file of something else, or of a trial with other terms.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise BadConfiguration(f"{self._path} cannot be read: {error.strerror or error}.") from None
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").splitlines()
        if not lines:
            if data.strip():
                raise BadConfiguration(f"{self._path} holds something else than the results of a trial.")
            self._write({"trial": FORMAT, **attrs.asdict(terms)})
            return []
        self._check(lines[0], terms)
        read = (self._read(line, number) for number, line in enumerate(lines[1:], 2))
        found = [each for each in read if each is not None]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        return found

    def add(self, result: RunResult) -> None:
        """Put a run down, to stay."""
        self._write(attrs.asdict(result))

    def add_answer(self, helper: str, prompt: str, record: str) -> None:
        self.answers[helper, prompt] = record
        self._write({"helper": helper, "prompt": prompt, "record": record})

    def _write(self, row: Mapping[str, Any]) -> None:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(json.dumps(row).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadConfiguration(f"{self._path} cannot be written: {error.strerror or error}.") from None

    def _check(self, line: str, terms: TrialTerms) -> None:
        began = _decode(line)
        if not isinstance(began, dict) or began.get("trial") != FORMAT:
            raise BadConfiguration(f"{self._path} holds something else than the results of a trial.")
        wanted = {"trial": FORMAT, **attrs.asdict(terms)}
        other = [name for name, value in wanted.items() if began.get(name) != value]
        if other:
            raise BadConfiguration(
                f"{self._path} is of a trial with other {' and '.join(other)}. Name another file, or give what it was."
            )

    def _read(self, line: str, number: int) -> RunResult | None:
        """The run in a line; None if it is an answer."""
        row = _decode(line)
        match row:
            case {"helper": str(helper), "prompt": str(prompt), "record": str(record)}:
                self.answers[helper, prompt] = record
                return None
        return structure(row, RunResult, f"{self._path}, line {number}")


def _decode(line: str) -> Any:
    """The JSON value of a line; None if it is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def count_pairs(results: Iterable[RunResult]) -> PairCounts:
    """The pairs of which both runs ended. Of a run that is there twice the first counts."""
    passed: dict[str, dict[str, bool]] = {}
    for each in results:
        passed.setdefault(each.pair, {}).setdefault(each.arm, each.passed)
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for arms in passed.values():
        if len(arms) == 2:
            counts[arms["with"], arms["without"]] += 1
    return PairCounts(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

"""The files of a trial: its tasks, with their order, and its results. Each run adds its result, so a stopped trial can
continue.
"""

import json
import os
import random
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.strict import structure
from mnemosyne_lab.trial.statistics import PairCounts

SECONDS = 1800.0
"""How long a command may take, where its task does not say."""

ARMS = ("with", "without")
"""The arms of a pair: with memory and without."""


def _check_text(task: object, field: "attrs.Attribute[str]", value: str) -> None:
    if not value.strip():
        raise ValueError(f"{field.name} must not be empty")


def _check_seconds(task: object, field: object, value: float) -> None:
    if not 0 < value <= 86_400:
        raise ValueError("seconds must be a number above 0, and at most 86400")


@attrs.frozen(kw_only=True)
class TrialTask:
    """A ``command`` for a shell, in a copy of ``folder`` (None: an empty one), and a ``check`` there that ends with 0
    where the task was done. Both get ``seconds``.
    """

    name: str = attrs.field(validator=_check_text)
    command: str = attrs.field(validator=_check_text)
    check: str = attrs.field(validator=_check_text)
    folder: Path | None = None
    seconds: float = attrs.field(default=SECONDS, validator=_check_seconds)


@attrs.frozen
class PlannedRun:
    """One run of a pair: ``pair`` names it, by its task and how often that was done before."""

    pair: str
    task: TrialTask
    arm: str
    first: bool


@attrs.frozen
class TaskList:
    """The tasks of a file, and a digest of what decides: another digest is another trial."""

    tasks: tuple[TrialTask, ...]
    digest: str


def read_tasks(path: Path) -> TaskList:
    """Read the tasks of a TOML file. Raises BadConfiguration with file, task and reason."""
    try:
        data = path.read_bytes()
        table = tomllib.loads(data.decode())
    except OSError as error:
        raise BadConfiguration(f"The tasks file {path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"The tasks file {path} is not TOML: {error}.") from None
    listed = table.get("task")
    if not isinstance(listed, list) or not listed or set(table) != {"task"}:
        raise BadConfiguration(f"The tasks file {path} needs tables [[task]], at least one, and nothing else.")
    tasks = tuple(_read_task(each, number, path) for number, each in enumerate(listed, 1))
    names = [each.name for each in tasks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadConfiguration(f"The tasks file {path} has two tasks named {twice!r}.")
    return TaskList(tasks, sha256(data).hexdigest())


def _read_task(given: object, number: int, path: Path) -> TrialTask:
    where = f"{path}, task {number}"
    task = structure(given, TrialTask, where)
    if task.folder is None:
        return task
    folder = path.absolute().parent / task.folder
    if not folder.is_dir():
        raise BadConfiguration(f"{where}: folder must name a directory, seen from that of the file.")
    return attrs.evolve(task, folder=folder)


def order_runs(tasks: Sequence[TrialTask], repeat: int, seed: int) -> list[tuple[PlannedRun, PlannedRun]]:
    """Each task as ``repeat`` pairs of runs. The seed decides the order of pairs and of the runs in each."""
    chance = random.Random(seed)
    pairs = [(each, number) for number in range(1, repeat + 1) for each in tasks]
    chance.shuffle(pairs)
    found = []
    for task, number in pairs:
        arms = list(ARMS)
        chance.shuffle(arms)
        one, other = (PlannedRun(f"{task.name}/{number}", task, arm, not place) for place, arm in enumerate(arms))
        found.append((one, other))
    return found


# Results

FORMAT = 1


@attrs.frozen(kw_only=True)
class TrialTerms:
    """The terms that must not change while a trial continues: the digest of the tasks, the seed, and both addresses."""

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
        """Return the runs in the file, which is created if it is missing. An incomplete last line is removed, so that
        its run is repeated.

        Raises BadConfiguration for a file with other content or of a trial with other terms.
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
                raise BadConfiguration(f"{self._path} does not contain the results of a trial.")
            self._write({"trial": FORMAT, **attrs.asdict(terms)})
            return []
        self._check(lines[0], terms)
        read = (self._read(line, number) for number, line in enumerate(lines[1:], 2))
        found = [each for each in read if each is not None]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        return found

    def add(self, result: RunResult) -> None:
        """Append a run to the file, durably."""
        self._write(attrs.asdict(result))

    def add_answer(self, helper: str, prompt: str, record: str) -> None:
        """Append a helper's accepted answer to the file."""
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
            raise BadConfiguration(f"{self._path} does not contain the results of a trial.")
        wanted = {"trial": FORMAT, **attrs.asdict(terms)}
        other = [name for name, value in wanted.items() if began.get(name) != value]
        if other:
            raise BadConfiguration(
                f"{self._path} is of a trial with other {' and '.join(other)}. Use another file or the original values."
            )

    def _read(self, line: str, number: int) -> RunResult | None:
        """The run in a line; None if the line has an answer, which is kept."""
        row = _decode(line)
        match row:
            case {"helper": str(helper), "prompt": str(prompt), "record": str(record)}:
                self.answers[helper, prompt] = record
                return None
        return structure(row, RunResult, f"{self._path}, line {number}")


def _decode(line: str) -> Any:
    """The JSON value of a line; None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def count_pairs(results: Iterable[RunResult]) -> PairCounts:
    """The pairs whose runs both ended, by outcome. If a run occurs twice, the first one counts."""
    passed: dict[str, dict[str, bool]] = {}
    for each in results:
        passed.setdefault(each.pair, {}).setdefault(each.arm, each.passed)
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for arms in passed.values():
        if len(arms) == 2:
            counts[arms["with"], arms["without"]] += 1
    return PairCounts(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

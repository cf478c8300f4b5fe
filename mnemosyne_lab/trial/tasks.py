"""The tasks of a trial: what to do, where, and how to tell whether it was done. And the order in which they are run."""

import random
import tomllib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import attrs

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.strict import structure

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

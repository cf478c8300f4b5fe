"""The tasks of a trial: the required content of a file, and an order that depends only on the seed."""

from pathlib import Path

import pytest

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.trial.tasks import order_runs, read_tasks

GOOD = '[[task]]\nname = "a"\ncommand = "true"\ncheck = "true"\n'


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "tasks.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_task_says_what_to_do_where_and_for_how_long(tmp_path: Path) -> None:
    (tmp_path / "start").mkdir()
    found = read_tasks(written(tmp_path, GOOD + 'folder = "start"\nseconds = 5\n' + GOOD.replace('"a"', '"b"')))
    first, second = found.tasks
    assert (first.folder, first.seconds, second.folder, second.seconds) == (tmp_path / "start", 5.0, None, 1800.0)
    assert found.digest != read_tasks(written(tmp_path, GOOD)).digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff", "is not TOML"),
        ("task = 1", "needs tables"),
        ("", "needs tables"),
        (GOOD + "[more]\n", "needs tables"),
        ("task = [1]", "task 1: expected an object"),
        (GOOD.replace('name = "a"', ""), "required field missing @ .*task 1.name"),
        (GOOD.replace('check = "true"', "check = 1"), "expected str, found int @ .*task 1.check"),
        (GOOD + "timeout = 5\n", r"extra fields found \(timeout\)"),
        (GOOD + "seconds = true\n", "expected float, found bool @ .*task 1.seconds"),
        (GOOD + "seconds = nan\n", "seconds must be a number"),
        (GOOD + 'folder = "nowhere"\n', "folder must name a directory"),
        (GOOD + GOOD, "two tasks named 'a'"),
    ],
)
def test_invalid_task_is_named(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(BadConfiguration, match=said):
        read_tasks(written(tmp_path, text))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="cannot be read"):
        read_tasks(tmp_path / "none.toml")


def test_order_depends_on_the_seed_and_neither_arm_is_always_first(tmp_path: Path) -> None:
    tasks = read_tasks(written(tmp_path, GOOD + GOOD.replace('"a"', '"b"'))).tasks
    pairs = order_runs(tasks, 20, seed=7)
    assert pairs == order_runs(tasks, 20, seed=7)
    assert pairs != order_runs(tasks, 20, seed=8)
    assert len({one.pair for one, _ in pairs}) == 40
    for one, other in pairs:
        assert (one.pair, one.task, {one.arm, other.arm}) == (other.pair, other.task, {"with", "without"})
        assert (one.first, other.first) == (True, False)
    assert 10 < sum(one.arm == "with" for one, _ in pairs) < 30

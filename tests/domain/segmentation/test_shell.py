"""What the words of a command show: which file it reads or changes, and whether it failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.segmentation.shell import LONGEST, Deed, find_deed, find_in_script, is_failure, is_run, key_of


@pytest.mark.parametrize(
    ("command", "deed"),
    [
        ("cat src/a.py", Deed("read", "src/a.py", whole=True)),
        ("cd app && cat ./src/a.py 2>/dev/null", Deed("read", "app/src/a.py", whole=True)),
        ("head -20 a.py", Deed("read", "a.py", lines=(1, 20))),
        ("head a.py", Deed("read", "a.py", lines=(1, 10))),
        ("sed -n 5,9p a.py", Deed("read", "a.py", lines=(5, 9))),
        ("cat a.py | head -n 3", Deed("read", "a.py", lines=(1, 3))),
        ("cat > a.py <<'EOF'\nx = 1\nEOF", Deed("write", "a.py", whole=True)),
        ("cat >> a.py <<EOF\nx = 1\nEOF", Deed("edit", "a.py")),
        ("sed -i 's/a/b/' src/a.py", Deed("edit", "src/a.py")),
        ("apply_patch <<EOF\n*** Update File: a.py\nEOF", Deed("edit", "a.py")),
        ("cat a.py b.py", None),
        ("cat a.py && rm a.py", None),
        ("pytest -q", None),
        ("cat 'a.py", None),
    ],
)
def test_the_effect_of_a_command_on_a_file(command: str, deed: Deed | None) -> None:
    assert find_deed(command) == deed


RUNS = "const done = await tools.exec_command({%s}); text(done.output);"


@pytest.mark.parametrize(
    ("script", "deed"),
    [
        (RUNS % r'''cmd: "sed -n '5,9p' \"a.py\"", workdir: "/app"''', Deed("read", "a.py", lines=(5, 9))),
        ("text((await tools.exec_command({'cmd': `cat a.py`})).output)", Deed("read", "a.py", whole=True)),
        (r'text(await tools.apply_patch("*** Begin Patch\n*** Update File: a.py\n@@\n"));', Deed("edit", "a.py")),
        (RUNS.replace(".output", ".output.slice(0, 90)") % 'cmd: "cat a.py"', None),
        (RUNS % 'cmd: "cat a.py"' + RUNS % 'cmd: "cat b.py"', None),
        (RUNS % r'cmd: "\x"', None),
        (RUNS % r'cmd: "cat \ud800.py"', Deed("read", "?.py", whole=True)),
        ("text('cmd')", None),
    ],
)
def test_script_that_only_shows_a_commands_output_is_that_command(script: str, deed: Deed | None) -> None:
    assert (find_deed(find_in_script(script) or "")) == deed


@pytest.mark.parametrize(("command", "runs"), [("pytest -q", True), ("cd a && git log", False), ("ls; make", True)])
def test_a_command_that_only_prints_is_not_a_run(command: str, runs: bool) -> None:
    assert is_run(command) == runs


@pytest.mark.parametrize(
    ("command", "code", "wrong"),
    [("pytest", 1, True), ("pytest", 0, False), ("grep x a.py", 1, False), ("grep x a.py", 2, True)],
)
def test_a_search_that_finds_nothing_has_not_failed(command: str, code: int, wrong: bool) -> None:
    assert is_failure(command, code) == wrong


@given(st.text(max_size=2 * LONGEST))
def test_any_command_has_a_key_of_bounded_length_on_one_line(command: str) -> None:
    key = key_of(command)
    assert len(key) <= LONGEST + 15
    assert key_of(f"  {command}\n") == key
    assert len(key.splitlines()) <= 1
    find_deed(command)
    is_run(command)

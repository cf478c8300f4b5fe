"""A line of the index names an object so that the model can ask for it."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation.index_line import LINE, index_line, last_part, path_of, without_facts

NAMES = st.text(alphabet="abc_.", min_size=1, max_size=30)


def part(key: str | None, kind: ObjectKind = ObjectKind.FILE_CONTEXT, stub: str = "Read a.py (3 lines)") -> Description:
    return Description(kind=kind, tool="Read", key=key, group="g", stub=stub, text="")


@given(st.lists(NAMES, min_size=1, max_size=12).map("/".join))
def test_the_line_of_a_file_contains_its_whole_name_and_fits(path: str) -> None:
    line = index_line("stub", [part(path)])
    assert last_part(path) in line
    assert len(line) <= max(LINE, len(last_part(path)) + len("Read …") + 1)


def test_several_calls_are_on_one_line_without_repetition() -> None:
    line = index_line("stub", [part("src/a.py"), part("src/b.py"), part("src/a.py")])
    assert line == "Read src/a.py; Read src/b.py"


def test_the_line_of_a_command_is_its_beginning_without_facts() -> None:
    ran = part("Bash pytest -q", ObjectKind.TOOL_RESULT, "Bash pytest -q: 3 passed (12 lines)")
    assert path_of(ran) is None
    assert index_line("stub", [ran]) == without_facts(ran) == "Bash pytest -q: 3 passed"

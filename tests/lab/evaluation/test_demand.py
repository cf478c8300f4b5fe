"""Text in a reply that comes from earlier context is found, and judged by the content of the window."""

from collections.abc import Callable

from mnemosyne_lab.evaluation.demand import Demand, Outcome, ShownObject, demands, outcome, plain
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.trace import TracePart, trace_of
from tests.lab.evaluation.recordings import LONG, Step, line_of, session, traced

READ_THEN_EDIT: list[Step] = [("read", 1, 5), ("run", 2, 5), ("run", 3, 5), ("edit", 1, 5), ("run", 0, 5)]


def test_old_text_of_an_edit_is_a_demand_on_the_read_that_showed_it() -> None:
    trace = traced(READ_THEN_EDIT)
    (exact,) = [each for each in demands(trace) if each.exact]
    assert (exact.turn, exact.text) == (4, line_of(1, 3))
    assert [item.source_tool for item in trace.items if item.id in exact.sources] == ["Read"]


def test_text_in_the_newest_input_is_no_demand() -> None:
    steps: list[Step] = [("run", 2, 5), ("read", 1, 5), ("edit", 1, 5), ("run", 0, 5)]
    assert not [each for each in demands(traced(steps)) if each.exact]


def test_text_that_was_never_shown_is_no_demand() -> None:
    assert not [each for each in demands(traced([("run", 2, 5), ("run", 3, 5), ("edit", 1, 5)])) if each.exact]


def test_text_dropped_by_the_user_is_no_demand_and_text_dropped_by_the_client_is() -> None:
    def exact(trigger: str) -> int:
        reset = {"kind": "compact", "before_msg": 69, "summary": "So far.", "trigger": trigger}
        trace = trace_of(recording("x", session(LONG, resets=[reset])))
        return sum(each.exact for each in demands(trace))

    assert (exact("auto"), exact("manual")) == (4, 0)


def test_line_numbers_are_not_part_of_the_file() -> None:
    assert plain("     1→a\n    22\tb\n  c 3\td") == "a\nb\n  c 3\td"


DEMAND = Demand(turn=9, text="parse_all", kind="identifier", sources=("one",))
PART = TracePart(("parser.py",), "def parse_all(): ...")


def _shows(rendering: ShownObject) -> Callable[[str], ShownObject]:
    return lambda key: rendering


def _judged(rendering: ShownObject, window: str = "") -> Outcome:
    return outcome(DEMAND, _shows(rendering), lambda: [window])


def test_demand_is_resident_if_anything_in_the_window_shows_it() -> None:
    assert _judged(ShownObject(full=True)) is Outcome.RESIDENT
    assert _judged(ShownObject(full=False, text="a stub"), "elsewhere: parse_all") is Outcome.RESIDENT


def test_demand_is_declared_if_its_call_or_lost_kind_is_named() -> None:
    assert _judged(ShownObject(full=False, text="Read src/parser.py", parts=(PART,))) is Outcome.DECLARED
    assert _judged(ShownObject(full=False, text="a summary", lost="3 identifiers")) is Outcome.DECLARED


def test_demand_is_silently_lost_if_only_another_call_of_the_object_is_named() -> None:
    other = TracePart(("lexer.py",), "def lex(): ...")
    assert _judged(ShownObject(full=False, text="Read src/lexer.py", parts=(PART, other))) is Outcome.SILENT
    assert _judged(ShownObject(full=False)) is Outcome.SILENT

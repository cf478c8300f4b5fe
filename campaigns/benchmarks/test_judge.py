"""The judge of short forms: its rules ask a reader's questions, and it accepts an answer only if a reader could find
it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from benchmarks import short_forms
from benchmarks.judge.answers import Answer, Pair, either, exactly, in_words
from benchmarks.judge.judging import judge
from benchmarks.judge.material import CHECKED, HELD_OUT, TUNING, Material, Question, list_objects, listed, made
from benchmarks.judge.material import material as recorded_material
from benchmarks.judge.sources import Source
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.trace import trace_of
from tests.domain.recorded import folder

FILE = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(["def parse_all(text, limit):", "    pass"], 41))
RUN = "=== RUN TestAlpha\n    alpha_test.go:7: want 3 rows, got 4 rows instead\n--- FAIL: TestAlpha (0.1s)\nFAIL\n"


def asked(source: Source) -> dict[str, Pair]:
    """One pair of each rule about a source."""
    return {pair.rule: pair for pair in made(source)}


def tool(name: str, text: str, **given: object) -> Source:
    return Source(speaker="tool", tool=name, given=given, text=text)


@pytest.mark.parametrize(
    ("source", "rule", "told", "hidden"),
    [
        (tool("Read", FILE, file_path="/a/b.py"), "defined-at", "41 def parse_all", "parse_all\n41"),
        (tool("Read", FILE, file_path="/a/b.py"), "signature", "parse_all(text, limit)", "parse_all(text"),
        (tool("Read", "3\tLIMIT = 4_000\n", file_path="/a.py"), "value-of", "LIMIT is 4_000", "LIMIT is 4_0001"),
        (tool("Bash", RUN, command="go test"), "what-failed", "failed: TestAlpha", "=== RUN TestAlpha"),
        (tool("Bash", RUN, command="go test"), "why-failed", "alpha_test.go:7: want 3 rows, got 4 rows", "want 3"),
        (tool("Bash", "= 3 passed in 0.1s =", command="pytest"), "how-many", "3 passed", "3 lines\npassed"),
        (tool("Bash", " M src/a.py\n", command="git status -s"), "changed-files", "M src/a.py", "src/aa.py"),
        (tool("Grep", "a/b.py:12:def parse_all():", pattern="parse"), "matched-at", "b.py: 12, 40", "b.py: 121"),
        (tool("Grep", "Found 9 files\na/b.py", pattern="x"), "how-many", "found 9 files", "9 lines"),
        (
            tool("get", '{"flight_number": "HAT1", "status": "open"}', id="q"),
            "field-of",
            "HAT1 status open",
            "HAT1 open",
        ),
    ],
)
def test_answer_counts_only_if_it_is_readable(source: Source, rule: str, told: str, hidden: str) -> None:
    """The answer counts with other words around it, but not scattered or truncated."""
    pair = asked(source)[rule]
    assert pair.answered_by(told)
    assert not pair.answered_by(hidden)


SAID = "The cache was cold. The issue is that the lock was never released by the old worker process."
EITHER = either(("b.py", "12"), ("12", "parse_all"))
LETTERS = Pair("r", "about", "which?", tuple(exactly(name) for name in "abcde"))


@pytest.mark.parametrize(
    ("answers", "told", "hidden"),
    [
        (
            asked(Source(speaker="assistant", text=SAID))["concluded"].answered_by,
            "lock never released by the old worker process",
            "The cache was cold.",
        ),
        (exactly("alpha", "17").stands_in, "alpha = 17", f"alpha {'x ' * 200} 17"),
        (exactly("alpha", "17").stands_in, "alpha = 17", "alpha = 170"),
        (LETTERS.answered_by, "a\nb\nc\nd", "a\nb\nc"),
        (EITHER.stands_in, "b.py: 12", "b.py: parse_all"),
        (EITHER.stands_in, "12 parse_all", "b.py: parse_all"),
        (Answer((("a1", "b2", "c3", "d4", "e5"),), 0.6).stands_in, "a1 b2 c3", "a1 b2"),
    ],
    ids=["conclusion", "close together", "whole words", "four in five", "a form", "another form", "a share"],
)
def test_answer_may_differ_in_order_length_and_form_only_within_limits(
    answers: Callable[[str], bool], told: str, hidden: str
) -> None:
    assert answers(told)
    assert not answers(hidden)


def test_sentence_of_common_words_is_no_question() -> None:
    """It could not be distinguished from others."""
    assert in_words("so it was then and there") is None


def material() -> Material:
    """A handmade session: two files and messages about them, with one question each."""
    messages: list[Mapping[str, Any]] = [{"role": "user", "content": "Look."}]
    for name, word in (("one", "alpha"), ("two", "omega")):
        body = "".join(f"{n:6}\tdef {word}_{n}(left, right):\n" for n in range(1, 120))
        call = {"type": "tool_use", "id": f"t_{name}", "name": "Read", "input": {"file_path": f"/src/{name}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t_{name}", "content": body}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    messages.append({"role": "assistant", "content": "Done."})
    raw = {"name": "made-up", "messages": messages, "turns": [{"msg": n} for n in (1, 3, 5)]}
    objects = list_objects(trace_of(recording("here", raw)))
    questions = [
        Question(TUNING, "made-up", item, source, asked(source)["defined-at"])
        for item, sources in objects
        for source in sources
        if source.path
    ]
    return Material({"made-up": objects}, questions, 0)


def test_full_text_answers_everything_and_another_object_nothing() -> None:
    """The judge finds all answers in L0, none in an empty text, and none in another object."""
    there = material()
    assert len(there.questions) == 2
    for verdict in judge(there, lambda item, level: item.text if level in item.texts else None):
        assert verdict.answered
        assert verdict.by_chance == 0
    renditions = [each for each in judge(there, lambda *_: "nothing") if each.level is Fidelity.DETAILED]
    assert renditions
    assert not any(each.answered for each in renditions)


def test_line_names_its_object_only_if_it_is_first() -> None:
    """Two objects with the same line name neither."""
    there = material()
    stubs = [each for each in judge(there) if each.level is Fidelity.STUB]
    assert [each.answered for each in stubs] == [True, True]
    same = [each for each in judge(there, lambda *_: "Read a file") if each.level is Fidelity.STUB]
    assert [each.answered for each in same] == [False, False]


def test_list_of_checked_pairs_has_no_recorded_text() -> None:
    """A pair is a session, a place, a rule and a hash; the two halves share no session."""
    splits = listed()["splits"]
    assert not set(splits[TUNING]) & set(splits[HELD_OUT])
    names = {*splits[TUNING], *splits[HELD_OUT]}
    assert len(listed()["pairs"]) >= 300
    for name, message, block, rule, digest in listed()["pairs"]:
        assert name in names
        assert isinstance(message, int)
        assert isinstance(block, int)
        assert rule.replace("-", "").isalpha()
        assert len(digest) == 12
        assert set(digest) <= set("0123456789abcdef")
    assert CHECKED.stat().st_size < 100_000


def test_rules_still_make_the_checked_pairs_of_recorded_sessions() -> None:
    """None is missing in a sample of the recordings, and today's short forms get a score at each level."""
    folder("sessions")
    there = recorded_material(quick=True)
    assert there.missing == 0
    levels = {row.name.partition(" ")[0] for row in short_forms.scores(quick=True)}
    assert levels == {each.label for each in (Fidelity.DETAILED, Fidelity.STUB, Fidelity.EVICTED)}

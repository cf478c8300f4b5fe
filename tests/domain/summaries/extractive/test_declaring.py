"""What a rendition declares is true of the full content: as a law over any text, and over recorded objects."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.aggregate import SHARE, WORTH_SUMMARIZING
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.segmentation.segment import Draft
from mnemosyne.domain.summaries.extractive import summarize
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest
from mnemosyne_lab.evaluation.reading import drafts_of, recording
from tests.domain.recorded import sessions
from tests.domain.summaries.extractive.test_extractive import KINDS, LINES, asked

SIGNS = {
    "failing test": r"--- FAIL: \S|FAILED \S+::\S|(?:FAIL|ERROR): \S",
    "hunk": r"@@ -\d",
    "question": r".*\?[\"')\]*_]*\s*$",
    "open step": r"\s*(?:pending|in_progress): |\s*[-*] \[ \] ",
    "finished step": r"\s*completed: |\s*[-*] \[[xX]\] ",
    "passing test": r"\s*--- PASS: \S|ok\s+\S|.*\.\.\. ok$",
}
"""How a line of some of the sorts that are counted looks, said once more: what has the look is counted, if not more."""


def false_claims(request: RenditionRequest, given: ProposedRendition) -> list[str]:
    """What a rendition declares that is not so."""
    if given.text == request.text:
        return [*given.declared.dropped, *given.declared.fault_when]
    full, text = request.text, given.text
    lines = 2 * full.count("\n") + 2 + len(full) // 20 + _missing_lines(full)
    wrong = []
    for phrase in given.declared.dropped:
        lost, of, noun = _counts(phrase, full)
        if lost < 1 or lost > of or of > lines:
            wrong.append(phrase)
        elif noun in SIGNS and of - lost > _looking(SIGNS[noun], text) + _cut_lines(text):
            wrong.append(f"{phrase}, of which fewer are there")
    for phrase in given.declared.can_answer:
        found = re.match(r"(?:all ([\d,]+) |the only )([a-z ]+?)s?(?: of .*)?$", phrase, re.DOTALL)
        assert found is not None, phrase
        for sign in [SIGNS[found[2]]] if found[2] in SIGNS else []:
            missing = {line.strip() for line in full.split("\n") if re.match(sign, line)} - _shown(text)
            if found[2] == "passing test":
                missing = {line for line in missing if not _is_folded(line, text)}
            wrong += [f"{phrase}: without {line[:60]!r}" for line in missing if _is_counted(found[2], line)]
    names, needs = _names(given.declared.fault_when), given.declared.fault_when
    wrong += [f"{name} is missed and there" for name in names if name in text]
    wrong += [f"{name} is nowhere" for name in names if name not in full]
    if given.declared.dropped and not needs:
        wrong.append("something was dropped that nothing needs")
    return wrong


def _counts(phrase: str, full: str) -> tuple[int, int, str]:
    """How many of how many, of what; every line is one of all."""
    found = re.fullmatch(r"([\d,]+) of ([\d,]+) (.+?)(?:es|s)?", phrase)
    if found is None:
        lines = re.fullmatch(r"([\d,]+) lines? in all", phrase)
        assert lines is not None, phrase
        return int(lines[1].replace(",", "")), full.count("\n") + full.count("\r") + 1 + _missing_lines(full), "line"
    return int(found[1].replace(",", "")), int(found[2].replace(",", "")), found[3]


def _missing_lines(text: str) -> int:
    """A text may be a short form itself: its marks stand for lines that are missing in it."""
    return sum(map(int, re.findall(r"⋯ (\d+)", text)))


def _looking(sign: str, text: str) -> int:
    """How many lines look so; a line of what passed has a name for each."""
    folded = SIGNS["passing test"]
    return sum(
        max(1, len(line.split()) - 1) if sign == folded else 1 for line in text.split("\n") if re.match(sign, line)
    )


def _cut_lines(text: str) -> int:
    """Lines in which something was cut: there, what was kept may look like nothing of its sort."""
    return sum("⋯" in line for line in text.split("\n"))


def _shown(text: str) -> set[str]:
    return {re.sub(r"^\d+→", "", line).strip() for line in text.split("\n")}


def _is_folded(line: str, text: str) -> bool:
    """Whether a line of what passed tells of it among others: of a package the end of its path."""
    name = re.sub(r"^(?:--- PASS: |ok\s+)", "", line).split()[0]
    return any(
        name in shown.split() or f"⋯/{'/'.join(name.split('/')[-2:])}" in shown.split() for shown in text.split("\n")
    )


def _is_counted(noun: str, line: str) -> bool:
    """Questions that say something are counted, and no headings; of tests those that are not pieces of a long line."""
    return noun not in ("question",) and len(line) < 60


def _names(fault_when: tuple[str, ...]) -> list[str]:
    first = fault_when[0] if len(fault_when) > 1 else ""
    return first.split(", ") if first else []


@given(LINES, st.integers(0, 900), st.sampled_from(["Read", "Bash", "Grep", None]), st.sampled_from(list(ObjectKind)))
def test_what_is_declared_of_any_text_is_true(text: str, target: int, tool: str | None, kind: ObjectKind) -> None:
    request = RenditionRequest(kind=kind, source_tool=tool, source_key=None, text=text, target_chars=target)
    given = summarize(request)
    if target >= 16:
        assert false_claims(request, given) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_what_is_declared_of_each_role_is_true(kind: str, share: float) -> None:
    request = asked(KINDS[kind], int(len(KINDS[kind]) * share))
    given = summarize(request)
    assert false_claims(request, given) == []
    assert given.declared.fault_when


def test_numbers_that_leap_to_another_part_of_a_file_are_no_lines_that_were_cut() -> None:
    shown = [*range(1, 60), *range(900, 960)]
    text = "\n".join(f"{number:6}→    value_{number} = load({number})" for number in shown)
    given = summarize(asked(text, len(text) // 5))
    lost, of, _ = _counts(given.declared.dropped[-1], text)
    assert 60 < lost < of == len(shown)


def test_what_a_script_ticks_off_is_no_passing_test() -> None:
    text = "".join(f"✓ step number {n} of the installation is set up\n" for n in range(60))
    request = RenditionRequest(
        kind=ObjectKind.TOOL_RESULT, source_tool="Bash", source_key=None, text=f"{text}Done\n", target_chars=500
    )
    declared = summarize(request).declared
    assert not any("passing test" in phrase for phrase in (*declared.dropped, *declared.can_answer))


def test_a_rendition_that_is_the_whole_text_declares_no_loss() -> None:
    given = summarize(asked("src/a.py\n", 100))
    assert (given.declared.dropped, given.declared.fault_when) == ((), ())


def requests(draft: Draft) -> Iterator[RenditionRequest]:
    yield RenditionRequest(
        kind=draft.kind,
        source_tool=draft.source_tool,
        source_key=draft.source_key,
        text=draft.text,
        parts=draft.parts,
        target_chars=int(SHARE * len(draft.text)),
    )


def test_what_is_declared_of_recorded_objects_is_true() -> None:
    wrong, looked_at = [], 0
    for session in sessions(every=20):
        for draft in drafts_of(recording("recorded", session))[::3]:
            if len(draft.text) >= WORTH_SUMMARIZING and draft.places:
                for request in requests(draft):
                    looked_at += 1
                    found = false_claims(request, summarize(request))
                    wrong += [f"{session['name']} {draft.kind.value}: {claim}" for claim in found]
    assert looked_at > 50
    assert wrong == []

"""The extractive helper keeps to its budget, cuts and never writes, says what it cut, and keeps what it was told to."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.summaries.extractive import MINIMUM_CHARS, main_role, summarize
from mnemosyne.domain.summaries.renditions import Accepted, ProposedRendition, RenditionRequest, accept
from mnemosyne.domain.text.entities import specifics
from tests.domain.recorded import sessions

PYTHON = "".join(
    f'def handler_{i}(request: Request) -> Reply:\n    """Answer number {i}."""\n'
    + "".join("    value = value + step\n    other = value\n" for _ in range(9))
    + "    return value\n\n\n"
    for i in range(20)
)
LOG = (
    "$ make test\n"
    + "".join(f"tests/test_{i}.py ... ok\n" for i in range(60))
    + "ERROR: KeyError in src/store.py:88\n"
    + "".join(f"tests/late_{i}.py ... ok\n" for i in range(60))
    + "Ran 121 tests in 4.38s\n"
)
DIFF = "".join(
    f"diff --git a/src/m{i}.py b/src/m{i}.py\n@@ -{i}1,4 +{i}1,5 @@ def name_{i}():\n"
    + "".join(" unchanged line of the file\n" for _ in range(12))
    + f"-    old_{i}\n+    new_{i}\n"
    for i in range(6)
)
NUMBERED = "\n".join(f"{i:6}→{line}" for i, line in enumerate(PYTHON.splitlines(), 500))
PROSE = (
    "# Heading\n\n"
    + "It rained, and nothing happened at all that day. " * 8
    + "We chose `jwt_cookie` because of src/auth.ts. "
)
LISTING = "Found 90 files\n" + "".join(f"src/module_{i % 9}/part_{i}.ts\n" for i in range(90))
WORDS = "name_of_it, " * 900
JSON = '[{"id": "a-1", "state": "open"}' + "".join(f', {{"id": "a-{i}", "state": "open"}}' for i in range(200)) + "]"
KINDS = {"code": PYTHON, "test run": LOG, "diff": DIFF, "prose": PROSE * 4, "listing": LISTING, "data": JSON}

LINES = st.lists(
    st.sampled_from(
        [
            *(*PYTHON.splitlines()[:14], *DIFF.splitlines()[:16], *LOG.splitlines()[58:64], PROSE, JSON, ""),
            *("⋯ 42 lines", "⋯", "   12→def f(x):", "   14→    return read_config(x)", "x" * 500, "a_b " * 200),
            *("\x1b[31mFAIL\x1b[0m", "ж 世界"),
        ]
    )
    | st.text(),
    max_size=40,
).map("\n".join)


def asked(
    text: str, target: int, *protected: str, tool: str | None = "Bash", key: str | None = None
) -> RenditionRequest:
    return RenditionRequest(
        kind=ObjectKind.TOOL_RESULT,
        source_tool=tool,
        source_key=key,
        text=text,
        target_chars=target,
        protected=protected,
    )


@given(LINES, st.integers(0, 900))
@example("\ud83d" * 900, 40)
@example("\x00\x01\x02" * 400, 60)
@example("", 16)
@example("⋯ 999999999", 16)
def test_no_rendition_of_any_text_is_longer_than_its_target(text: str, target: int) -> None:
    assert len(summarize(asked(text, target)).text) <= target


@pytest.mark.parametrize("text", ["x" * 1_000_000, "word " * 200_000, "a_b(c, 'd');" * 80_000, "\n" * 1_000_000])
def test_a_megabyte_on_one_line_or_none_has_one_too(text: str) -> None:
    candidate = summarize(asked(text, 10_000))
    assert 0 < len(candidate.text) <= 10_000


@given(LINES, st.integers(MINIMUM_CHARS, 900), st.sampled_from(["Read", "Bash", None]))
def test_nothing_is_invented(text: str, target: int, tool: str | None) -> None:
    source = text.replace("⋯", "…")  # a source with our marks is an earlier rendition's, not an L0
    request = asked(source, target, tool=tool)
    candidate = summarize(request)
    if candidate.text.strip() and len(candidate.text) < len(source):
        verdict = accept(request, ProposedRendition(candidate.text, Declared()))
        # What a source without Latin letters says cannot be checked; such a summary is its own lines all the same.
        assert isinstance(verdict, Accepted) or any(why in verdict.reason for why in ("loses", "words", "Latin"))


@given(LINES, st.integers(0, 900))
def test_the_same_request_gives_the_same_rendition(text: str, target: int) -> None:
    assert summarize(asked(text, target)) == summarize(asked(text, target))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_cut_is_counted_in_lines_and_adds_up(kind: str) -> None:
    text = KINDS[kind].replace("}, {", "},\n{")
    for target in (len(text) * 3 // 10, len(text) // 20):
        rendition = summarize(asked(text, target)).text
        lines = rendition.split("\n")
        marks = [re.fullmatch(r"⋯(?: (\d+) lines?)?", line) for line in lines]
        cut = sum(int(mark[1] or 0) for mark in marks if mark)
        within = sum(line.count("⋯") for line, mark in zip(lines, marks, strict=True) if not mark)
        shown = sum(mark is None for mark in marks)
        assert sum(mark is not None and mark[1] is not None for mark in marks) <= 1
        assert cut + within > 0
        assert cut + shown <= text.removesuffix("\n").count("\n") + 1 <= cut + shown + within


@pytest.mark.parametrize("kind", KINDS)
def test_the_role_is_known_by_the_texts_shape(kind: str) -> None:
    assert main_role(asked(KINDS[kind], 100)).value == kind


def test_a_cut_within_one_line_says_so_and_counts_no_lines() -> None:
    text = summarize(asked(WORDS, len(WORDS) // 20)).text
    assert "⋯" in text
    assert " 0" not in text
    assert "\n" not in text.replace("⋯ 1 line\n", "")


def test_a_line_of_json_is_broken_at_its_records_and_what_is_cut_among_them_is_marked() -> None:
    lines = summarize(asked(JSON, len(JSON) // 20)).text.split("\n")
    kept = [n for n, line in enumerate(lines) if line.strip("[],") and "⋯" not in line]
    assert all(lines[n].count('"id"') == 1 for n in kept)
    numbers = [int(re.search(r"a-(\d+)", lines[n])[1]) for n in kept]  # type: ignore[index]
    assert all(
        b == a + 1 or "⋯" in lines[m - 1] for (n, a), (m, b) in pairwise(zip(kept[1:], numbers[1:], strict=True))
    )


def test_code_keeps_its_signatures() -> None:
    candidate = summarize(asked(PYTHON, len(PYTHON) * 3 // 10))
    assert all(f"def handler_{i}(" in candidate.text for i in range(20))
    assert candidate.declared.can_answer == ("all 20 signatures",)


def test_it_is_not_claimed_that_all_signatures_are_there_when_they_are_not() -> None:
    candidate = summarize(asked(PYTHON, len(PYTHON) // 20))
    kept = candidate.text.count("def ")
    assert 0 < kept < 20
    assert candidate.declared.can_answer == ()
    assert f"{20 - kept} of 20 signatures" in candidate.declared.dropped


def test_numbered_lines_keep_their_numbers() -> None:
    lines = dict(line.strip().split("→", 1) for line in NUMBERED.split("\n"))
    kept = [line for line in summarize(asked(NUMBERED, 2000)).text.split("\n") if "→" in line]
    assert len(kept) > 20
    assert all(lines[number] == text for number, text in (line.split("→", 1) for line in kept))


def test_a_log_keeps_the_error_and_the_verdict() -> None:
    text = summarize(asked(LOG, 110)).text
    assert "ERROR: KeyError in src/store.py:88" in text
    assert "Ran 121 tests in 4.38s" in text


def test_a_diff_keeps_its_heads() -> None:
    candidate = summarize(asked(DIFF, len(DIFF) * 3 // 10))
    assert candidate.text.count("diff --git") == 6
    assert candidate.text.count("@@ -") == 6
    assert {"all 6 files", "all 6 hunks"} <= set(candidate.declared.can_answer)


def test_prose_keeps_the_sentence_with_the_decision() -> None:
    assert "We chose `jwt_cookie` because of src/auth.ts." in summarize(asked(PROSE, 100)).text


def test_protected_snippets_survive() -> None:
    snippet = "    other = value\n    return value"
    candidate = summarize(asked(PYTHON, 300, snippet, "handler_17", "not there"))
    assert snippet in candidate.text
    assert "handler_17" in candidate.text


def test_the_clients_reminder_to_the_model_is_not_torn_out_of_its_place() -> None:
    text = f"{NUMBERED}\n\n<system-reminder>\nYou MUST refuse to improve this_code.\n</system-reminder>\n"
    assert "refuse" not in summarize(asked(text, len(text) // 3, tool="Read")).text


def test_recorded_results_keep_to_their_targets_and_invent_nothing() -> None:
    texts = [
        block["content"]
        for session in sessions()
        for message in session["messages"][:60]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result" and isinstance(block.get("content"), str)
    ]
    some = [text for text in texts if len(text) > 1500][::20]
    assert len(some) > 50
    rejected = []
    for text in some:
        l1 = asked(text, len(text) * 3 // 10)
        l2 = asked(text, max(MINIMUM_CHARS, len(text) // 20))
        for request in (l1, l2):
            given = summarize(request)
            assert len(given.text) <= request.target_chars
            verdict = accept(request, ProposedRendition(given.text, Declared()))
            rejected += [] if isinstance(verdict, Accepted) else [verdict.reason]
    assert [reason for reason in rejected if "invents" in reason or "long" in reason] == []


def test_of_records_about_as_many_specifics_survive_as_in_head_and_tail() -> None:
    budget = len(JSON) * 3 // 10
    cut = JSON[: budget // 2] + JSON[-budget // 2 :]
    ours = summarize(asked(JSON, budget)).text
    assert len(specifics(JSON) & specifics(ours)) >= len(specifics(JSON) & specifics(cut)) * 0.8


def test_many_blank_lines_are_one_mark_and_a_few_stay_as_they_are() -> None:
    text = f"{PYTHON}\n\n\n\nlast_before(x)" + "\n" * 1_000_000 + f"first_after(y)\n{PYTHON}"
    found = summarize(asked(text, 4_000, "last_before(x)", "first_after(y)")).text
    assert re.search(r"last_before\(x\)\n⋯(?: \d+ lines)?\nfirst_after\(y\)", found)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(str(n * n) for n in range(400)),
        "alpha beta gamma " * 300,
        "\n".join(f"строка {n} 行 {n} שורה {n} línea {n}" for n in range(200)),
        "error: error: " * 400,
    ],
    ids=["numbers alone", "no sentence", "scripts mixed", "an error in an error"],
)
@pytest.mark.parametrize("kind", [ObjectKind.TOOL_RESULT, ObjectKind.CONVERSATION_PHASE, ObjectKind.ERROR_CONTEXT])
def test_text_without_a_form_of_its_own_has_a_short_form_that_says_something_of_it(kind: ObjectKind, text: str) -> None:
    for share in (0.3, 0.05):
        target = int(len(text) * share)
        found = summarize(
            RenditionRequest(kind=kind, source_tool=None, source_key=None, text=text, target_chars=target)
        ).text
        shown = [part for line in found.split("\n") for part in line.split("⋯") if part.strip()]
        assert len(found) <= target
        assert any(part.strip() in text for part in shown)


def test_what_a_client_puts_behind_an_answer_is_no_part_of_it() -> None:
    said = "".join(f"Requirement already satisfied: part_{n}\n" for n in range(60))
    behind = "(Open file: /src/setup.py)\n(Current directory: /src)\nbash-$"
    found = summarize(asked(f"command: pip install -e .\n{said}Successfully built it\n{behind}", 300)).text
    assert "Successfully built it" in found
    assert not any(line in found for line in behind.split("\n"))

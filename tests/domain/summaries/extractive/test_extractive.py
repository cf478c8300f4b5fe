"""A rendition consists of source text, fits its target, marks cuts, and keeps information that only one line has."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.summaries.extractive import MINIMUM_CHARS, summarize
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest, find_fault
from mnemosyne.domain.text.entities import without_colours
from mnemosyne.domain.text.parts import PartRole, TextPart, join
from tests.domain.recorded import sessions
from tests.profiles import rarely

PYTHON = "".join(
    f'def handler_{i}(request: Request) -> Reply:\n    """Answer number {i}."""\n'
    + "".join("    value = value + step\n    other = value\n" for _ in range(9))
    + "    return value\n\n\n"
    for i in range(20)
)
NUMBERED = "\n".join(f"{i:6}→{line}" for i, line in enumerate(PYTHON.splitlines(), 500))
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
    + f"-    old_{i}\n+    new_value_of_{i}\n"
    for i in range(6)
)
PROSE = (
    "# Heading\n\n"
    + "It rained, and nothing happened at all that day. " * 8
    + "We chose `jwt_cookie` because of src/auth.ts. "
)
PATHS = "Found 90 files\n" + "".join(f"src/module_{i % 9}/part_{i}.ts\n" for i in range(90))
HITS = "".join(
    f"src/app/views_{i}.py:{n}:    return load_{i}_{n}(request)\n" for i in range(8) for n in range(20, 90, 7)
)
PASSED = "".join(f"--- PASS: TestOrders_Case{i} (0.0{i % 9}s)\n" for i in range(60))
JSON = '[{"id": "a-1", "state": "open"}' + "".join(f', {{"id": "a-{i}", "state": "open"}}' for i in range(200)) + "]"
TEXTS = {
    "code": PYTHON,
    "numbered code": NUMBERED,
    "log": LOG,
    "diff": DIFF,
    "prose": PROSE * 4,
    "paths": PATHS,
    "hits": HITS,
    "rows": PASSED,
    "data": JSON,
}

LINES = st.lists(
    st.sampled_from(
        [
            *(*PYTHON.splitlines()[:14], *DIFF.splitlines()[:16], *LOG.splitlines()[58:64], PROSE, JSON, ""),
            *("⋯ 42 lines", "⋯", "   12→def f(x):", "   14→    return read_config(x)", "x" * 500, "a_b " * 200),
            *("\x1b[31mFAIL\x1b[0m", "ж 世界", *HITS.splitlines()[:6], *PASSED.splitlines()[:6]),
        ]
    )
    | st.text(),
    max_size=40,
).map("\n".join)


def asked(text: str, target: int, *parts: TextPart, key: str | None = None) -> RenditionRequest:
    return RenditionRequest(
        kind=ObjectKind.TOOL_RESULT, source_tool="Bash", source_key=key, text=text, target_chars=target, parts=parts
    )


def short(text: str, share: float = 0.3) -> str:
    return summarize(asked(text, int(len(text) * share))).text


@given(LINES, st.integers(0, 900))
@example("\ud83d" * 900, 40)
@example("\x00\x01\x02" * 400, 60)
@example("", 16)
@example("⋯ 999999999", 16)
def test_rendition_is_deterministic_and_within_its_target(text: str, target: int) -> None:
    rendition = summarize(asked(text, target))
    assert len(rendition.text) <= target
    assert rendition == summarize(asked(text, target))


@given(LINES, st.integers(MINIMUM_CHARS, 900))
def test_each_word_is_in_the_source(text: str, target: int) -> None:
    source = text.replace("⋯", "…").replace("→", ":").replace("\t", " ")
    rendition = re.sub(r"(?m)^⋯ \d+ lines?$", "⋯", summarize(asked(source, target)).text)
    plain = without_colours(source)
    plain += re.sub(r"(:\d+:)\s+", r"\1", plain)  # the text of a hit stands behind its place without its indentation
    assert [word for piece in re.split(r"[⋯\n]", rendition) for word in piece.split() if word not in plain] == []


@given(LINES, st.integers(MINIMUM_CHARS, 900))
@example("src/app/views_0.py:20:    return load_0_20(request)", 16)
@example("see src/app/views_0.py:20:    return load_0_20(request)", 16)
def test_no_specific_is_invented(text: str, target: int) -> None:
    source = text.replace("⋯", "…")  # a source with our marks is an earlier rendition, not an L0
    request = asked(source, target)
    candidate = summarize(request)
    if candidate.text.strip() and len(candidate.text) < len(source):
        fault = find_fault(request, ProposedRendition(candidate.text, Losses()))
        # A source without Latin letters cannot be checked; its rendition has only its own lines all the same.
        assert fault is None or any(why in fault for why in ("loses", "words", "Latin"))


@pytest.mark.parametrize("kind", TEXTS)
def test_rendition_uses_its_target_and_is_accepted(kind: str) -> None:
    text = TEXTS[kind]
    request = asked(text, int(len(text) * 0.3))
    candidate = summarize(request)
    fault = find_fault(request, ProposedRendition(candidate.text, Losses()))
    assert fault is None or "loses" in fault
    assert len(candidate.text) > 0.2 * len(text) or kind in ("code", "numbered code", "prose")


@pytest.mark.parametrize("kind", TEXTS)
def test_one_mark_has_the_number_of_omitted_lines(kind: str) -> None:
    text = TEXTS[kind].replace("}, {", "},\n{")
    rendition = summarize(asked(text, len(text) * 3 // 10))
    counted = re.findall(r"(?m)^⋯ (\d+) lines?$", rendition.text)
    assert len(counted) <= 1
    full = sum(bool(line.strip()) for line in text.split("\n"))
    for number in counted:
        assert 0 < int(number) < full
        assert f"{number} line" in rendition.declared.dropped[0]


@pytest.mark.parametrize("kind", ["code", "log", "diff", "paths", "rows"])
def test_first_and_last_line_are_kept(kind: str) -> None:
    text = "the_first_line of it\n" + TEXTS[kind] + "the_last_line of it\n"
    lines = short(text).split("\n")
    assert lines[0] == "the_first_line of it"
    assert "the_last_line of it" in lines


@pytest.mark.parametrize("kind", ["code", "log", "diff", "paths", "hits", "rows"])
@pytest.mark.parametrize("odd", ["OSError: [Errno 28] disk_full at /var/spool", "limit_of_requests = 4711"])
def test_unique_line_is_kept(kind: str, odd: str) -> None:
    lines = TEXTS[kind].split("\n")
    half = len(lines) // 2
    assert odd in short("\n".join([*lines[:half], odd, *lines[half:]]))


def test_code_keeps_signatures_with_line_numbers() -> None:
    lines = dict(line.strip().split("→", 1) for line in NUMBERED.split("\n"))
    kept = [line for line in short(NUMBERED).split("\n") if "→" in line]
    assert all(lines[number] == text for number, text in (line.split("→", 1) for line in kept))
    assert sum("def handler_" in line for line in kept) == 20


def test_diff_keeps_file_names_and_additions() -> None:
    found = short(DIFF)
    assert [n for n in range(6) if f"b/src/m{n}.py" not in found] == []
    assert [n for n in range(6) if f"new_value_of_{n}" not in found] == []


def test_prose_keeps_whole_sentences_with_rare_names_first() -> None:
    assert "We chose `jwt_cookie` because of src/auth.ts." in summarize(asked(PROSE, 120)).text


def test_search_hits_without_text_follow_their_file_name() -> None:
    found = short(HITS)
    for name, number in (line.split(":")[:2] for line in HITS.splitlines()):
        name = name.rpartition("/")[2]
        assert re.search(rf"{name}:(?:\d+ )*{number}\b|{name}:(?s:.)*?\n⋯{number}:", found), (name, number)


def test_rows_that_differ_only_in_a_name_share_a_line() -> None:
    found = short(PASSED, 0.6)
    assert [n for n in range(60) if not re.search(rf"PASS:.* ?TestOrders_Case{n}\b", found)] == []


def test_calls_of_an_object_share_the_space() -> None:
    parts = [
        part
        for n, text in enumerate((LOG, "version: 3.1.4159\n" + "tests/a.py ... ok\n" * 90, PYTHON))
        for part in (TextPart(PartRole.CALL, f"command: run_{n}"), TextPart(PartRole.RESULT, text))
    ]
    full = join(parts)
    found = summarize(asked(full, len(full) * 3 // 10, *parts)).text
    assert all(line in found.split("\n") for line in ("command: run_0", "command: run_1", "command: run_2"))
    assert "version: 3.1.4159" in found
    assert "KeyError in src/store.py:88" in found
    assert "def handler_19(" in found


def test_speakers_are_named_if_there_are_two() -> None:
    parts = [TextPart(PartRole.USER, "Why does store.py fail?\n" + PROSE), TextPart(PartRole.ASSISTANT, PROSE * 2)]
    full = join(parts)
    found = summarize(asked(full, len(full) * 3 // 10, *parts)).text
    assert found.startswith("[user]\nWhy does store.py fail?")
    assert found.count("[assistant]") == 1


def test_question_of_the_user_is_kept_before_the_rest_of_a_message() -> None:
    question = "Could the cache be warmed before the first request?"
    parts = [TextPart(PartRole.USER, f"{PROSE}\n{question}\n{PROSE}"), TextPart(PartRole.ASSISTANT, PROSE * 4)]
    full = join(parts)
    assert question in summarize(asked(full, 300, *parts)).text


@pytest.mark.parametrize("place", ["src/store.py:88:5: ", "    test_store.go:88: "])
def test_message_about_a_place_is_kept_with_the_place(place: str) -> None:
    lines = LOG.split("\n")
    report = f"{place}the value of limit is unused"
    assert report in short("\n".join([*lines[:30], report, *lines[30:]]))


@pytest.mark.parametrize(
    "unit", ["x", "word ", "a_b(c, 'd');", '{"id":1},', "\t", "7 ", *rarely(["ok a/b\n", "a.py:1:x\n"])]
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        began = time.thread_time()
        assert 0 < len(summarize(asked(text, 2_000)).text) <= 2_000
        return time.thread_time() - began

    quarter, whole = seconds(20_000), seconds(80_000)
    assert whole < 10 * quarter + 0.2


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(str(n * n) for n in range(400)),
        "alpha beta gamma " * 300,
        "\n".join(f"строка {n} 行 {n} שורה {n} línea {n}" for n in range(200)),
        "|| -- || " * 400,
    ],
    ids=["numbers alone", "no sentence", "scripts mixed", "no words"],
)
def test_unusual_text_has_a_rendition_with_source_text(text: str) -> None:
    for share in (0.3, 0.05):
        shown = [part for line in short(text, share).split("\n") for part in line.split("⋯") if part.strip()]
        assert any(part.strip() in text for part in shown)


def test_lines_added_by_clients_are_omitted() -> None:
    said = "".join(f"Requirement already satisfied: part_{n}\n" for n in range(60))
    behind = "(Open file: /src/setup.py)\n(Current directory: /src)\nbash-$"
    found = short(f"command: pip install -e .\n{said}Successfully built it\n{behind}")
    assert "Successfully built it" in found
    assert not any(line in found for line in behind.split("\n"))
    reminded = f"{NUMBERED}\n\n<system-reminder>\nYou MUST refuse to improve this_code.\n</system-reminder>\n"
    assert "refuse" not in short(reminded)


def test_rendition_declares_names_that_only_the_source_has() -> None:
    request = asked(LOG, 400, key="make test")
    candidate = summarize(request)
    names = candidate.declared.fault_when[0].split(", ")
    assert all(name in LOG and name not in candidate.text for name in names)
    assert candidate.declared.fault_when[-1] == "the exact text of make test"
    assert summarize(asked("short text", 400)).declared == Losses()


def test_renditions_of_recorded_results_fit_and_invent_nothing() -> None:
    texts = [
        block["content"]
        for session in sessions(every=4)
        for message in session["messages"][:60]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result" and isinstance(block.get("content"), str)
    ]
    some = [text for text in texts if len(text) > 1500][::5]
    assert len(some) > 50
    rejected = []
    for text in some:
        request = asked(text, len(text) * 3 // 10)
        given = summarize(request)
        assert len(given.text) <= request.target_chars
        fault = find_fault(request, ProposedRendition(given.text, Losses()))
        rejected += [] if fault is None else [fault]
    # The context lines of a search, path-12-text, are read as locations, path:12, which are not in the source.
    assert [each for each in rejected if "long" in each or ("invents" in each and "location" not in each)] == []

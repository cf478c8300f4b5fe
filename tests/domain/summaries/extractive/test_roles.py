"""What a reader needs of each role of text is in its short form, and what has no role is cut all the same."""

import json
import re

import pytest

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.summaries.extractive import summarize
from mnemosyne.domain.summaries.extractive.roles import TextRole, role_of
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest
from mnemosyne.domain.text.parts import PartRole, TextPart, join

FILLER = "".join(f"ok  \texample.org/part_{number}\t0.{number}s\n" for number in range(40))
REFUSED = "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    + "".join(f'  File "/lib/step_{n}.py", line {n}, in step_{n}\n    return step_{n + 1}(x)\n' for n in range(1, 30))
    + "KeyError: 'net'\n\nDuring handling of the above exception, another exception occurred:\n\n"
    + "Traceback (most recent call last):\n"
    + "".join(f'  File "/lib/late_{n}.py", line {n}, in late_{n}\n    late_{n + 1}()\n' for n in range(1, 30))
    + "settings.SettingsError: no section for net\n"
)
CODE = "\n".join(
    f"{number:6}→{line}"
    for number, line in enumerate(
        (line for n in range(30) for line in (f"func Do{n}(x int) int {{", "\ty := x", "\treturn y", "}", "")), 1
    )
)


def short(
    kind: ObjectKind, parts: list[TextPart], share: float, *, tool: str | None = None, key: str | None = None
) -> ProposedRendition:
    text = join(parts)
    return summarize(
        RenditionRequest(
            kind=kind,
            source_tool=tool,
            source_key=key,
            text=text,
            parts=tuple(parts),
            target_chars=max(240, int(len(text) * share)),
        )
    )


def call(tool: str, asked: str, answered: str) -> list[TextPart]:
    return [TextPart(PartRole.CALL, asked, tool), TextPart(PartRole.RESULT, answered, tool)]


@pytest.mark.parametrize("share", [0.3, 0.05])
def test_a_refused_edit_keeps_why_and_where(share: float) -> None:
    old = "\n".join(f"    value_{n} = old_{n}({n})" for n in range(60))
    asked = f"file_path: /src/part.py\nold_string: {old}\nnew_string: {old}"
    text = short(ObjectKind.ERROR_CONTEXT, call("Edit", asked, REFUSED), share, tool="Edit").text
    assert "File has not been read yet" in text
    assert "/src/part.py" in text


@pytest.mark.parametrize("share", [0.3, 0.05])
def test_of_an_error_inside_an_error_the_last_and_the_first_are_kept(share: float) -> None:
    text = short(ObjectKind.ERROR_CONTEXT, call("Bash", "command: python run.py", TRACEBACK), share, tool="Bash").text
    assert "SettingsError: no section for net" in text
    assert "KeyError: 'net'" in text


@pytest.mark.parametrize("share", [0.3, 0.08])
def test_a_test_run_keeps_what_failed_and_the_counts_before_what_passed(share: float) -> None:
    said = (
        f"{FILLER}--- FAIL: TestNet (0.1s)\n    net_test.go:12: got 3, want 4\n{FILLER}FAIL\nDONE 81 tests, 1 failure"
    )
    text = short(ObjectKind.ERROR_CONTEXT, call("Bash", "command: go test ./...", said), share, tool="Bash").text
    assert "--- FAIL: TestNet" in text
    assert "net_test.go:12: got 3, want 4" in text
    assert "81 tests, 1 failure" in text
    assert text.count("ok  ") < 10


def test_what_a_test_only_notes_with_its_place_does_not_crowd_out_what_went_wrong() -> None:
    notes = "".join(f"    net_test.go:{n}: Phase {n}: session {n} has begun\n" for n in range(10, 60))
    wrong = [f"    net_test.go:{n}: got {n}, want {n + 1}" for n in (70, 80, 90, 95)]
    between = f"\n{notes}".join(wrong)
    said = f"--- FAIL: TestNet (0.1s)\n{notes}{between}\n{notes}FAIL"
    text = short(ObjectKind.ERROR_CONTEXT, call("Bash", "command: go test ./...", said), 0.03, tool="Bash").text
    assert all(each in text for each in wrong)


LOG = "".join(f"    net_test.go:{number}: the branch {number} should exist now\n" for number in range(20, 40))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            f"--- FAIL: TestOne (0.1s)\n{LOG}    net_test.go:41: expected 2 points, got 0\n",
            f"--- FAIL: TestTwo (0.1s)\n{LOG}    net_test.go:52: expected a trailer\n",
            id="below its verdict",
        ),
        pytest.param(
            f"=== RUN   TestOne\n{LOG}    net_test.go:41: expected 2 points, got 0\n--- FAIL: TestOne (0.1s)\n",
            f"=== RUN   TestTwo\n{LOG}    net_test.go:52: expected a trailer\n--- FAIL: TestTwo (0.1s)\n",
            id="as it runs",
        ),
    ],
)
def test_of_each_failing_test_the_last_that_it_noted_is_kept_before_its_log(one: str, other: str) -> None:
    parts = call("Bash", "command: go test ./...", f"{FILLER}{one}{other}FAIL")
    text = short(ObjectKind.ERROR_CONTEXT, parts, 0.05, tool="Bash").text
    assert "net_test.go:41: expected 2 points, got 0" in text
    assert "net_test.go:52: expected a trailer" in text


def test_a_search_keeps_its_pattern_and_its_hits_each_path_once() -> None:
    path = "some/rather/deep/folder/of/a/project/module_{}.py"
    hits = [f"{path.format(n // 10)}:{n}:    value = read_config(x)" for n in range(40)]
    around = [f"{path.format(n // 10)}-{n + 1}-    other = value" for n in range(40)]
    said = "\n".join(line for pair in zip(hits, around, strict=True) for line in pair)
    text = short(ObjectKind.TOOL_RESULT, call("Grep", "pattern: read_config", said), 0.4, tool="Grep").text
    assert text.startswith("pattern: read_config")
    assert sum(line.endswith(":value = read_config(x)") for line in text.split("\n")) == 40
    assert all(text.count(path.format(n)) == 1 for n in range(4))


def test_a_short_search_says_in_which_lines_of_which_files_it_hit() -> None:
    hits = [f"some/deep/folder/of/it/module_{n % 3}.py:{n}:    value = read_config(x)  # {n}" for n in range(30)]
    said = "\n".join(sorted(hits, key=lambda hit: hit.partition(":")[0]))
    text = short(ObjectKind.TOOL_RESULT, call("Grep", "pattern: read_config", said), 0.14, tool="Grep").text
    assert all(f"module_{n}.py:" in text for n in range(3))
    assert any(line.endswith("module_1.py:1 4 7 10 13 16 19 22 25 28") for line in text.split("\n"))


def test_what_stands_around_a_hit_is_not_kept_without_the_hit() -> None:
    hit = f"30:x = read({', '.join('something_long' for _ in range(12))})"
    said = "\n".join(hit if n == 30 else f"{n}-short" for n in range(60))
    text = short(ObjectKind.TOOL_RESULT, call("Grep", "pattern: x\npath: /src/do.py", said), 0.1, tool="Grep").text
    assert "30:x = read(" in text or "short" not in text


def test_how_many_files_a_search_found_is_kept_before_their_names() -> None:
    said = "Found 40 files\n" + "\n".join(f"some/deep/folder/module_{n}.py" for n in range(40))
    text = short(ObjectKind.TOOL_RESULT, call("Grep", "pattern: x", said), 0.05, tool="Grep").text
    assert "Found 40 files" in text


def test_what_ls_says_of_the_folder_itself_does_not_crowd_out_its_files() -> None:
    names = [f"-rw-r--r--  1 ada  staff  192 Jan 20 16:19 part_{number}.go" for number in range(40)]
    own = [
        "total 48",
        "drwxr-x---@ 6 ada  staff   192 Jan 20 16:19 .",
        "drwxr-xr-x@ 8 ada  staff   256 Jan 20 15:39 ..",
    ]
    parts = call("Bash", "command: ls -la src", "\n".join([*own, *names]))
    text = short(ObjectKind.TOOL_RESULT, parts, 0.1, tool="Bash").text
    assert not any(each in text for each in own)
    assert "part_0.go" in text


def test_warnings_do_not_crowd_out_the_error_and_the_counts() -> None:
    warnings = "".join(
        f"/lib/part_{n}.py:{n}: DeprecationWarning: part {n} will be removed, use the other one\n" for n in range(40)
    )
    said = f"{warnings}E       AssertionError: 3 is not 4\n{warnings}====== 1 failed, 40 passed in 3.1s ======"
    text = short(ObjectKind.ERROR_CONTEXT, call("Bash", "command: pytest", said), 0.04, tool="Bash").text
    assert "AssertionError: 3 is not 4" in text
    assert "1 failed, 40 passed" in text


def test_of_a_refusal_what_the_user_said_comes_first() -> None:
    old = "\n".join(f"    value_{n} = old_{n}({n})" for n in range(60))
    said = (
        "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nask me first"
    )
    asked = f"file_path: /src/part.py\nold_string: {old}"
    text = short(ObjectKind.ERROR_CONTEXT, call("Edit", asked, said), 0.05, tool="Edit").text
    assert "ask me first" in text
    assert not any(line.strip() in (")", "}") for line in text.split("\n"))


def test_the_shortest_form_of_a_phase_has_the_users_question_and_the_last_conclusion() -> None:
    asked = "The nightly export is slow. Why does it read every file of the archive twice?"
    thinking = "".join(f"I looked at part_{n} of it and saw nothing there.\n" for n in range(60))
    parts = [
        TextPart(PartRole.USER, asked),
        TextPart(
            PartRole.ASSISTANT, f"The problem is the lock in a.py.\n{thinking}So the cause is the second pass in b.py."
        ),
    ]
    text = short(ObjectKind.CONVERSATION_PHASE, parts, 0.05).text
    assert "Why does it read every file of the archive twice?" in text
    assert "the cause is the second pass in b.py" in text


def test_of_numbered_findings_each_is_named() -> None:
    said = "".join(f"### {n}. Finding about module_{n}\n\n{'It is long. ' * 30}\n\n" for n in range(1, 7))
    parts = call("Task", "description: review it", said)
    text = short(ObjectKind.TOOL_RESULT, parts, 0.25, tool="Task").text
    assert all(f"### {n}. Finding about module_{n}" in text for n in range(1, 7))


def test_a_failed_search_keeps_its_pattern() -> None:
    parts = [
        part for n in range(9) for part in call("Grep", f"pattern: never_there_{n}\nhead_limit: 9", "No matches found")
    ]
    text = short(ObjectKind.TOOL_RESULT, parts, 0.8, tool="Grep").text
    assert all(f"never_there_{n}" in text for n in range(9))


def test_a_file_keeps_its_path_and_each_signature_with_its_number() -> None:
    given = short(
        ObjectKind.FILE_CONTEXT, call("Read", "file_path: /src/do.go", CODE), 0.5, tool="Read", key="/src/do.go"
    )
    assert "/src/do.go" in given.text
    assert all(f"{5 * n + 1}→func Do{n}(x int) int {{" in given.text for n in range(30))
    assert given.declared.can_answer == ("all 30 signatures of do.go",)


def test_what_was_written_has_the_numbers_of_its_lines_in_the_file() -> None:
    body = "\n".join(line for n in range(30) for line in (f"def do_{n}(x):", "    y = x", "    return y", "", ""))
    parts = call("Write", f"file_path: /src/do.py\ncontent: {body}", "File created successfully at: /src/do.py")
    text = short(ObjectKind.FILE_CONTEXT, parts, 0.8, tool="Write", key="/src/do.py").text
    assert all(f"{5 * n + 1}→def do_{n}(x):" in text for n in range(30))


def test_a_todo_list_keeps_what_is_open() -> None:
    steps = ", ".join(
        f'{{"content": "Do the thing number {n}", "status": "{"completed" if n < 30 else "pending"}", "id": "x"}}'
        for n in range(34)
    )
    given = short(
        ObjectKind.PLAN, call("TodoWrite", f"todos: [{steps}]", "Todos have been modified"), 0.05, tool="TodoWrite"
    )
    assert all(f"pending: Do the thing number {n}" in given.text for n in range(30, 34))
    assert "all 4 open steps" in given.declared.can_answer


def test_both_speakers_of_a_phase_are_told_apart() -> None:
    long = " ".join(f"It rained on day {n}, and nothing else happened there." for n in range(40))
    parts = [
        TextPart(PartRole.USER, f"{long} Should we keep the old parser?"),
        TextPart(PartRole.ASSISTANT, f"{long} The root cause is the missing section, so we decided to keep it."),
    ]
    text = short(ObjectKind.CONVERSATION_PHASE, parts, 0.1).text
    user, _, assistant = text.partition("[assistant]")
    assert user.startswith("[user]")
    assert "Should we keep the old parser?" in user
    assert "The root cause is the missing section" in assistant


@pytest.mark.parametrize("share", [0.3, 0.05])
def test_prose_keeps_its_conclusion_and_its_question_as_sentences(share: float) -> None:
    said = "\n\n".join(
        [f"## Part {n}\n\nLet me look at file_{n}.py and other_{n}.py first." for n in range(20)]
        + ["## Summary\n\nThe root cause is a stale cache. We decided to drop it.\n\nShall I also update the docs?"]
    )
    text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], share).text
    assert "The root cause is a stale cache." in text
    assert "Shall I also update the docs?" in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("世界很大。我们决定保留缓存。为什么呢?" * 200, id="no blanks"),
        pytest.param("Мы решили оставить кэш. " * 200 + "Why? " * 100, id="mixed scripts"),
        pytest.param(" ".join(str(number) for number in range(2_000)), id="numbers only"),
        pytest.param("word " * 2_000, id="no sentence"),
        pytest.param("2026-01-01 ERROR no section;" * 20_000, id="a log on one line"),
    ],
)
@pytest.mark.parametrize("kind", list(ObjectKind))
def test_any_text_has_a_short_form_that_says_something(kind: ObjectKind, text: str) -> None:
    given = short(kind, [TextPart(PartRole.RESULT, text, "Bash")], 0.05, tool="Bash")
    assert sum(map(str.isalnum, given.text)) > 40


def test_a_listing_that_is_code_keeps_its_numbers_and_names() -> None:
    said = "\n".join(f"{n}:def handler_{n}(request):" for n in range(1, 80))
    text = short(ObjectKind.TOOL_RESULT, call("Bash", "command: grep -n def src/a.py", said), 0.3, tool="Bash").text
    assert "1:def handler_1(request):" in text
    assert "grep -n def src/a.py" in text


@pytest.mark.parametrize(
    ("kind", "tool", "about", "text", "role"),
    [
        (ObjectKind.TOOL_RESULT, "Bash", "git diff", "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b", TextRole.DIFF),
        (ObjectKind.ERROR_CONTEXT, "Bash", "make", "make: *** no rule", TextRole.FAILURE),
        (ObjectKind.TOOL_RESULT, "Bash", "pytest", "a.py::test_a PASSED\na.py::test_b PASSED", TextRole.TEST_RUN),
        (ObjectKind.TOOL_RESULT, "Grep", "x", "src/a.py:1:x", TextRole.LISTING),
        (ObjectKind.FILE_CONTEXT, "Read", "README.md", "# Title", TextRole.PROSE),
        (ObjectKind.FILE_CONTEXT, "Read", "a.json", "{}", TextRole.DATA),
        (ObjectKind.FILE_CONTEXT, "Bash", "a.py", "x = 1", TextRole.CODE),
        (ObjectKind.PLAN, "TodoWrite", "", "todos: []", TextRole.PLAN),
        (ObjectKind.CONVERSATION_PHASE, None, "", "Well.", TextRole.PROSE),
        (ObjectKind.TOOL_RESULT, "Bash", "make", "2026-01-01 10:00:00 INFO started", TextRole.LOG),
        (ObjectKind.TOOL_RESULT, "Bash", "cat", "", TextRole.LOG),
    ],
)
def test_the_role_follows_from_where_a_text_came_from_and_how_it_looks(
    kind: ObjectKind, tool: str | None, about: str, text: str, role: TextRole
) -> None:
    assert role_of(kind, tool, about, text.split("\n")) is role


def test_that_the_client_went_back_to_its_folder_is_no_last_line_of_a_log() -> None:
    said = "".join(f"step {number} of the build took {number} ms\n" for number in range(200)) + "Built 7 parts\n"
    parts = [*call("Bash", "command: make", f"{said}Shell cwd was reset to /home/someone/code")]
    text = short(ObjectKind.TOOL_RESULT, parts, 0.05, tool="Bash").text
    assert "Built 7 parts" in text
    assert "Shell cwd" not in text


def test_files_that_a_short_search_found_are_not_crowded_out_by_other_calls_of_the_object() -> None:
    long = "Found 60 files\n" + "\n".join(f"some/deep/folder/module_{n}.py" for n in range(60))
    found = "Found 2 files\nsome/deep/folder/found_here.py\nsome/deep/folder/and_there.py"
    parts = [part for n in range(4) for part in call("Grep", f"pattern: common_{n}", long)]
    text = short(ObjectKind.TOOL_RESULT, [*parts, *call("Grep", "pattern: rare", found)], 0.08, tool="Grep").text
    assert "found_here.py" in text
    assert "and_there.py" in text


def test_of_several_commands_each_answer_stands_below_its_command() -> None:
    rows = "\n".join(f"-rw-r--r--  1 ada  staff  192 Jan 20 16:19 part_{number}.go" for number in range(60))
    status = "On branch main\nChanges not staged for commit:\n\tmodified:   letter.rb\n\nno changes added to commit"
    parts = [part for n in range(4) for part in call("Bash", f"command: ls -la src/{n}", rows)]
    parts += call("Bash", "command: git status", status)
    lines = short(ObjectKind.TOOL_RESULT, parts, 0.07, tool="Bash").text.split("\n")
    assert lines.index("command: git status") < lines.index("\tmodified:   letter.rb")


def test_rows_of_ls_are_names_and_sizes() -> None:
    said = "total 8\ndrwxr-xr-x@ 8 ada  staff  256 Jan 20 15:39 src\n" + "\n".join(
        f"-rw-r--r--  1 ada  staff  {n} Jan 20 16:19 part {n}.go" for n in range(40)
    )
    lines = short(ObjectKind.TOOL_RESULT, call("Bash", "command: ls -la", said), 0.3, tool="Bash").text.split("\n")
    assert "src/" in lines
    assert "7 part 7.go" in lines


def test_a_folder_or_a_file_that_several_calls_share_is_told_once() -> None:
    folder = "/home/ada/code/some/project"
    parts = [
        part
        for name in ("left", "right")
        for part in call(
            "Bash", f"command: cd {folder} && ls -F {name}", "\n".join(f"{name}_{n}.py" for n in range(30))
        )
    ]
    text = short(ObjectKind.TOOL_RESULT, parts, 0.7, tool="Bash").text
    assert text.count(folder) == 1
    assert "command: ⋯ ls -F right" in text


def test_a_hit_that_speaks_of_an_error_stands_below_its_file() -> None:
    said = "\n".join(
        f"src/some/folder/module_{n // 10}.py{sep}{n}{sep}{'class ReadError' if n % 10 == 5 else 'other line'}"
        for n in range(40)
        for sep in (":" if n % 10 == 5 else "-",)
    )
    lines = short(ObjectKind.TOOL_RESULT, call("Grep", "pattern: ReadError", said), 0.2, tool="Grep").text.split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("15:class ReadError"))
    assert [line for line in lines[:at] if line.endswith(".py:5") or line.endswith(".py:15")][-1].endswith("_1.py:15")


def test_of_a_patch_what_is_added_is_kept_before_comments_and_what_went() -> None:
    hunks = "".join(
        f"@@ -{n}0,9 +{n}0,9 @@\n"
        + " the same line\n" * 6
        + f"+# a comment on {n}\n-    taken_out_{n} = old\n+    put_in_{n} = new\n"
        for n in range(8)
    )
    parts = call("Bash", "command: git diff", f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n{hunks}")
    text = short(ObjectKind.TOOL_RESULT, parts, 0.33, tool="Bash").text
    assert all(f"+    put_in_{n} = new" in text for n in range(8))
    assert "a comment on" not in text


def test_packages_that_passed_have_the_path_that_they_share_once() -> None:
    said = "".join(f"ok  \texample.org/ada/project/part_{n}\t(cached)\n" for n in range(30))
    text = short(ObjectKind.TOOL_RESULT, call("Bash", "command: go test ./...", said), 0.6, tool="Bash").text
    assert text.count("example.org/ada") <= 1
    assert all(f"⋯/project/part_{n}" in text.split() for n in range(2, 30))


def test_what_passed_one_after_the_other_stands_on_a_line_and_what_failed_on_its_own() -> None:
    passed, later = (
        "".join(f"=== RUN   Test{name}{n}\n--- PASS: Test{name}{n} (0.0{n}s)\n" for n in range(9))
        for name in ("Good", "Late")
    )
    said = f"{passed}=== RUN   TestBad\n    bad_test.go:7: got 1, want 2\n--- FAIL: TestBad (0.00s)\n{later}FAIL\n"
    given = short(ObjectKind.ERROR_CONTEXT, call("Bash", "command: go test -v ./...", said), 0.9, tool="Bash")
    assert "--- PASS: TestGood0 TestGood1 TestGood2" in given.text
    assert "\n--- FAIL: TestBad (0.00s)\n" in given.text
    assert "=== RUN" not in given.text
    assert "all 18 passing tests of go test -v ./..." in given.declared.can_answer


def test_a_test_that_began_and_never_ended_is_still_told() -> None:
    said = (
        "=== RUN   TestOne\n--- PASS: TestOne (0.00s)\n=== RUN   TestHangs\npanic: test timed out after 1s\n"
        + "x\n" * 99
    )
    parts = call("Bash", "command: go test -v ./...", said)
    assert "=== RUN   TestHangs" in short(ObjectKind.ERROR_CONTEXT, parts, 0.9, tool="Bash").text


def test_the_shortest_form_of_a_run_names_a_test_that_failed_beside_a_long_error() -> None:
    said = f"{FILLER}    net_test.go:12: got {{'a': {'1, ' * 60}}}, want 4\n--- FAIL: TestNet (0.1s)\n{FILLER}FAIL\n"
    text = short(ObjectKind.ERROR_CONTEXT, call("Bash", "command: go test ./...", said), 0.05, tool="Bash").text
    assert "--- FAIL: TestNet" in text
    assert "net_test.go:12: got" in text


def test_files_that_changed_stand_without_their_bars_and_before_how_long_it_took() -> None:
    rows = "".join(f" src/part_{n}.py                      |  {n}2 {'+' * 40}{'-' * 9}\n" for n in range(1, 9))
    said = f"[lint] $ ruff check\n[lint] Finished in 3.4s\n{rows} 8 files changed, 361 insertions(+), 2 deletions(-)\n"
    parts = call("Bash", "command: git diff --stat", said + "Finished in 4.09s\n")
    text = short(ObjectKind.TOOL_RESULT, parts, 0.05, tool="Bash").text
    assert " src/part_1.py | 12" in text
    assert "8 files changed, 361 insertions(+), 2 deletions(-)" in text
    assert "Finished in 3.4s" not in text


def test_a_folder_that_most_paths_share_stands_above_them_and_others_stay_whole() -> None:
    paths = [f"packages/server/source/part_{n}/file_{n}.ts" for n in range(20)]
    said = "\n".join([*paths[:10], "docs/guide/start.md", *paths[10:]])
    text = short(ObjectKind.TOOL_RESULT, call("Glob", "pattern: **/*", said), 0.9, tool="Glob").text
    assert text.count("packages/server/source/") == 1
    assert "⋯/part_3/file_3.ts" in text.split("\n")
    assert "docs/guide/start.md" in text.split("\n")


def test_of_code_values_are_kept_before_errors_that_are_only_passed_on() -> None:
    body = "".join(
        f'func Do{n}() error {{\n\tlimit{n} := load(LIMIT_{n}, "default-{n}")\n\tif err != nil {{\n'
        f'\t\treturn fmt.Errorf("failed to do number {n}: %w", err)\n\t}}\n}}\n'
        for n in range(20)
    )
    text = short(ObjectKind.FILE_CONTEXT, call("Read", "file_path: /src/do.go", body), 0.5, tool="Read").text
    assert text.count("LIMIT_") > text.count("failed to do number")


def test_reasons_and_what_was_settled_are_kept_before_what_only_tells() -> None:
    told = [f"The module number {n} reads its own file and then goes on with the next one." for n in range(40)]
    told[13] = "The lock is held too long because the writer waits for the disk."
    told[29] = "We keep the old table instead of a copy of it."
    said = "\n\n".join(told)
    text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], 0.1).text
    assert told[13] in text
    assert told[29] in text


def test_the_number_of_a_point_in_bold_is_not_cut_from_it() -> None:
    said = "\n\n".join(f"**{n}. Sourcing the file may break hook {n}** since it is read." for n in range(1, 30))
    text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], 0.3).text
    assert "**1. Sourcing the file may break hook 1**" in text
    assert "**1. ⋯" not in text


def test_each_section_of_a_document_opens_with_its_first_sentence() -> None:
    lines = [
        f"## Part {n}\n\nOpening number {n} tells it.\n\n"
        + "".join(f"Therefore detail {k} of {n} is fixed because it should.\n" for k in range(9))
        for n in range(8)
    ]
    text = short(
        ObjectKind.FILE_CONTEXT, call("Read", "file_path: /docs/guide.md", "\n".join(lines)), 0.45, tool="Read"
    ).text
    assert all(f"## Part {n}" in text and f"Opening number {n} tells it." in text for n in range(8))


def test_warnings_do_not_stand_for_a_test_that_failed_without_a_word() -> None:
    warned = "".join(f"  /lib/module_{n}.py:{n}: DeprecationWarning: name_{n} should go\n" for n in range(40))
    said = (
        f"____ test_one ____\n\n{warned}FAILED tests/test_it.py::test_one - AssertionError\n== 1 failed, 3 passed ==\n"
    )
    text = short(ObjectKind.ERROR_CONTEXT, call("Bash", "command: pytest", said), 0.3, tool="Bash").text
    assert "FAILED tests/test_it.py::test_one" in text
    assert "DeprecationWarning" not in text


def test_of_a_run_that_passed_the_outer_tests_come_first() -> None:
    said = "".join(
        f"--- PASS: TestOuter{n} (0.0{n}s)\n"
        + "".join(f"    --- PASS: TestOuter{n}/with_some_case_{k} (0.00s)\n" for k in range(8))
        for n in range(6)
    )
    text = short(
        ObjectKind.TOOL_RESULT, call("Bash", "command: go test -v", said + "PASS\nok  \tx/y\t0.2s\n"), 0.3
    ).text
    assert all(f"--- PASS: TestOuter{n}\n" in text for n in range(6))


def test_records_in_json_on_one_line_are_kept_whole() -> None:
    listed = ", ".join(
        f'{{"flight_number": "HAT{n:03}", "date": "2024-05-{n:02}", "price": {n}7}}' for n in range(1, 25)
    )
    said = f'{{"reservation_id": "OWZ4XL", "origin": "EWR", "cabin": "economy", "flights": [{listed}]}}'
    lines = short(ObjectKind.TOOL_RESULT, call("get_it", "reservation_id: OWZ4XL", said), 0.3).text.split("\n")
    assert '{"reservation_id": "OWZ4XL", "origin": "EWR", "cabin": "economy",' in lines
    assert any(line.endswith('"date": "2024-05-01", "price": 17},') for line in lines)
    assert all(line.count("{") == line.count("}") for line in lines if line.startswith('{"flight'))


def test_a_file_that_a_shell_writes_from_a_here_document_keeps_its_signatures() -> None:
    body = "\n".join(f"def step_{n}(x):\n    y = x\n    y += {n}\n    y -= 1\n    return y" for n in range(12))
    parts = call("Bash", f"command: cat <<'EOF' > steps.py\n{body}\nEOF", "")
    text = short(ObjectKind.FILE_CONTEXT, parts, 0.5, tool="Bash").text
    assert all(f"def step_{n}(x):" in text for n in range(12))


def test_a_reason_is_not_cut_from_what_it_leads_to() -> None:
    said = (
        "It rained and nothing else happened on that day. "
        * 12
        + "\n\nNothing whatever of all that anybody wrote is lost. So the conclusion is as it is because:\n\n"
        "- Every file is written beside the old one, and then it is renamed once all of it is whole and on disk\n\n"
        + "It rained again and nothing else happened on that day. "
        * 12
    )
    for target in range(100, 600, 20):
        text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], target / len(said)).text
        assert "because:" not in text or "- Every file is written beside the old one" in text


def test_a_sentence_about_the_one_before_it_brings_that_along() -> None:
    said = (
        "It rained, but only the note in `rain.md` says so. " * 12
        + "\n\nThe hook writes its state before the lock is taken, whoever asks for it.\n\nThis is the root cause.\n\n"
        + "It rained again, and only `rain.md` should say so. " * 12
    )
    text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], 0.1).text
    assert "The hook writes its state before the lock is taken, whoever asks for it.\n\nThis is the root cause." in text


def test_what_says_nothing_does_not_fill_the_room_that_is_left() -> None:
    said = "Excellent. " + "The worker reads the journal and keeps its place in `place.json` for the next time. " * 20
    text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], 0.3).text
    assert "Excellent" not in text


def test_the_message_of_a_commit_is_kept_before_what_ends_it() -> None:
    message = "Keep the worker's place in the journal\n\n" + "- It rained on the first day.\n" * 12
    asked = f"command: git add . && \\\ngit commit -m \"$(cat <<'EOF'\n{message}\nCo-Authored-By: A B\nEOF\n)\""
    lines = short(ObjectKind.TOOL_RESULT, call("Bash", asked, " 12 files changed"), 0.3, tool="Bash").text.split("\n")
    assert "Keep the worker's place in the journal" in lines
    assert not {"EOF", ')"'} & {*lines}


def test_no_mark_of_a_cut_stands_beside_another() -> None:
    lines = [
        f"It rained on day {n}, as was said. The hook of part_{n} writes its state, and so it is lost. It was late."
        for n in range(40)
    ]
    for target in range(200, 1_200, 50):
        said = "\n".join(lines)
        text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], target / len(said)).text
        assert "⋯" in text
        assert not re.search(r"⋯[^⋯\w]*⋯", text)


def test_of_a_question_to_the_user_the_answers_are_kept_before_what_could_be_chosen() -> None:
    options = [{"label": f"Way {n}", "description": "It is as it is. " * 4} for n in range(8)]
    said = 'User has answered your questions: "Which lock is it to be?"="A file beside the log". Go on.'
    parts = call("AskUserQuestion", f"questions: {json.dumps(options)}", said)
    text = short(ObjectKind.DESIGN_DECISION, parts, 0.1, tool="AskUserQuestion").text
    assert '"Which lock is it to be?"="A file beside the log"' in text


def test_what_only_ends_a_loop_is_not_kept_of_a_command() -> None:
    command = "for part in $(ls); do\n" + "".join(f"  cat part_{n}.txt | head -{n}\n" for n in range(40)) + "done"
    for share in (0.1, 0.2, 0.3):
        text = short(
            ObjectKind.TOOL_RESULT, call("Bash", f"command: {command}", "It is late\n" * 9), share, tool="Bash"
        )
        assert "done" not in text.text.split("\n")


def test_a_comment_that_only_leads_on_does_not_stand_for_code() -> None:
    body = "".join(f"    value_{n} = other(value_{n}, {n})\n" for n in range(60))
    code = f"    // The steps of this one are these:\n{body}    // The order of the steps is that of the file.\n{body}"
    text = short(ObjectKind.FILE_CONTEXT, call("Read", "file_path: src/steps.c", code), 0.05, tool="Read").text
    assert "// The order of the steps is that of the file." in text
    assert "are these:" not in text


def test_a_long_pattern_keeps_its_beginning() -> None:
    names = ("small", "large", "other", "shared", "closed")
    pattern = "|".join(f"begin.*{name}_session" for name in names)
    found = "".join(f"src/part_{n}.py:{n}:def begin_small_session(x_{n}):\n" for n in range(40))
    text = short(ObjectKind.TOOL_RESULT, call("Grep", f"pattern: {pattern}", found), 0.05, tool="Grep").text
    assert text.startswith("pattern: begin.*small_session|")


def test_brackets_do_not_stand_for_a_change() -> None:
    around = " \tanything = other(anything)\n" * 2
    hunks = "".join(
        f"@@ -{n},3 +{n},3 @@\n{around}-\t}}\n{around}+\t\tcall_{n}(everything, there)\n{around}+\t}}\n"
        for n in range(40)
    )
    patch = f"diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n{hunks}"
    for share in (0.05, 0.1, 0.3):
        lines = short(ObjectKind.TOOL_RESULT, call("Bash", "command: git diff", patch), share).text.split("\n")
        assert not {"-\t}", "+\t}"} & {*lines}


def test_what_a_linter_says_of_a_place_is_kept_before_the_code_that_it_shows() -> None:
    said = "".join(
        f"[lint] src/a_{n}.go:{n}:2: errors unhandled (gosec)\n[lint] \tcall_{n}(\n[lint] \t^\n" for n in range(12)
    )
    text = short(ObjectKind.TOOL_RESULT, call("Bash", "command: make lint | head", said + "[lint] \t^\n"), 0.2).text
    assert "src/a_0.go:0:2: errors unhandled" in text
    assert "src/a_1.go:1:2: errors unhandled" in text


def test_a_report_that_quotes_much_code_is_prose() -> None:
    code = "```go\n" + "func walk(x int) int {\n\treturn x\n}\n" * 6 + "```\n"
    said = "## Performance\n\n" + f"Each branch is read twice, which is slow.\n\n{code}\n" * 6
    assert role_of(ObjectKind.TOOL_RESULT, "Result", "", said.split("\n")) is TextRole.PROSE


def test_where_nothing_is_defined_comments_say_what_is_done() -> None:
    some = "".join(f'\tslog.String("field_{n}", "value_{n}"),\n' for n in range(40))
    shown = f"{some}\t// Reuse it only where the files overlap\n{some}"
    text = short(ObjectKind.FILE_CONTEXT, call("Read", "file_path: /a/b.go", shown), 0.05, tool="Read").text
    assert "// Reuse it only where the files overlap" in text


def test_words_in_bold_that_lead_to_code_are_no_heading_of_what_comes_after_it() -> None:
    said = (
        "It rained, but only the note in `rain.md` says so. " * 12
        + "\n\n**Failure output:**\n```\nexpected 2\n```\n\nThe fix is to compare prefixes in `clean.py`.\n\n"
        + "It rained again, and only `rain.md` should say so. " * 12
    )
    text = short(ObjectKind.CONVERSATION_PHASE, [TextPart(PartRole.ASSISTANT, said)], 0.1).text
    assert "The fix is to compare prefixes" in text
    assert "Failure output" not in text


def test_a_heading_that_stands_above_several_sections_does_not_stand_alone() -> None:
    said = "".join(
        f"## Part {n}\n\nPart {n} is about the lock.\n\n### Key points\n\n- {'a_word_of_it_and_' * 14}\n\n"
        for n in range(9)
    )
    parts = call("Read", "file_path: /a/notes.md", said)
    text = short(ObjectKind.FILE_CONTEXT, parts, 0.1, tool="Read", key="/a/notes.md").text
    assert "## Part 1" in text
    assert "### Key points\n⋯" not in text

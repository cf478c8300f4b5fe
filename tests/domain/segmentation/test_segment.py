"""Segmentation: what belongs together, what it is about, and what it makes obsolete."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mnemosyne.domain.objects.events import LinkRelation, Supersession
from mnemosyne.domain.objects.kinds import REFERENCED, ObjectKind, Role, is_operators
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation import tools
from mnemosyne.domain.segmentation.prose import describe
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, Segmented, segment
from tests.domain.segmenting_support import LONG, Talk, in_pieces, kinds, only

USER_SAYS_MORE = "What else?"


def nested(depth: int) -> dict[str, Any]:
    """A result in a result in a result …"""
    block: dict[str, Any] = {"type": "text", "text": "core"}
    for _ in range(depth):
        block = {"type": "tool_result", "tool_use_id": "n", "content": [block]}
    return block


def made(talk: Talk) -> Segmented:
    """What is made of a conversation once the user has spoken again, which closes whatever is open."""
    return segment(talk.user(USER_SAYS_MORE).messages, SegmentationState())


def draft_of(found: Segmented, kind: ObjectKind) -> Draft:
    return only(each for each in found.drafts if each.kind is kind)


@pytest.mark.parametrize(
    ("tool", "given", "result", "kind", "key"),
    [
        ("Read", {"file_path": "/r/a.py"}, "     1→x", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("read", {"filePath": "/r/./b/../a.py"}, "00001| x", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        (
            "Edit",
            {"file_path": "/r/a.py", "old_string": "x", "new_string": "y"},
            "ok",
            ObjectKind.FILE_CONTEXT,
            "/r/a.py",
        ),
        ("Write", {"file_path": "/r/a.py", "content": "y"}, "ok", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("Bash", {"command": "cd /r && cat a.py"}, "x", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("bash", {"command": "nl -ba a.py | sed -n '3,9p'"}, "3 x", ObjectKind.FILE_CONTEXT, "a.py"),
        ("bash", {"command": "cat <<'EOF' > a.py\nx\nEOF"}, "", ObjectKind.FILE_CONTEXT, "a.py"),
        ("bash", {"command": "sed -i 's/x/y/' a.py"}, "", ObjectKind.FILE_CONTEXT, "a.py"),
        ("patch", {"patchText": "*** Begin Patch\n*** Update File: a.py\n"}, "ok", ObjectKind.FILE_CONTEXT, "a.py"),
        ("Bash", {"command": "git  status"}, "clean", ObjectKind.TOOL_RESULT, "Bash git status"),
        ("Grep", {"pattern": "x"}, "a.py:1:x", ObjectKind.TOOL_RESULT, 'Grep {"pattern": "x"}'),
        ("Task", {"description": "look", "prompt": "p"}, "done", ObjectKind.TOOL_RESULT, None),
        ("TodoWrite", {"todos": [{"content": "a", "status": "completed"}]}, "ok", ObjectKind.PLAN, "todos"),
        ("ExitPlanMode", {"plan": "1. do it"}, "ok", ObjectKind.PLAN, "plan"),
        ("WebFetch", {"url": "https://a.example"}, "page", ObjectKind.EXTERNAL_REFERENCE, "WebFetch https://a.example"),
        ("mcp__docs__get", {"topic": "trio"}, "page", ObjectKind.EXTERNAL_REFERENCE, "mcp__docs__get trio"),
        ("AskUserQuestion", {"questions": []}, "A", ObjectKind.DESIGN_DECISION, None),
        ("view_thing", {"path": "a.py"}, "x", ObjectKind.FILE_CONTEXT, "a.py"),
        ("run_it", {"command": "make"}, "built", ObjectKind.TOOL_RESULT, "run_it make"),
        ("whatever", {"n": 1}, "x", ObjectKind.TOOL_RESULT, 'whatever {"n": 1}'),
    ],
)
def test_a_tool_is_known_by_its_name_or_its_shape(
    tool: str, given: Mapping[str, Any], result: str, kind: ObjectKind, key: str | None
) -> None:
    """The tools of Claude Code and opencode, the same deeds done in a shell, and tools that nobody knows."""
    draft = only(each for each in made(Talk().user("go").call(tool, given, result)).drafts if each.source_tool)
    assert (draft.kind, draft.source_key, draft.source_tool) == (kind, key, tool)


@pytest.mark.parametrize(
    ("tool", "given", "result"),
    [
        ("Bash", {"command": "make"}, "Exit code 2\nno rule"),
        ("bash", {"command": "python a.py"}, "<returncode>1</returncode>"),
        ("bash", {"command": "python a.py"}, 'Traceback (most recent call last):\n  File "a.py"'),
        ("Bash", {"command": "go test ./... | tail"}, "--- FAIL: TestA (0.00s)\nFAIL"),
        ("Bash", {"command": "pytest"}, "E   assert 1\n==== 1 failed, 2 passed in 0.1s ===="),
        ("get_user", {"id": "7"}, "Error: user not found"),
    ],
)
def test_a_failure_is_seen_by_its_shape(tool: str, given: Mapping[str, Any], result: str) -> None:
    """Without the client's flag: by exit codes, tracebacks and what test runners print."""
    assert draft_of(made(Talk().user("go").call(tool, given, result)), ObjectKind.ERROR_CONTEXT).source_tool == tool


@pytest.mark.parametrize(
    ("tool", "given", "result"),
    [
        ("Read", {"file_path": "/a.py"}, "     1→Traceback (most recent call last):"),
        ("Bash", {"command": "cat log.txt"}, "Traceback (most recent call last):"),
        ("Bash", {"command": "git log"}, "FAIL: was mended"),
        ("bash", {"command": "grep -r x ."}, "<returncode>1</returncode>"),
    ],
)
def test_what_only_shows_a_failure_is_none(tool: str, given: Mapping[str, Any], result: str) -> None:
    """A file or a log that tells of one, and a search that found nothing."""
    assert ObjectKind.ERROR_CONTEXT not in kinds(made(Talk().user("go").call(tool, given, result)))


def test_a_call_and_its_results_are_one_object_with_the_thinking_before_it() -> None:
    """The unit of eviction is the pair; a signature goes with what it led to."""
    talk = Talk().user("go")
    talk.assistant(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/a"}},
    ).results(("t", LONG))
    found = made(talk)
    assert [(each.message, each.block) for each in draft_of(found, ObjectKind.FILE_CONTEXT).places] == [
        (1, 2),
        (1, 3),
        (2, 0),
    ]
    assert [(each.message, each.block) for each in found.drafts[1].places] == [(0, 0), (1, 0), (1, 1)]


def test_small_results_collect_until_they_are_worth_an_object() -> None:
    """And large ones stand alone."""
    talk = Talk().user("go").call("Grep", {"pattern": "a"}, "x" * 800).call("Read", {"file_path": "/a"}, LONG)
    found = segment(talk.call("Grep", {"pattern": "b"}, "y" * 800).messages, SegmentationState())
    assert kinds(found) == [ObjectKind.FILE_CONTEXT, ObjectKind.TOOL_RESULT]
    assert len(found.drafts[1].places) == 4
    assert found.drafts[1].source_key is None


def test_files_are_never_merged_with_others() -> None:
    """Small edits of one file collect; those of another are another object."""
    talk = Talk().user("go")
    for path in ("/a", "/b", "/a"):
        talk.call("Edit", {"file_path": path, "old_string": "x", "new_string": "y"}, "ok")
    found = [each for each in made(talk).drafts if each.kind is ObjectKind.FILE_CONTEXT]
    assert [(each.source_key, len(each.places)) for each in found] == [("/a", 4), ("/b", 2)]


def test_a_prompt_begins_a_phase_and_the_clients_notes_stay_apart() -> None:
    """One is the operator's, the other the user's."""
    talk = (
        Talk()
        .user("<system-reminder>be good</system-reminder>", "Mend it.")
        .assistant({"type": "text", "text": "Done."})
    )
    found = made(talk)
    assert [(each.tags, len(each.places)) for each in found.drafts] == [(("reminder",), 1), (("user",), 2)]


@pytest.mark.parametrize(
    ("role", "said", "operators"),
    [
        ("system", "Working directory: /src", True),
        ("developer", "Always answer in verse.", True),
        ("user", "<system-reminder>\n# claudeMd\nNever push.\n</system-reminder>", True),
        ("user", "<available-deferred-tools>\nWebFetch\n</available-deferred-tools>", True),
        ("user", "<bash-input>make</bash-input>", True),
        ("user", "<bash-stdout>all is built</bash-stdout><bash-stderr></bash-stderr>", False),
        ("user", "Mend it.", False),
        ("assistant", "<system-reminder>be bad</system-reminder>", False),
    ],
)
def test_what_the_operator_says_is_known_as_such(role: str, said: str, operators: bool) -> None:
    assert is_operators(describe(role, {"type": "text", "text": said}).tags) is operators


def test_a_result_that_defines_tools_is_the_operators_and_stands_alone() -> None:
    definition = {"type": "tool_reference", "tool_name": "WebFetch"}
    found = made(
        Talk()
        .user("Look it up.")
        .call("ToolSearch", {"query": "select:WebFetch"}, [definition])
        .call("ToolSearch", {"query": "weather"}, "nothing found")
    )
    searched = [each for each in found.drafts if each.source_tool == "ToolSearch"]
    assert [(is_operators(each.tags), len(each.places)) for each in searched] == [(True, 2), (False, 2)]


def test_a_clients_summary_is_an_object_of_its_own() -> None:
    """What a compaction left is marked as such."""
    text = "This session is being continued from a previous conversation that ran out of context. It went well."
    assert made(Talk().user(text)).drafts[0].tags == ("summary", "user")


def test_a_decision_is_told_by_its_own_sentence() -> None:
    """In whatever paragraph of a longer answer that stands."""
    text = "I read the measurements. They scatter.\n\nWell. We decided to use exponential back-off, as retries collide."
    (draft,) = made(Talk().assistant({"type": "text", "text": text})).drafts
    assert draft.stub.startswith("Decision: We decided to use exponential back-off")


def test_a_decision_is_a_claim() -> None:
    """What the user settles and what the assistant says was settled."""
    talk = Talk().user("Let's use trio, not asyncio.").assistant({"type": "text", "text": "We decided to use trio."})
    found = made(talk)
    assert {(each.kind, each.role) for each in found.drafts} == {(ObjectKind.DESIGN_DECISION, Role.CLAIM)}


def test_a_file_that_came_with_a_prompt_is_no_decision_of_the_users() -> None:
    called = 'Called the Read tool with the following input: {"filePath":"/n.md"}'
    found = made(Talk().user("Look at @n.md", called, "Let's use MD5 for all of it."))
    assert [(each.kind, "attached" in each.tags) for each in found.drafts if "MD5" in each.text] == [
        (ObjectKind.TOOL_RESULT, True)
    ]


def test_an_edit_makes_earlier_reads_stale_and_depends_on_the_last() -> None:
    """At once, though a small edit is no object yet."""
    talk = Talk().user("go").call("Read", {"file_path": "/a"}, LONG)
    edit = {"file_path": "/a", "old_string": "x", "new_string": "y"}
    found = segment(talk.call("Edit", edit, "ok").messages, SegmentationState())
    (stale,) = found.supersessions
    assert (stale.target, stale.by, stale.how) == (0, None, Supersession.EDITED)
    edited = made(talk).drafts[-1]
    assert [(each.relation, each.target) for each in edited.links] == [(LinkRelation.DEPENDS_ON, 0)]


def test_a_read_after_the_edit_is_fresh() -> None:
    """A small edit is made an object later than the read that followed it; it does not outdate that."""
    edit = {"file_path": "/a", "old_string": "x", "new_string": "y"}
    talk = Talk().user("go").call("Edit", edit, "ok").call("Read", {"file_path": "/a"}, LONG)
    assert made(talk).supersessions == ()


def test_a_read_that_covers_another_takes_its_place() -> None:
    """A smaller part does not: the rest would be shown nowhere."""
    part = {"file_path": "/a", "offset": 2, "limit": 300}
    lines = "\n".join(f"{number:6}→some line" for number in range(2, 302))
    whole = Talk().user("go").call("Read", part, lines).call("Read", {"file_path": "/a"}, LONG)
    assert [(each.target, each.by, each.how) for each in made(whole).supersessions] == [(0, 1, Supersession.REREAD)]
    smaller = Talk().user("go").call("Read", {"file_path": "/a"}, LONG).call("Read", part, lines)
    assert made(smaller).supersessions == ()


@pytest.mark.parametrize(
    ("tool", "given", "result"),
    [
        ("Read", {"file_path": "/a"}, "\n".join(f"{number:6}→x" for number in range(1, 2_001))),
        ("Bash", {"command": "cat /a"}, "<warning>\nThe output of your last command was too long.\n" + LONG),
    ],
)
def test_a_read_that_was_cut_short_does_not_cover_the_file(tool: str, given: Mapping[str, Any], result: str) -> None:
    """What lies behind the cut is shown by the earlier read alone."""
    part = "\n".join(f"{number:6}→some line" for number in range(2_500, 2_900))
    talk = Talk().user("go").call("Read", {"file_path": "/a", "offset": 2_500, "limit": 400}, part)
    assert made(talk.call(tool, given, result)).supersessions == ()


def test_the_same_command_again_takes_the_place_of_the_first() -> None:
    """However little the second says."""
    talk = Talk().user("go").call("Bash", {"command": "make all"}, LONG).call("Bash", {"command": "make  all"}, "ok")
    assert [(each.target, each.by) for each in made(talk).supersessions] == [(0, 1)]


def test_a_small_result_that_waits_does_not_take_the_place_of_a_later_one() -> None:
    """Its object is made after that of the same command's second run; nor does a cut in between change a thing."""
    talk = Talk().user("go").call("Bash", {"command": "ls"}, "a").call("Grep", {"pattern": "x"}, "b")
    talk.call("Bash", {"command": "ls"}, LONG).call("Grep", {"pattern": "y"}, "c")
    assert made(talk).supersessions == ()
    assert in_pieces(talk.messages, range(1, 11)) == in_pieces(talk.messages, ())


def test_a_new_todo_list_revises_the_old() -> None:
    """Each list is an object, the last one counts."""
    talk = Talk().user("go")
    for state in ("pending", "completed"):
        talk.call("TodoWrite", {"todos": [{"content": "a", "status": state}]}, "ok")
    found = made(talk)
    assert [(each.target, each.by, each.how) for each in found.supersessions] == [(0, 1, Supersession.REVISED)]
    assert found.drafts[1].stub == "Todo list: 1 of 1 step done"


def test_a_debugging_session_runs_from_the_error_to_the_run_that_passes() -> None:
    """It is the parent of what was done in between, and has no places."""
    run, edit = {"command": "pytest t.py"}, {"file_path": "/r/t.py", "old_string": "x", "new_string": "y"}
    talk = Talk().user("go").call("Edit", edit, "ok").call("Bash", run, "FAILED t.py::a - /r/t.py:3")
    found = segment(talk.call("Edit", edit, "ok").call("Bash", run, "1 passed").messages, SegmentationState())
    expected = [
        ObjectKind.FILE_CONTEXT,
        ObjectKind.ERROR_CONTEXT,
        ObjectKind.FILE_CONTEXT,
        ObjectKind.TOOL_RESULT,
        ObjectKind.DEBUGGING_SESSION,
    ]
    assert kinds(found) == expected
    assert (LinkRelation.CAUSED_BY, 0) in [(each.relation, each.target) for each in found.drafts[1].links]
    session = draft_of(found, ObjectKind.DEBUGGING_SESSION)
    assert (session.role, session.places, session.tags) == (Role.DERIVED, (), ("resolved",))
    parts = [found.drafts[int(each.target)].kind for each in session.links if each.relation is LinkRelation.PARENT_OF]
    assert parts == [ObjectKind.ERROR_CONTEXT, ObjectKind.FILE_CONTEXT, ObjectKind.TOOL_RESULT]


def test_a_prompt_ends_a_debugging_session_that_went_on() -> None:
    """An error about which nothing was done is no session."""
    run, edit = {"command": "pytest t.py"}, {"file_path": "/r/t.py", "old_string": "x", "new_string": "y"}
    talk = Talk().user("go").call("Bash", run, "FAILED t.py::a")
    assert ObjectKind.DEBUGGING_SESSION not in kinds(segment([*talk.messages], SegmentationState()))
    assert draft_of(made(talk.call("Edit", edit, "ok")), ObjectKind.DEBUGGING_SESSION).tags == ("unresolved",)


def test_a_result_refers_to_the_files_that_it_names() -> None:
    """At most five, those named most."""
    talk = Talk().user("go")
    for number in range(7):
        talk.call("Read", {"file_path": f"/r/src/f{number}.py"}, LONG)
    names = " ".join(f"src/f{number}.py" for number in range(7) for _ in range(number + 1))
    found = segment(talk.call("Grep", {"pattern": "q"}, names + LONG).messages, SegmentationState())
    references = [each.target for each in found.drafts[-1].links if each.relation is LinkRelation.REFERENCES]
    named = [str(found.drafts[int(target)].source_key) for target in references]
    assert named == [f"/r/src/f{number}.py" for number in (6, 5, 4, 3, 2)]


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "tool_result", "tool_use_id": "nobody", "content": "lost"}],
        [{"type": "tool_result"}],
        [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": None}, 7, "text", None]}],
        [{"type": "brand_new", "stuff": [{"deep": {"deeper": "x"}}]}, {"type": 7}, {}],
        [{"type": "text"}, {"type": "text", "text": None}, {"type": "text", "text": ""}],
        [{"type": "text", "text": "\x00\ud800\u202e" * 10}],
        [{"type": "tool_use", "id": "z", "name": None, "input": "not an object"}],
        [{"type": "tool_use", "id": "z", "name": "Bash", "input": {"command": "'" * 9 + "\n" * 9}}],
        [{"type": "tool_use", "id": "z", "name": "Read", "input": {"file_path": "x" * 9_000}}],
        [{"type": "web_search_tool_result", "tool_use_id": "q", "content": {"type": "web_search_tool_result_error"}}],
        [{"type": "document", "source": {"type": "text", "data": "words"}}],
        [{"type": ["a", "list"]}, {"type": {}, "content": [{"type": []}]}],
        [nested(5_000)],
        [
            {"type": "tool_result", "tool_use_id": "q"},
            {"type": "thinking"},
            {"type": "tool_result", "tool_use_id": "q"},
        ],
        [{"type": "tool_use", "id": "z", "name": "Bash", "input": {"command": "cd a && " * 20_000}}],
    ],
)
def test_whatever_comes_is_in_an_object_in_the_end(content: Sequence[Mapping[str, Any]]) -> None:
    """Bad, odd and unknown blocks in either role: nothing raises, nothing is lost, each is in one object."""
    for role in ("user", "assistant", "system"):
        messages = [SeenMessage(0, role, 1, content)]
        messages += [SeenMessage(index, "user", index, [{"type": "text", "text": "on"}]) for index in range(1, 12)]
        found = segment(messages, SegmentationState())
        places = [(place.message, place.block) for draft in found.drafts for place in draft.places]
        assert len(places) == len(set(places))
        assert {block for message, block in places if message == 0} == set(range(len(content)))


def test_a_call_of_an_unknown_tool_is_told_by_its_short_arguments_before_the_long_ones() -> None:
    given = {"body": "many words " * 40, "ticket": "ENG-4711"}
    draft = draft_of(made(Talk().user("go").call("update_ticket", given, "done")), ObjectKind.TOOL_RESULT)
    assert draft.stub.startswith('update_ticket {"ticket": "ENG-4711", "body": "many words many')


def test_a_stub_names_the_call_that_was_made_and_in_brackets_what_came_of_it() -> None:
    """A file that a shell showed was read by that command: who has no other tool knows of no other reading."""

    def told(tool: str, given: Mapping[str, Any], result: str, kind: ObjectKind = ObjectKind.TOOL_RESULT) -> str:
        return draft_of(made(Talk().user("go").call(tool, given, result)), kind).stub

    shown = told("bash", {"command": "sed -n '3,4p' src/a.py"}, "x = 1\ny = 2", ObjectKind.FILE_CONTEXT)
    assert shown == "bash sed -n '3,4p' src/a.py (2 lines)"
    assert told("Grep", {"pattern": "x"}, "Found 2 files\na.py\nb.py") == 'Grep "x" (2 files)'
    assert told("Grep", {"pattern": "x"}, "No files found") == 'Grep "x": no files found'
    run = told(
        "Bash", {"command": "pytest"}, "E   assert 1\n==== 1 failed, 2 passed in 0.1s ====", ObjectKind.ERROR_CONTEXT
    )
    assert run == "Bash pytest failed (1 failed, 2 passed, 49 B)"


def test_an_image_that_was_read_is_told_in_the_stub() -> None:
    """Its data is not part of the text."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 4_000}}
    talk = Talk().user("go").call("Read", {"file_path": "/a.png"}, [image])
    draft = draft_of(made(talk), ObjectKind.FILE_CONTEXT)
    assert draft.stub == "Read /a.png (image png, 3.0 KB)"
    assert len(draft.text) < 200


@pytest.mark.parametrize(
    "kept",
    [
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Words."},
            "citations": {"enabled": True},
        },
    ],
    ids=["of an address", "of the provider's files", "that is cited"],
)
def test_what_the_provider_knows_by_a_reference_is_marked_and_stands_alone(kept: Mapping[str, Any]) -> None:
    talk = Talk().user("Look.").call("shot", {"page": "/a"}, [kept]).call("shot", {"page": "/b"}, "nothing")
    marked = [draft for draft in made(talk).drafts if REFERENCED in draft.tags]
    assert [len(draft.places) for draft in marked] == [2]


@pytest.mark.parametrize(
    ("name", "asked", "answered", "told"),
    [
        (
            "AskUserQuestion",
            {"questions": []},
            'User has answered your questions: "Which lock?"="A file", "And where?"="Beside it". Go on.',
            "Asked the user: Which lock? A file; And where? Beside it",
        ),
        (
            "TaskOutput",
            {"block": True, "task_id": "a29"},
            "<status>completed</status>\n\nEvery branch is read twice, so slow.\n" + "More of it.\n" * 200,
            'TaskOutput {"block": true, "task_id": "a29"}: Every branch is read twice, so slow. (203 lines, 2.5 KB)',
        ),
        (
            "Grep",
            {"-n": True, "output_mode": "content", "pattern": "lock", "path": "/a/b"},
            "Path does not exist",
            'Grep "lock" in /a/b failed: Path does not exist (19 B)',
        ),
    ],
)
def test_a_call_whose_inputs_say_little_is_told_by_what_came(
    name: str, asked: Mapping[str, Any], answered: str, told: str
) -> None:
    call = {"type": "tool_use", "id": "t", "name": name, "input": asked}
    result = {"type": "tool_result", "tool_use_id": "t", "content": answered, "is_error": name == "Grep"}
    assert tools.describe(call, [result]).stub == told

"""Segmentation: the blocks of an object, its description, and the objects that it makes obsolete."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mnemosyne.domain.objects.events import LinkRelation, Supersession
from mnemosyne.domain.objects.kinds import REFERENCED, ObjectKind, Role, is_operators
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation import tools
from mnemosyne.domain.segmentation.prose import describe
from mnemosyne.domain.segmentation.segment import Draft, DraftLink, SeenMessage, Segmented, segment
from tests.domain.segmenting_support import LONG, Talk, in_pieces, kinds, only

USER_SAYS_MORE = "What else?"


def nested(depth: int) -> dict[str, Any]:
    """Return a result in a result in a result …"""
    block: dict[str, Any] = {"type": "text", "text": "core"}
    for _ in range(depth):
        block = {"type": "tool_result", "tool_use_id": "n", "content": [block]}
    return block


def made(talk: Talk) -> Segmented:
    """Segment a conversation after another user prompt, which closes everything that is open."""
    return segment(talk.user(USER_SAYS_MORE).messages, SegmentationState())


def draft_of(segmented: Segmented, kind: ObjectKind) -> Draft:
    return only(each for each in segmented.drafts if each.kind is kind)


@pytest.mark.parametrize(
    ("tool", "given", "result", "kind", "key"),
    [
        ("Read", {"file_path": "/r/a.py"}, "     1→x", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("read", {"filePath": "/r/./b/../a.py"}, "00001| x", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("Edit", {"file_path": "/r/a.py", "old_string": "x"}, "ok", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("Write", {"file_path": "/r/a.py", "content": "y"}, "ok", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("Bash", {"command": "cd /r && cat a.py"}, "x", ObjectKind.FILE_CONTEXT, "/r/a.py"),
        ("patch", {"patchText": "*** Begin Patch\n*** Update File: a.py\n"}, "ok", ObjectKind.FILE_CONTEXT, "a.py"),
        ("Bash", {"command": "git  status"}, "clean", ObjectKind.TOOL_RESULT, "Bash git status"),
        ("Grep", {"pattern": "x"}, "a.py:1:x", ObjectKind.TOOL_RESULT, 'Grep {"pattern": "x"}'),
        ("Task", {"description": "look", "prompt": "p"}, "done", ObjectKind.TOOL_RESULT, None),
        ("TodoWrite", {"todos": [{"content": "a", "status": "completed"}]}, "ok", ObjectKind.PLAN, "todos"),
        ("ExitPlanMode", {"plan": "1. do it"}, "ok", ObjectKind.PLAN, "plan"),
        ("WebFetch", {"url": "https://a.example"}, "page", ObjectKind.EXTERNAL_REFERENCE, "WebFetch https://a.example"),
        ("mcp__docs__fetch", {"topic": "a"}, "page", ObjectKind.EXTERNAL_REFERENCE, "mcp__docs__fetch a"),
        ("AskUserQuestion", {"questions": []}, "A", ObjectKind.DESIGN_DECISION, None),
        ("mcp__files__read_file", {"path": "a.py"}, "x", ObjectKind.FILE_CONTEXT, "a.py"),
        ("delete_thing", {"path": "a.py"}, "x", ObjectKind.TOOL_RESULT, 'delete_thing {"path": "a.py"}'),
        ("run_it", {"command": "make"}, "built", ObjectKind.TOOL_RESULT, "run_it make"),
        ("whatever", {"n": 1}, "x", ObjectKind.TOOL_RESULT, 'whatever {"n": 1}'),
    ],
)
def test_a_tool_is_recognized_by_its_name_or_its_input(
    tool: str, given: Mapping[str, Any], result: str, kind: ObjectKind, key: str | None
) -> None:
    """The tools of Claude Code and opencode, the same actions in a shell, and unknown tools."""
    draft = only(draft for draft in made(Talk().user("go").call(tool, given, result)).drafts if draft.source_tool)
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
def test_a_failure_is_recognized_by_its_shape(tool: str, given: Mapping[str, Any], result: str) -> None:
    """Without the client's flag: by exit codes, tracebacks and the output of test runners."""
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
def test_text_about_a_failure_is_not_a_failure(tool: str, given: Mapping[str, Any], result: str) -> None:
    """A file or a log that mentions a failure, and a search without results."""
    assert ObjectKind.ERROR_CONTEXT not in kinds(made(Talk().user("go").call(tool, given, result)))


def test_a_call_and_its_results_are_one_object_with_the_thinking_before_it() -> None:
    """The unit of eviction is the pair; thinking belongs to the block that it led to."""
    talk = Talk().user("go")
    talk.assistant(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/a"}},
    ).results(("t", LONG))
    segmented = made(talk)
    read = [(place.message, place.block) for place in draft_of(segmented, ObjectKind.FILE_CONTEXT).places]
    assert read == [(1, 2), (1, 3), (2, 0)]
    assert [(place.message, place.block) for place in segmented.drafts[1].places] == [(0, 0), (1, 0), (1, 1)]


def test_small_results_collect_until_they_are_large_enough_for_an_object() -> None:
    """Large results are separate objects."""
    talk = Talk().user("go").call("Grep", {"pattern": "a"}, "x" * 800).call("Read", {"file_path": "/a"}, LONG)
    segmented = segment(talk.call("Grep", {"pattern": "b"}, "y" * 800).messages, SegmentationState())
    assert kinds(segmented) == [ObjectKind.FILE_CONTEXT, ObjectKind.TOOL_RESULT]
    assert len(segmented.drafts[1].places) == 4
    assert segmented.drafts[1].source_key is None


def test_files_are_never_merged_with_others() -> None:
    """Small edits of one file are one object; edits of another file are another object."""
    talk = Talk().user("go")
    for path in ("/a", "/b", "/a"):
        talk.call("Edit", {"file_path": path, "old_string": "x", "new_string": "y"}, "ok")
    segmented = [draft for draft in made(talk).drafts if draft.kind is ObjectKind.FILE_CONTEXT]
    assert [(draft.source_key, len(draft.places)) for draft in segmented] == [("/a", 4), ("/b", 2)]


def test_a_prompt_begins_a_phase_and_the_clients_notes_are_separate() -> None:
    """One is the operator's, the other the user's."""
    talk = (
        Talk()
        .user("<system-reminder>be good</system-reminder>", "Mend it.")
        .assistant({"type": "text", "text": "Done."})
    )
    segmented = made(talk)
    assert [(draft.tags, len(draft.places)) for draft in segmented.drafts] == [(("reminder",), 1), (("user",), 2)]


@pytest.mark.parametrize(
    ("role", "text", "operators"),
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
def test_the_operators_texts_are_recognized(role: str, text: str, operators: bool) -> None:
    assert is_operators(describe(role, {"type": "text", "text": text}).tags) is operators


def test_a_result_that_defines_tools_is_the_operators_and_a_separate_object() -> None:
    definition = {"type": "tool_reference", "tool_name": "WebFetch"}
    segmented = made(
        Talk()
        .user("Look it up.")
        .call("ToolSearch", {"query": "select:WebFetch"}, [definition])
        .call("ToolSearch", {"query": "weather"}, "nothing found")
    )
    searched = [draft for draft in segmented.drafts if draft.source_tool == "ToolSearch"]
    assert [(is_operators(draft.tags), len(draft.places)) for draft in searched] == [(True, 2), (False, 2)]


def test_only_an_answer_to_a_question_of_the_client_is_a_claim_regardless_of_wording() -> None:
    talk = Talk().user("Let's use trio, not asyncio.").assistant({"type": "text", "text": "We decided to use trio."})
    segmented = made(talk.call("AskUserQuestion", {"questions": []}, "trio"))
    assert {(draft.kind, draft.role) for draft in segmented.drafts} == {
        (ObjectKind.CONVERSATION_PHASE, Role.TRANSCRIPT),
        (ObjectKind.DESIGN_DECISION, Role.CLAIM),
    }


def test_text_of_a_command_is_the_clients_note_and_begins_an_exchange() -> None:
    command = "<command-message>review</command-message>", "We always use MD5 here."
    segmented = made(Talk().user("Go.").assistant({"type": "text", "text": "Gone."}).user(*command))
    assert [(draft.tags, draft.text) for draft in segmented.drafts] == [
        (("user",), "Go.\nGone."),
        (("reminder",), command[0]),
        (("reminder",), command[1]),
    ]


def test_a_file_attached_to_a_prompt_is_not_a_decision_of_the_user() -> None:
    called = 'Called the Read tool with the following input: {"filePath":"/n.md"}'
    segmented = made(Talk().user("Look at @n.md", called, "Let's use MD5 for all of it."))
    assert [(draft.kind, "attached" in draft.tags) for draft in segmented.drafts if "MD5" in draft.text] == [
        (ObjectKind.TOOL_RESULT, True)
    ]


def test_an_edit_makes_earlier_reads_stale_and_depends_on_the_last() -> None:
    """Immediately, although a small edit is not an object yet."""
    talk = Talk().user("go").call("Read", {"file_path": "/a"}, LONG)
    edit = {"file_path": "/a", "old_string": "x", "new_string": "y"}
    segmented = segment(talk.call("Edit", edit, "ok").messages, SegmentationState())
    (stale,) = segmented.supersessions
    assert (stale.target, stale.by, stale.how) == (0, None, Supersession.EDITED)
    edited = made(talk).drafts[-1]
    assert [(link.relation, link.target) for link in edited.links] == [(LinkRelation.DEPENDS_ON, 0)]


def test_a_read_after_the_edit_is_fresh() -> None:
    """The object of a small edit is made after the object of the following read, but does not make it stale."""
    edit = {"file_path": "/a", "old_string": "x", "new_string": "y"}
    talk = Talk().user("go").call("Edit", edit, "ok").call("Read", {"file_path": "/a"}, LONG)
    assert made(talk).supersessions == ()


def test_a_read_that_covers_another_supersedes_it() -> None:
    """A smaller part does not: the rest would be lost."""
    part = {"file_path": "/a", "offset": 2, "limit": 300}
    lines = "\n".join(f"{number:6}→some line" for number in range(2, 302))
    whole = Talk().user("go").call("Read", part, lines).call("Read", {"file_path": "/a"}, LONG)
    assert [(supersession.target, supersession.by, supersession.how) for supersession in made(whole).supersessions] == [
        (0, 1, Supersession.REREAD)
    ]
    smaller = Talk().user("go").call("Read", {"file_path": "/a"}, LONG).call("Read", part, lines)
    assert made(smaller).supersessions == ()


@pytest.mark.parametrize(
    ("tool", "given", "result"),
    [
        ("Read", {"file_path": "/a"}, "\n".join(f"{number:6}→x" for number in range(1, 2_001))),
        ("Bash", {"command": "cat /a"}, "<warning>\nThe output of your last command was too long.\n" + LONG),
    ],
)
def test_a_truncated_read_does_not_cover_the_file(tool: str, given: Mapping[str, Any], result: str) -> None:
    """Only the earlier read shows what follows the cut."""
    part = "\n".join(f"{number:6}→some line" for number in range(2_500, 2_900))
    talk = Talk().user("go").call("Read", {"file_path": "/a", "offset": 2_500, "limit": 400}, part)
    assert made(talk.call(tool, given, result)).supersessions == ()


def test_a_waiting_small_result_does_not_supersede_a_later_one() -> None:
    """Its object is made after the object of the second run. Dividing the history changes nothing."""
    talk = Talk().user("go").call("Bash", {"command": "ls"}, "a").call("Grep", {"pattern": "x"}, "b")
    talk.call("Bash", {"command": "ls"}, LONG).call("Grep", {"pattern": "y"}, "c")
    assert made(talk).supersessions == ()
    assert in_pieces(talk.messages, range(1, 11)) == in_pieces(talk.messages, ())


def test_a_new_todo_list_revises_the_old() -> None:
    """Each list is an object; the last one is current."""
    talk = Talk().user("go")
    for state in ("pending", "completed"):
        talk.call("TodoWrite", {"todos": [{"content": "a", "status": state}]}, "ok")
    segmented = made(talk)
    assert [(supersession.target, supersession.by, supersession.how) for supersession in segmented.supersessions] == [
        (0, 1, Supersession.REVISED)
    ]
    assert segmented.drafts[1].stub == "Todo list: 1 of 1 step done"


def test_a_debugging_session_runs_from_the_error_to_the_run_that_passes() -> None:
    """The session is the parent of everything in between, and has no places."""
    run, edit = {"command": "pytest t.py"}, {"file_path": "/r/t.py", "old_string": "x", "new_string": "y"}
    talk = Talk().user("go").call("Edit", edit, "ok").call("Bash", run, "FAILED t.py::a - /r/t.py:3")
    segmented = segment(talk.call("Edit", edit, "ok").call("Bash", run, "1 passed").messages, SegmentationState())
    expected = [
        ObjectKind.FILE_CONTEXT,
        ObjectKind.ERROR_CONTEXT,
        ObjectKind.FILE_CONTEXT,
        ObjectKind.TOOL_RESULT,
        ObjectKind.DEBUGGING_SESSION,
    ]
    assert kinds(segmented) == expected
    assert (LinkRelation.CAUSED_BY, 0) in [(link.relation, link.target) for link in segmented.drafts[1].links]
    session = draft_of(segmented, ObjectKind.DEBUGGING_SESSION)
    assert (session.role, session.places, session.tags) == (Role.DERIVED, (), ("resolved",))
    parts = [
        segmented.drafts[int(each.target)].kind for each in session.links if each.relation is LinkRelation.PARENT_OF
    ]
    assert parts == [ObjectKind.ERROR_CONTEXT, ObjectKind.FILE_CONTEXT, ObjectKind.TOOL_RESULT]


def test_a_prompt_ends_an_open_debugging_session() -> None:
    """An error without any action on it is not a session."""
    run, edit = {"command": "pytest t.py"}, {"file_path": "/r/t.py", "old_string": "x", "new_string": "y"}
    talk = Talk().user("go").call("Bash", run, "FAILED t.py::a")
    assert ObjectKind.DEBUGGING_SESSION not in kinds(segment([*talk.messages], SegmentationState()))
    assert draft_of(made(talk.call("Edit", edit, "ok")), ObjectKind.DEBUGGING_SESSION).tags == ("unresolved",)


def test_a_result_refers_to_the_files_that_it_names() -> None:
    """At most five: those named most often."""
    talk = Talk().user("go")
    for number in range(7):
        talk.call("Read", {"file_path": f"/r/src/f{number}.py"}, LONG)
    names = " ".join(f"src/f{number}.py" for number in range(7) for _ in range(number + 1))
    segmented = segment(talk.call("Grep", {"pattern": "q"}, names + LONG).messages, SegmentationState())
    references = [link.target for link in segmented.drafts[-1].links if link.relation is LinkRelation.REFERENCES]
    named = [str(segmented.drafts[int(target)].source_key) for target in references]
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
def test_every_block_is_in_an_object_in_the_end(content: Sequence[Mapping[str, Any]]) -> None:
    """Malformed, odd and unknown blocks in any role: nothing raises, nothing is lost, each is in one object."""
    for role in ("user", "assistant", "system"):
        messages = [SeenMessage(0, role, 1, content)]
        messages += [SeenMessage(index, "user", index, [{"type": "text", "text": "on"}]) for index in range(1, 12)]
        segmented = segment(messages, SegmentationState())
        places = [(place.message, place.block) for draft in segmented.drafts for place in draft.places]
        assert len(places) == len(set(places))
        assert {block for message, block in places if message == 0} == set(range(len(content)))


def test_a_stub_describes_an_image_that_was_read() -> None:
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
def test_attachments_known_by_reference_are_tagged_and_separate_objects(kept: Mapping[str, Any]) -> None:
    talk = Talk().user("Look.").call("shot", {"page": "/a"}, [kept]).call("shot", {"page": "/b"}, "nothing")
    marked = [draft for draft in made(talk).drafts if REFERENCED in draft.tags]
    assert [len(draft.places) for draft in marked] == [2]


def test_a_decision_belongs_to_its_conversation_and_the_plan_after_it_depends_on_it() -> None:
    ask: tuple[str, dict[str, Any]] = ("AskUserQuestion", {"questions": []})
    todos = {"todos": [{"content": "Write", "status": "pending"}]}
    talk = Talk().user("Earlier.").call(*ask, "YAML").user("Begin.").call(*ask, "trio").call("TodoWrite", todos, "ok")
    drafts = made(talk.call(*ask, "later").user("Go on.")).drafts
    decisions = [number for number, draft in enumerate(drafts) if draft.kind is ObjectKind.DESIGN_DECISION]
    (plan,) = [draft for draft in drafts if draft.kind is ObjectKind.PLAN]
    assert plan.links == (DraftLink(LinkRelation.DEPENDS_ON, decisions[1]),)
    phases = [draft.links for draft in drafts if draft.kind is ObjectKind.CONVERSATION_PHASE]
    parents = [
        tuple(DraftLink(LinkRelation.PARENT_OF, each) for each in some) for some in (decisions[:1], decisions[1:])
    ]
    assert phases[:2] == parents


@pytest.mark.parametrize(
    ("name", "asked", "answered", "stub"),
    [
        (
            "AskUserQuestion",
            {"questions": []},
            'User has answered your questions: "Which lock?"="A file", "And where?"="Beside it". Go on.',
            "Asked the user: Which lock? A file; And where? Beside it",
        ),
        (
            "Grep",
            {"-n": True, "output_mode": "content", "pattern": "lock", "path": "/a/b"},
            "Path does not exist",
            'Grep "lock" in /a/b failed: Path does not exist (19 B)',
        ),
        ("bash", {"command": "sed -n '3,4p' src/a.py"}, "x = 1\ny = 2", "bash sed -n '3,4p' src/a.py (2 lines)"),
        (
            "Bash",
            {"command": "pytest"},
            "E   assert 1\n==== 1 failed, 2 passed in 0.1s ====",
            "Bash pytest failed (1 failed, 2 passed, 49 B)",
        ),
        (
            "update_ticket",
            {"body": "many words " * 40, "ticket": "ENG-4711"},
            "done",
            'update_ticket {"ticket": "ENG-4711", "body": "many words many words many words many words…: done',
        ),
        ("Grep", {"pattern": "x"}, "Found 2 files\na.py\nb.py", 'Grep "x" (2 files)'),
        ("Grep", {"pattern": "x"}, "No files found", 'Grep "x": no files found'),
    ],
)
def test_stub_names_the_call_with_short_arguments_first_and_its_outcome(
    name: str, asked: Mapping[str, Any], answered: str, stub: str
) -> None:
    call = {"type": "tool_use", "id": "t", "name": name, "input": asked}
    result = {"type": "tool_result", "tool_use_id": "t", "content": answered, "is_error": "failed" in stub}
    assert tools.describe(call, [result]).stub == stub

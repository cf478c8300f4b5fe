"""The answer to a reference to earlier content, from the client's history and the memory."""

import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import BlockPlace, FaultKind, ObjectEvent, ObjectFaulted, ObjectRestored
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.window import rereads, upstream_history
from mnemosyne.domain.window.rereads import render_pointer
from mnemosyne.domain.window.situation import PendingRequest, Sizes
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.rereads import WORDINGS, RefersTo
from tests.domain.remembered import BRANCH, created, degraded, remembered
from tests.domain.stories import pending
from tests.domain.wire.dialects import WRITTEN, Call, Exchange, ModelReply, Written, conversation
from tests.profiles import examples

Json = dict[str, Any]

STUB = next(each.text for each in WORDINGS if each.refers_to is RefersTo.EARLIER_RESULT)
PATH = "src/a.py"
CONTENT = "".join(f"{number:6}\tline {number}\n" for number in range(1, 200))


@attrs.frozen
class Step:
    """A tool call and its result."""

    tool: str
    given: Json
    result: str


def reading(result: str, path: str = PATH, **lines: int) -> Step:
    return Step("Read", {"file_path": path, **lines}, result)


def body_of(steps: Sequence[Step], written: Written) -> Json:
    """A body with these calls after one prompt, without system prompt and tools."""
    calls = [Call(f"c{number}", step.tool, step.given, step.result) for number, step in enumerate(steps)]
    body = written.request([Exchange("Begin.", [ModelReply(calls=[call]) for call in calls])])
    elements = body[written.dialect.array]
    body[written.dialect.array] = elements if elements[0]["role"] == "user" else elements[1:]
    return {name: value for name, value in body.items() if name not in ("system", "instructions", "tools")}


MESSAGES = WRITTEN[0]
IN_EACH_DIALECT = pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)


def ask(steps: Sequence[Step], written: Written = MESSAGES, window: int = 100_000, folder: str = "") -> PendingRequest:
    """The request that brings the last of these results; its client names its ``folder``."""
    body = body_of(steps, written)
    if folder:
        name_folder(body, folder)
    read = transcript.read(json.dumps(body).encode(), conversation=conversation(written)).transcript
    return pending(read, len(steps) + 1, window=window, kept=len(read.messages) - 1)


def name_folder(body: Json, folder: str) -> None:
    """Name it as the clients of each dialect do."""
    if "input" in body:
        body["input"][0]["content"] = f"<environment_context>\n  <cwd>{folder}</cwd>\n</environment_context>"
    elif body["messages"][-1]["role"] == "tool":
        body["messages"][0] = {"role": "system", "content": f"Working directory: {folder}"}
    else:
        body["system"] = f"# Environment\n - Primary working directory: {folder}"


def session(*events: ObjectEvent) -> Session:
    branch = Branch(
        name=BRANCH, kind=BranchKind.MAIN, conversation="main", parent=None, forked_at=0, inherits=False, agent_id=None
    )
    return Session(memory=remembered(*events), branches={BRANCH: branch})


EVICTED = session(created("abc2345"), degraded("abc2345", Fidelity.EVICTED))


def answered(asked: PendingRequest, state: Session = EVICTED) -> tuple[str, tuple[Any, ...]]:
    """The sent content of the last result, and the events; all other elements are sent unchanged."""
    history, events = rereads.answer(asked, state, Sizes())
    assert history.messages[:-1] == asked.history.messages[:-1]
    assert history.ends == asked.history.ends
    (result,) = history.dialect.history.message(history.messages[-1])["content"]
    return str(result["content"]), events


@IN_EACH_DIALECT
@pytest.mark.parametrize("fidelity", [Fidelity.COMPACT, Fidelity.STUB, Fidelity.EVICTED])
def test_evicted_content_replaces_the_reference_in_every_dialect(written: Written, fidelity: Fidelity) -> None:
    state = session(created("abc2345"), degraded("abc2345", fidelity))
    content, (fault, restored) = answered(ask([reading(CONTENT), reading(STUB)], written), state)
    assert content == CONTENT
    assert isinstance(fault, ObjectFaulted)
    assert (fault.object, fault.kind) == ("abc2345", FaultKind.IMPLICIT)
    assert isinstance(restored, ObjectRestored)
    assert (restored.before, restored.after) == (fidelity, Fidelity.FULL)


@IN_EACH_DIALECT
def test_line_names_the_object_if_its_content_has_no_room(written: Written) -> None:
    content, events = answered(ask([reading(CONTENT), reading(STUB)], written, window=600))
    assert content == f"{STUB}\n\n{render_pointer('abc2345')}"
    assert events == ()


@given(
    result=st.text(max_size=300), tool=st.sampled_from(["Read", "Bash", "Grep", "Glob", "Task", "mcp__fs__read_file"])
)
@examples(100)
def test_no_other_text_is_ever_replaced_and_nothing_of_it_is_lost(result: str, tool: str) -> None:
    content, events = answered(ask([reading(CONTENT), Step(tool, {"file_path": PATH}, result)]))
    assert content in (result, f"{result}\n\n{render_pointer('abc2345')}", render_pointer("abc2345"))
    assert events == ()


@pytest.mark.parametrize(
    "before", [[], [Step("Bash", {"command": f"cat {PATH}"}, CONTENT)], [reading(CONTENT, "src/b.py")], [reading(STUB)]]
)
def test_reference_to_unread_content_is_sent_unchanged(before: list[Step]) -> None:
    assert answered(ask([*before, reading(STUB)]), session()) == (STUB, ())


def test_newest_version_is_restored() -> None:
    newer = CONTENT.replace("line", "newer line")
    state = session(
        created("abc2345"),
        created("abd2345", 3),
        degraded("abc2345", Fidelity.EVICTED),
        degraded("abd2345", Fidelity.STUB),
    )
    content, (fault, _) = answered(ask([reading(CONTENT), reading(newer), reading(STUB)]), state)
    assert content == newer
    assert fault.object == "abd2345"


def test_an_earlier_reference_is_never_taken_for_the_content() -> None:
    """Also if an earlier release recorded it as the file."""
    wrong = created("abd2345", 3)
    for extra in ((), (wrong,), (wrong, degraded("abd2345", Fidelity.EVICTED))):
        state = session(created("abc2345"), degraded("abc2345", Fidelity.EVICTED), *extra)
        content, (fault, _) = answered(ask([reading(CONTENT), reading(STUB), reading(STUB)]), state)
        assert (content, fault.object) == (CONTENT, "abc2345")


def test_partial_read_restores_only_the_same_part() -> None:
    part = "    10\tline 10\n"
    steps = [reading(CONTENT), reading(part, offset=10, limit=1)]
    state = session(
        created("abc2345"),
        created("abd2345", 3),
        degraded("abc2345", Fidelity.EVICTED),
        degraded("abd2345", Fidelity.EVICTED),
    )
    assert answered(ask([*steps, reading(STUB, offset=10, limit=1)]), state)[0] == part
    assert answered(ask([*steps, reading(STUB)]), state)[0] == CONTENT
    assert answered(ask([*steps, reading(STUB, offset=1)]), state)[0] == CONTENT
    assert answered(ask([*steps, Step("Read", {"file_path": PATH, "offset": "1"}, STUB)]), state)[0] == CONTENT
    content, events = answered(ask([*steps, reading(STUB, offset=50, limit=9)]), state)
    assert content == f"{STUB}\n\n{render_pointer('abd2345')}"
    assert events == ()


@pytest.mark.parametrize("answer", ["Same as before: see call 1.", "Unverändert.", "{}"])
def test_read_that_returns_no_listing_gets_a_line(answer: str) -> None:
    content, events = answered(ask([reading(CONTENT), reading(answer)]))
    assert content == f"{answer}\n\n{render_pointer('abc2345')}"
    assert events == ()


@pytest.mark.parametrize(
    "steps",
    [
        [reading(CONTENT), reading("     1\tline 1\n")],
        [reading("line 1\nline 2\n"), reading("line 1\n")],
        [reading(CONTENT), reading("line 7", offset=7, limit=1)],
        [
            reading(CONTENT),
            Step("Edit", {"file_path": PATH, "old_string": "a", "new_string": "b"}, "Done."),
            reading("b"),
        ],
        [reading(CONTENT), Step("Bash", {"command": f"cat {PATH}"}, "line 1")],
    ],
    ids=["shorter listing", "never a listing", "other lines", "changed", "command"],
)
def test_a_shorter_new_content_is_not_taken_for_a_reference(steps: list[Step]) -> None:
    assert answered(ask(steps)) == (steps[-1].result, ())


def test_after_a_change_a_line_names_the_text_before_it() -> None:
    change = Step("Edit", {"file_path": PATH, "old_string": "a", "new_string": "b"}, "Done.")
    content, events = answered(ask([reading(CONTENT), change, reading(STUB)]))
    assert content == f"{STUB}\n\n{render_pointer('abc2345')}"
    assert events == ()


def test_content_dropped_by_a_compaction_is_named_in_a_line() -> None:
    state = session(created("abc2345"))
    shown = attrs.evolve(state.memory.view_of(BRANCH), objects=(), before=frozenset({"abc2345"}))
    state = attrs.evolve(state, memory=state.memory.with_view(BRANCH, shown))
    content, events = answered(ask([reading(STUB)]), state)
    assert content == f"{STUB}\n\n{render_pointer('abc2345')}"
    assert events == ()


def test_only_new_messages_are_examined() -> None:
    asked = ask([reading(CONTENT), reading(STUB)])
    asked = attrs.evolve(asked, kept=len(asked.read.messages))
    assert rereads.answer(asked, EVICTED, Sizes()) == (asked.history, ())


def test_planner_sees_the_final_size_of_the_request() -> None:
    asked = ask([reading(CONTENT), reading(STUB)])
    history, _ = rereads.answer(asked, EVICTED, Sizes())
    assert rereads.expect(asked, EVICTED).history == history
    assert rereads.expect(asked, session()) is asked


def test_instruction_file_is_not_restored() -> None:
    said = next(each.text for each in WORDINGS if each.refers_to is RefersTo.INSTRUCTIONS).format(path=PATH)
    assert answered(ask([reading(said)]), session()) == (said, ())
    content, events = answered(ask([reading(CONTENT), reading(said)]))
    assert content == f"{said}\n\n{render_pointer('abc2345')}"
    assert events == ()


def test_two_references_in_one_request_restore_the_content_once() -> None:
    body = body_of([reading(CONTENT), reading(STUB)], MESSAGES)
    first, second = ({"type": "tool_use", "id": each, "name": "Read", "input": {"file_path": PATH}} for each in "xy")
    body["messages"][3]["content"] = [first, second]
    results = [{"type": "tool_result", "tool_use_id": each, "content": STUB} for each in "xy"]
    body["messages"][4]["content"] = results
    read = transcript.read(json.dumps(body).encode()).transcript
    history = upstream_history.begin(read)
    asked = attrs.evolve(ask([reading(CONTENT), reading(STUB)]), read=read, before=history, history=history)
    grown, events = rereads.answer(asked, EVICTED, Sizes())
    sent = history.dialect.history.message(grown.messages[-1])["content"]
    assert [each["content"] for each in sent] == [CONTENT, STUB]
    assert [type(each) for each in events] == [ObjectFaulted, ObjectRestored]
    assert created("abc2345").places == (BlockPlace(1, 0), BlockPlace(2, 0))


FOLDER = "/home/ada/app"


@IN_EACH_DIALECT
@pytest.mark.parametrize(
    ("first", "second"),
    [(PATH, f"{FOLDER}/{PATH}"), (f"{FOLDER}/{PATH}", PATH), (f"./src/../{PATH}", f"{FOLDER}//{PATH}")],
)
def test_relative_and_absolute_path_match_the_same_file(written: Written, first: str, second: str) -> None:
    asked = ask([reading(CONTENT, first), reading(STUB, second)], written, folder=FOLDER)
    content, (fault, _) = answered(asked)
    assert (content, fault.object) == (CONTENT, "abc2345")


def test_a_relative_path_is_resolved_in_a_folder_of_windows_too() -> None:
    steps = [reading(CONTENT, PATH), reading(STUB, r"C:\app\src\a.py")]
    assert answered(ask(steps, folder=r"C:\app"))[0] == CONTENT
    assert answered(ask(steps, folder=r"C:\other"))[0] == STUB


@pytest.mark.parametrize(
    ("first", "second", "folder"),
    [
        (PATH, f"{FOLDER}/{PATH}", ""),
        (f"{FOLDER}/{PATH}", PATH, ""),
        (f"/srv/other/{PATH}", PATH, FOLDER),
        (PATH, f"/srv/other/{PATH}", FOLDER),
        ("a.py", f"{FOLDER}/{PATH}", FOLDER),
        (PATH, f"~/app/{PATH}", FOLDER),
    ],
)
def test_equal_path_suffixes_do_not_match_different_files(first: str, second: str, folder: str) -> None:
    assert answered(ask([reading(CONTENT, first), reading(STUB, second)], folder=folder)) == (STUB, ())


@pytest.mark.parametrize("command", ["cd src && ls", "make; pushd /tmp", ". ./enter.sh"])
@pytest.mark.parametrize("second", [PATH, f"{FOLDER}/{PATH}"])
def test_relative_path_after_a_command_gets_a_line(command: str, second: str) -> None:
    moved = Step("Bash", {"command": command}, "Done.")
    content, events = answered(ask([reading(CONTENT), moved, reading(STUB, second)], folder=FOLDER))
    assert (content, events) == (f"{STUB}\n\n{render_pointer('abc2345')}", ())
    whole = f"{FOLDER}/{PATH}"
    assert answered(ask([reading(CONTENT, whole), moved, reading(STUB, whole)], folder=FOLDER))[0] == CONTENT


def test_a_change_by_a_relative_path_is_a_change_of_the_file_at_the_absolute_one() -> None:
    change = Step("Edit", {"file_path": PATH, "old_string": "a", "new_string": "b"}, "Done.")
    whole = f"{FOLDER}/{PATH}"
    content, events = answered(ask([reading(CONTENT, whole), change, reading(STUB, whole)], folder=FOLDER))
    assert (content, events) == (f"{STUB}\n\n{render_pointer('abc2345')}", ())


def test_dropped_content_is_found_by_either_form_of_its_path() -> None:
    state = session(created("abc2345"))
    shown = attrs.evolve(state.memory.view_of(BRANCH), objects=(), before=frozenset({"abc2345"}))
    state = attrs.evolve(state, memory=state.memory.with_view(BRANCH, shown))
    content, _ = answered(ask([reading(STUB, f"{FOLDER}/{PATH}")], folder=FOLDER), state)
    assert content == f"{STUB}\n\n{render_pointer('abc2345')}"
    assert answered(ask([reading(STUB, f"/srv/{PATH}")], folder=FOLDER), state) == (STUB, ())


def test_an_answer_without_content_parses_no_result_of_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [reading("short", f"src/{number}x.py") for number in range(300)]
    parsed: set[int] = set()
    of = transcript.Transcript.message

    def count(read: transcript.Transcript, index: int) -> Json:
        parsed.add(index)
        return of(read, index)

    monkeypatch.setattr(transcript.Transcript, "message", count)
    rereads.expect(ask(steps), EVICTED)
    assert len(parsed) < 20

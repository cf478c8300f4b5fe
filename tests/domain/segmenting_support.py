"""Conversations to segment, the fold of what came of them, and histories at random."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from hypothesis import strategies as st

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import Admission, Link
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, Segmented, segment

LONG = "\n".join(f"{number:6}→line {number} of something long enough" for number in range(1, 60))

_T = TypeVar("_T")
_UNADMITTED = Admission(type_prior=0, novelty=0, utility=0, recency=0, score=0, admitted=False)


class Talk:
    """A conversation, message by message."""

    def __init__(self) -> None:
        self.messages: list[SeenMessage] = []

    def user(self, *texts: str) -> Self:
        return self._say("user", [{"type": "text", "text": text} for text in texts])

    def assistant(self, *blocks: Mapping[str, Any]) -> Self:
        return self._say("assistant", blocks)

    def results(self, *results: tuple[str, Any]) -> Self:
        blocks = [{"type": "tool_result", "tool_use_id": identity, "content": content} for identity, content in results]
        return self._say("user", blocks)

    def call(self, tool: str, given: Mapping[str, Any], result: Any) -> Self:
        identity = f"t{len(self.messages)}"
        self.assistant({"type": "tool_use", "id": identity, "name": tool, "input": given})
        return self.results((identity, result))

    def _say(self, role: str, content: Sequence[Mapping[str, Any]]) -> Self:
        index = len(self.messages)
        self.messages.append(SeenMessage(index, role, index // 2 + 1, content))
        return self


def kinds(found: Segmented) -> list[ObjectKind]:
    """The kinds of what has a tool, or is derived, in order."""
    return [
        each.kind for each in found.drafts if each.source_tool or not each.places or each.kind is ObjectKind.TOOL_RESULT
    ]


def only(each: Iterable[_T]) -> _T:
    (one,) = each
    return one


def object_of(draft: Draft, number: int, first: int) -> MemoryObject:
    """The object that the log would hold: its id, and those of its links, made from the numbers of drafts."""
    links = (Link(each.relation, name_of(each.target, first)) for each in draft.links)
    return MemoryObject(
        at=0,
        object=name_of(number, first),
        branch="main",
        turn=draft.last_turn,
        kind=draft.kind,
        role=draft.role,
        source_tool=draft.source_tool,
        source_key=draft.source_key,
        tags=draft.tags,
        first_turn=draft.first_turn,
        last_turn=draft.last_turn,
        places=draft.places,
        content=b"",
        size=len(draft.text),
        tokens=0,
        stub=draft.stub,
        stub_tokens=0,
        key_entities=(),
        links=tuple(links),
        admission=_UNADMITTED,
        last_use=draft.last_turn,
    )


def name_of(target: str | int, first: int) -> str:
    return target if isinstance(target, str) else f"o{first + target}"


def in_pieces(
    messages: Sequence[SeenMessage], cuts: Iterable[int], *, closes: bool = False
) -> tuple[list[MemoryObject], list[tuple[Any, ...]]]:
    """Objects and supersessions of a history that is segmented in several requests, ``SegmentationState`` folded in
    between. ``closes``: a pause follows each.
    """
    known, objects, superseded = SegmentationState(), list[MemoryObject](), list[tuple[Any, ...]]()
    for end in sorted({*cuts, len(messages)}):
        found = segment(messages[known.open : end], known, closes=closes)
        first = len(objects)
        for number, draft in enumerate(found.drafts):
            objects.append(object_of(draft, number, first))
            known = known.after_all(objects[-1:])
        for each in found.supersessions:
            target = name_of(each.target, first)
            superseded.append((target, None if each.by is None else name_of(each.by, first), each.how))
            known = known.supersede(target)
        known = known.settle_before(found.open)
    return objects, superseded


_PATHS = st.sampled_from(["/r/a.py", "/r/b.py", "c.py"])
_SIZES = st.sampled_from([0, 30, 700, 1_600])
_COMMANDS = st.sampled_from(["make", "pytest", "git status", "ls", "cat c.py"])
_ANSWERS = st.sampled_from(
    ["ok", "Error: no", "Exit code 1\nno", "1 passed", "--- FAIL: a\n/r/a.py:3", "see a.py and /r/b.py"]
)
_CALLS = st.one_of(
    st.builds(lambda path: ("Read", {"file_path": path}), _PATHS),
    st.builds(
        lambda path, first: ("Read", {"file_path": path, "offset": first, "limit": 9}), _PATHS, st.integers(1, 40)
    ),
    st.builds(lambda path: ("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}), _PATHS),
    st.builds(lambda path: ("Write", {"file_path": path, "content": "b"}), _PATHS),
    st.builds(lambda command: ("Bash", {"command": command}), _COMMANDS),
    st.just(("TodoWrite", {"todos": []})),
    st.just(("AskUserQuestion", {"questions": []})),
    st.just(("Grep", {"pattern": "x"})),
    st.just(("find", {"pattern": "y"})),
    st.just(("unknown", {})),
)
_SAID = st.sampled_from(
    ["Fine.", "We decided to use X.", "x" * 1_600, "<system-reminder>n</system-reminder>", "Let's use Y."]
)


@st.composite
def histories(draw: st.DrawFn) -> list[SeenMessage]:
    """Conversations with calls in parallel, answers late, missing or twice, thinking anywhere, prompts in between."""
    messages: list[SeenMessage] = []
    waiting: list[str] = []

    def say(role: str, content: list[dict[str, Any]]) -> None:
        messages.append(SeenMessage(len(messages), role, len(messages) // 2 + 1, content))

    for _ in range(draw(st.integers(1, 14))):
        said: list[dict[str, Any]] = []
        for identity in waiting:
            for _ in range(draw(st.sampled_from([1, 1, 1, 1, 0, 2]))):
                text = draw(_ANSWERS) + "\n" + "z" * draw(_SIZES)
                failed = draw(st.sampled_from([False, False, True]))
                said.append({"type": "tool_result", "tool_use_id": identity, "content": text, "is_error": failed})
        if not waiting or draw(st.integers(0, 5)) == 0:
            said += [{"type": "text", "text": draw(_SAID)} for _ in range(draw(st.integers(1, 2)))]
        say(draw(st.sampled_from(["user"] * 9 + ["system"])), said)
        waiting, spoken = [], []
        for _ in range(draw(st.integers(0, 3))):
            what = draw(st.sampled_from(["think", "say", "call", "call"]))
            if what == "think":
                spoken.append({"type": "thinking", "thinking": "t", "signature": "s"})
            elif what == "say":
                spoken.append({"type": "text", "text": draw(_SAID)})
            else:
                tool, given = draw(_CALLS)
                waiting.append(draw(st.sampled_from(["same", f"c{len(messages)}-{len(spoken)}"])))
                spoken.append({"type": "tool_use", "id": waiting[-1], "name": tool, "input": given})
        say("assistant", spoken)
        waiting = list(dict.fromkeys(waiting))
    return messages

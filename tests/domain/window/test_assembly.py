"""At any fidelity a rendered history stays valid, and its unchanged part keeps its bytes."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import NOTE
from mnemosyne.domain.window.assembly import (
    BEFORE,
    HERE,
    KEPT_INPUT,
    LONG_GONE,
    Message,
    ObjectRendering,
    Renderings,
    assemble,
    describe_segment,
    join,
    shorten,
)
from mnemosyne_lab.provider.rules import violations
from tests.profiles import examples

FIDELITIES = st.sampled_from(list(Fidelity))


def _body(messages: Sequence[Message]) -> dict[str, Any]:
    return {"model": "claude-opus-5-5", "max_tokens": 1, "messages": list(messages)}


def _render_object(name: str, fidelity: Fidelity) -> ObjectRendering:
    return ObjectRendering(
        id=name, fidelity=fidelity, text=f"what {name} said", facts="lost: 3 paths", line=f"Read {name}.py"
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Valid histories: single and parallel calls, thinking, and texts on either side."""
    messages: list[Message] = [{"role": "user", "content": "Begin."}]
    for number in range(draw(st.integers(1, 8))):
        calls = [f"toolu_{number}_{each}" for each in range(draw(st.integers(0, 3)))]
        content: list[dict[str, Any]] = []
        if draw(st.booleans()):
            content.append({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})
        if draw(st.booleans()) or not calls:
            content.append({"type": "text", "text": f"Step {number}."})
        content += [
            {"type": "tool_use", "id": call, "name": "Read", "input": {"path": "a" * draw(st.sampled_from((3, 500)))}}
            for call in calls
        ]
        answers: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": call, "content": f"text of {call}"} for call in calls
        ]
        if draw(st.booleans()) or not calls:
            answers.append({"type": "text", "text": f"Go on {number}."})
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": answers}]
    return messages


@st.composite
def shown(draw: st.DrawFn) -> tuple[list[Message], list[list[BlockPlace]], Renderings]:
    """A history, its objects (a call and its result always share one), and their renderings."""
    messages = draw(histories())
    units: dict[str, list[BlockPlace]] = {}
    for number, message in enumerate(messages):
        content = message["content"]
        for index, block in enumerate([{"type": "text"}] if isinstance(content, str) else content):
            key = block.get("id") or block.get("tool_use_id") or f"text {number} {index}"
            units.setdefault(key, []).append(BlockPlace(number, index))
    objects: list[list[BlockPlace]] = []
    for places in units.values():
        if objects and draw(st.integers(0, 3)) == 0:
            objects[-1] += places
        else:
            objects.append(list(places))
    return messages, objects, _render_objects(objects, [draw(FIDELITIES) for _ in objects])


def _render_objects(objects: Sequence[Sequence[BlockPlace]], fidelities: Sequence[Fidelity]) -> Renderings:
    return {
        place: _render_object(f"id{number}", fidelity)
        for number, (places, fidelity) in enumerate(zip(objects, fidelities, strict=True))
        for place in places
        if fidelity is not Fidelity.FULL
    }


def _flat(messages: Sequence[Message], *, notes: bool = True) -> list[tuple[str, str]]:
    return [
        (message["role"], repr(block))
        for message in messages
        for block in message["content"]
        if notes or NOTE not in repr(block)
    ]


@examples(300)
@given(shown())
def test_any_fidelities_yield_a_valid_history(case: tuple[list[Message], list[list[BlockPlace]], Renderings]) -> None:
    messages, _, renderings = case
    assert violations(_body(messages), ()) == []
    rendered = assemble(messages, renderings, thinking_from=len(messages))
    assert violations(_body(rendered), ()) == []
    roles = [message["role"] for message in rendered]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    assert all(message["content"] for message in rendered)


@examples(200)
@given(shown())
def test_every_degraded_object_is_shown_exactly_once(
    case: tuple[list[Message], list[list[BlockPlace]], Renderings],
) -> None:
    messages, _, renderings = case
    text = repr(assemble(messages, renderings, thinking_from=len(messages)))
    blocks = {
        place: block
        for number, message in enumerate(messages)
        if not isinstance(message["content"], str)
        for place, block in ((BlockPlace(number, index), block) for index, block in enumerate(message["content"]))
    }
    for rendering in set(renderings.values()):
        places = [place for place, each in renderings.items() if each.id == rendering.id]
        if any(blocks.get(place, {}).get("type") != "thinking" for place in places):
            told = rendering.line if rendering.fidelity is Fidelity.EVICTED else rendering.text
            assert sum(text.count(told + end) for end in ("'", ";", "\\n")) == 1, (rendering, text)


@examples(200)
@given(shown(), st.data())
def test_history_before_a_change_keeps_its_bytes_up_to_the_note(
    case: tuple[list[Message], list[list[BlockPlace]], Renderings], data: st.DataObject
) -> None:
    messages, objects, before = case
    cut = 2 * data.draw(st.integers(0, len(messages) // 2)) + 1  # after a user message
    fidelities = [
        data.draw(FIDELITIES)
        if places[0].message >= cut
        else before[places[0]].fidelity
        if places[0] in before
        else Fidelity.FULL
        for places in objects
    ]
    after = _render_objects(objects, fidelities)
    untouched = assemble(messages[:cut], before, thinking_from=len(messages))
    if HERE in repr(untouched[-1]):
        untouched.pop()
    last = max(number for number, message in enumerate(untouched) if message["role"] == "user")
    for renderings in (before, after):
        rendered = assemble(messages, renderings, thinking_from=len(messages))
        assert rendered[:last] == untouched[:last]
        beyond = _flat(untouched[last:], notes=False)  # the note there may name more objects
        assert _flat(rendered[last:], notes=False)[: len(beyond)] == beyond


@examples(200)
@given(shown())
def test_without_renderings_only_thinking_is_removed(
    case: tuple[list[Message], list[list[BlockPlace]], Renderings],
) -> None:
    messages, _, _ = case
    assert assemble(messages[1:], {}, first=1)[1:] == messages[1:]
    assert "'thinking'" not in repr(assemble(messages, {}, thinking_from=len(messages)))


CALL = {"type": "tool_use", "id": "a", "name": "Write", "input": {"file_path": "x.py", "content": "y" * 1000}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "z" * 1000}
PAIR: list[Message] = [
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [RESULT]},
]


def test_stubbed_call_keeps_a_shortened_input() -> None:
    rendering = _render_object("abc", Fidelity.STUB)
    _, call, result = assemble(PAIR, {BlockPlace(1, 0): rendering, BlockPlace(2, 0): rendering})
    given_to = call["content"][0]["input"]
    assert given_to["file_path"] == "x.py"
    assert len(given_to["content"]) <= KEPT_INPUT
    assert result["content"][0]["content"] == "[#abc left] what abc said"


def test_evicted_pair_becomes_one_note_line_behind_the_previous_user_text() -> None:
    rendering = _render_object("abc", Fidelity.EVICTED)
    (only,) = assemble(PAIR, {BlockPlace(1, 0): rendering, BlockPlace(2, 0): rendering})
    assert [block["text"] for block in only["content"]] == ["Begin.", f"{NOTE}\n#abc Read abc.py"]


def test_run_of_evicted_rounds_is_one_note_without_an_extra_user_message() -> None:
    rounds, last = 36, "toolu_36"
    messages: list[Message] = [{"role": "user", "content": "Review all of these."}]
    renderings: dict[BlockPlace, ObjectRendering] = {}
    for number in range(rounds + 1):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": f"/{number}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"text {number}"}
        said = {"type": "text", "text": f"Step {number}."}
        messages += [{"role": "assistant", "content": [said, call]}, {"role": "user", "content": [result]}]
        if number < rounds:
            rendering = _render_object(f"id{number}", Fidelity.EVICTED)
            renderings |= {BlockPlace(2 * number + 1, 1): rendering, BlockPlace(2 * number + 2, 0): rendering}
    asked, done, answered = assemble(messages, renderings)
    names = "; ".join(f"#id{number} Read id{number}.py" for number in range(rounds))
    assert [block["text"] for block in asked["content"]] == ["Review all of these.", f"{NOTE}\n36 objects: {names}"]
    assert [block["type"] for block in done["content"]] == ["text"] * (rounds + 1) + ["tool_use"]
    assert [(block["type"], block["tool_use_id"]) for block in answered["content"]] == [("tool_result", last)]


@pytest.mark.parametrize(
    ("evicted", "line"),
    [
        ([("a", "Read …/src/pool.py (9.0 KB)", "/w/src/pool.py")], "#a Read …/src/pool.py (9.0 KB)"),
        (
            [
                ("a", "Read …/src/pool.py (9.0 KB)", "/w/src/pool.py"),
                ("b", "Bash make test", ""),
                ("c", "Edit /w/src/pool.py", "/w/src/pool.py"),
                ("d", "Read …src/pool.py", "/w/src/pool.py"),
                ("e", "Bash make test", ""),
            ],
            "5 objects: #a (9.0 KB) #d Read, #c Edit /w/src/pool.py; #b #e Bash make test",
        ),
        (
            [("a", "Read x.py; Read y.py", "/w/y.py"), ("b", "Read y.py", "/w/y.py")],
            "2 objects: #a Read x.py; Read y.py; #b Read /w/y.py",
        ),
        ([("a", "Why so?", ""), ("b", "Read", "/w/y.py")], "2 objects: #a Why so?; #b Read"),
    ],
)
def test_evicted_neighbors_share_a_line_that_names_each_source_once(
    evicted: list[tuple[str, str, str]], line: str
) -> None:
    gone = [
        ObjectRendering(id=name, fidelity=Fidelity.EVICTED, text="", line=index_line, path=path)
        for name, index_line, path in evicted
    ]
    assert describe_segment(gone) == line


@pytest.mark.parametrize(
    ("fidelity", "fields", "shown"),
    [
        (
            Fidelity.DETAILED,
            {"facts": "L1 with 9 of 30 tokens; ask for: all"},
            "[#a in part; L1 with 9 of 30 tokens; ask for: all]\nits gist",
        ),
        (Fidelity.COMPACT, {}, "[#a in part]\nits gist"),
        (Fidelity.STUB, {}, "[#a left] its gist"),
        (Fidelity.EVICTED, {}, "[#a left] Read a.py (9.0 KB)"),
    ],
)
def test_partial_object_is_shown_with_its_facts(fidelity: Fidelity, fields: dict[str, Any], shown: str) -> None:
    assert (
        ObjectRendering(id="a", fidelity=fidelity, text="its gist", line="Read a.py (9.0 KB)", **fields).shown == shown
    )


def test_half_a_pair_is_never_evicted() -> None:
    rendering = _render_object("abc", Fidelity.EVICTED)
    for half in (BlockPlace(1, 0), BlockPlace(2, 0)):
        rendered = assemble(PAIR, {half: rendering})
        assert violations(_body(rendered), ()) == []
        assert len(rendered) == 3


@pytest.mark.parametrize("name", [7, None, ["toolu"], {"id": "toolu"}])
def test_non_string_ids_pair_calls_with_results(name: object) -> None:
    call = {"role": "assistant", "content": [CALL | {"id": name}]}
    result = {"role": "user", "content": [RESULT | {"tool_use_id": name}]}
    pair: list[Message] = [PAIR[0], call, result]
    for fidelity, left in ((Fidelity.STUB, 3), (Fidelity.EVICTED, 1)):
        rendering = _render_object("abc", fidelity)
        assert len(assemble(pair, {BlockPlace(1, 0): rendering, BlockPlace(2, 0): rendering})) == left


def test_history_never_begins_with_the_assistant() -> None:
    rendered = assemble([{"role": "assistant", "content": "Hello."}], {})
    assert rendered[0] == {"role": "user", "content": [{"type": "text", "text": BEFORE}]}


def test_l1_of_an_edit_drops_the_replaced_text_and_keeps_the_new_text() -> None:
    asked = {"file_path": "/a.py", "edits": [{"old_string": "x" * 500, "new_string": "y" * 500}], "content": "z" * 500}
    own = attrs.evolve(_render_object("id", Fidelity.DETAILED), is_own_detail=True)
    detailed, stub = shorten(asked, own), shorten(asked, _render_object("id", Fidelity.STUB))
    assert detailed["edits"][0]["new_string"] == "y" * 500
    assert detailed["content"] == "z" * 500
    assert detailed["edits"][0]["old_string"].startswith("x" * 80 + " [#id: 420 more characters]")
    assert max(len(stub["content"]), len(stub["edits"][0]["new_string"])) < 200


@pytest.mark.parametrize(("size", "kept"), [(160, 160), (600, 600), (601, 80)])
def test_an_extract_replaces_the_long_inputs_of_its_call(size: int, kept: int) -> None:
    cut = shorten({"content": "y" * size}, _render_object("id", Fidelity.DETAILED))["content"]
    assert len(cut.partition(" [#id: ")[0]) == kept


def test_system_message_stays_before_the_assistant_at_any_eviction() -> None:
    note = {"role": "system", "content": [{"type": "text", "text": "Agents: none."}]}
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    messages: list[Message] = [
        {"role": "user", "content": "Begin."},
        note,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "text"}]},
        {"role": "system", "content": [], "output_config": {"effort": "high"}},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
        {"role": "user", "content": "And now?"},
    ]
    gone = _render_object("a", Fidelity.EVICTED)
    rendered = assemble(messages, {BlockPlace(2, 0): gone, BlockPlace(3, 0): gone})
    assert [each["role"] for each in rendered] == ["user", "system", "system", "assistant", "user"]
    told = {"type": "text", "text": f"{NOTE}\n{gone.note_line}"}
    assert rendered[0]["content"] == [{"type": "text", "text": "Begin."}, told]
    assert rendered[1:3] == [note, messages[4]]
    whole = join(messages, {})
    assert [each.number for each in whole if each.same] == list(range(7))


def test_long_gone_objects_are_counted_without_lines() -> None:
    messages: list[Message] = [{"role": "user", "content": [{"type": "text", "text": "Begin."}]}]
    for name in "abc":
        call = {"type": "tool_use", "id": name, "name": "Read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": name, "content": "text"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    messages += [{"role": "assistant", "content": [{"type": "text", "text": "Done."}]}]
    gone = {name: attrs.evolve(_render_object(name, Fidelity.EVICTED), long_gone=name != "c") for name in "abc"}
    renderings = {BlockPlace(1 + 2 * at + part, 0): gone[name] for at, name in enumerate("abc") for part in (0, 1)}
    rendered = assemble(messages, renderings)
    note = "\n".join((NOTE, LONG_GONE.format(2), gone["c"].note_line))
    assert rendered[0]["content"] == [{"type": "text", "text": "Begin."}, {"type": "text", "text": note}]
    assert len(rendered) == 2


def test_evicting_system_text_creates_no_empty_message() -> None:
    note = {"role": "system", "content": [{"type": "text", "text": "Agents: none."}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    messages: list[Message] = [{"role": "user", "content": "Begin."}, note, answer, {"role": "user", "content": "Go."}]
    for fidelity in Fidelity:
        rendering = _render_object("a", fidelity)
        rendered = assemble(messages, {BlockPlace(0, 0): rendering, BlockPlace(1, 0): rendering})
        assert violations(_body(rendered), ()) == [], fidelity


def test_user_text_of_a_phase_stays_when_the_answer_is_evicted() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Why is it slow?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Because of this and that."}]},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    for fidelity in list(Fidelity)[1:]:
        rendering = ObjectRendering(
            id="a", fidelity=fidelity, text="its gist", line="Why it is slow", keeps_prompt=True
        )
        text = str(assemble(messages, {BlockPlace(0, 0): rendering, BlockPlace(1, 0): rendering}))
        assert "Why is it slow?" in text
        assert "Because" not in text
        assert "#a" in text


def test_assistant_messages_never_contain_text_of_the_user_or_the_proxy() -> None:
    prompt = "Why is it slow?\nAlso wondering: should this be split?"
    messages = [
        {"role": "user", "content": [{"type": "text", "text": prompt}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It reads all. So it is slow.\nIt is large, too."}]},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    extract = "Why is it slow?\n⋯ should this be split?\n⋯ 1 line\nIt reads all. ⋯"
    rendering = ObjectRendering(
        id="a", fidelity=Fidelity.COMPACT, text=extract, facts="ask for: the wording", line="", keeps_prompt=True
    )
    asked, said, _ = assemble(messages, {BlockPlace(0, 0): rendering, BlockPlace(1, 0): rendering})
    assert [block["text"] for block in said["content"]] == ["⋯ 1 line\nIt reads all. ⋯"]
    note = f"{NOTE}\n#a in part: what you said; ask for: the wording"
    assert [block["text"] for block in asked["content"]] == [prompt, note]


def test_assistant_gets_only_its_own_lines_of_a_summary_with_speakers() -> None:
    """Also for user lines of a helper's summary that are not in the history."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Why is it slow?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It reads all."}]},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    extract = "[user]\nThe user asks about speed\n[assistant]\nIt reads all."
    rendering = ObjectRendering(id="a", fidelity=Fidelity.COMPACT, text=extract, line="", keeps_prompt=True)
    _, said, _ = assemble(messages, {BlockPlace(0, 0): rendering, BlockPlace(1, 0): rendering})
    assert [block["text"] for block in said["content"]] == ["It reads all."]

"""Whatever leaves a window of Chat Completions, roles alternate as they did, and each call has its result behind it."""

import json
from itertools import cycle, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.catalogue import tariff_of
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.tools.memory_tools import NAMES, QUERY
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.assembly import Sight, Sights
from mnemosyne.domain.window.epochs import parse_client, render
from mnemosyne.domain.window.situation import PendingRequest
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.chat_history import complete_calls, message_of, write_message
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.reply import as_json
from tests.profiles import examples

Json = dict[str, Any]

FIDELITIES = st.sampled_from(list(Fidelity))
STRICT = {"user", "assistant"}
"""Roles of which templates want no two neighbours. Some leave out calls and their results where they look, so there the
assistant has to say something between a result and what its user says.
"""


def call(id_: str | float | None) -> Json:
    return {"id": id_, "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}


def asked(messages: list[Json]) -> PendingRequest:
    read = transcript.read(json.dumps({"model": "qwen3", "messages": messages}).encode(), lane="chat/main").transcript
    history = upstream_history.first(
        [read.message_bytes(number) for number in range(len(messages))], dialect=read.dialect
    )
    return PendingRequest(
        at=0, branch="main", turn=9, read=read, before=history, history=history, window=1, tariff=tariff_of("local")
    )


def rendered(messages: list[Json], sights: Sights) -> list[Json]:
    request = asked(messages)
    return [json.loads(each) for each in render(request, parse_client(request), sights)[0]]


def evicted(*places: tuple[int, int]) -> Sights:
    return {BlockPlace(*place): sight(f"id{place}", Fidelity.EVICTED) for place in places}


def sight(name: str, fidelity: Fidelity) -> Sight:
    return Sight(id=name, fidelity=fidelity, text=f"what {name} said", line=f"Read {name}")


def said(text: str, *calls: Json) -> Json:
    message = {"role": "assistant", "content": text, **({"tool_calls": [*calls]} if calls else {})}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def recalled(text: str) -> Json:
    """A reply with a call of a memory tool."""
    return said(text, {**call(f"q{len(text)}"), "function": {"name": QUERY, "arguments": '{"question": "what?"}'}})


LOOP: list[Json] = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "reasoning_content": "Hm.", "content": "I look.", "tool_calls": [call("c1")]},
    {"role": "tool", "tool_call_id": "c1", "content": "one"},
    {"role": "assistant", "reasoning_content": "So.", "content": "And there.", "tool_calls": [call("c2")]},
    {"role": "tool", "tool_call_id": "c2", "content": "two"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
]


def test_words_between_which_a_round_left_are_one_message_with_the_calls_that_stay() -> None:
    places = evicted((2, 2), (3, 0))
    assert [block["type"] for block in asked(LOOP).message(2)["content"]] == ["thinking", "text", "tool_use"]
    made = rendered(LOOP, places)
    assert [each["role"] for each in made] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert made[2] == {
        "role": "assistant",
        "reasoning_content": "Hm.\n\nSo.",
        "content": "I look.\n\nAnd there.",
        "tool_calls": [call("c2")],
    }
    assert made[3:] == LOOP[5:]


def test_what_the_user_said_before_and_behind_an_answer_that_left_is_one_message() -> None:
    talk = [LOOP[1], LOOP[6], LOOP[7], {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "So?"}]
    made = rendered(talk, evicted((1, 0), (3, 0)))
    [one] = made
    texts = [part["text"] for part in one["content"]]
    assert one["role"] == "user"
    assert (texts[0], texts[2], texts[4]) == ("Begin.", "Go on.", "So?")
    assert "Read id(1, 0)" in texts[1]
    assert made == rendered(talk, evicted((1, 0), (3, 0)))


def test_neighbours_that_the_client_itself_sends_stay_as_it_sends_them() -> None:
    talk = [
        LOOP[1],
        {"role": "user", "content": "At once."},
        LOOP[6],
        {"role": "assistant", "content": "Well."},
        LOOP[7],
    ]
    assert rendered(talk, {}) == talk


def test_an_answer_that_left_behind_a_result_leaves_the_beginning_of_its_words() -> None:
    long = "It is in a.py. " * 9
    talk = [*LOOP[:6], {"role": "assistant", "content": f"{long}\nAnd so on."}, LOOP[7]]
    made = rendered(talk, evicted((6, 0)))
    assert [each["role"] for each in made[-3:]] == ["tool", "assistant", "user"]
    assert made[-2]["content"] == f"{long[:80].rstrip()} ⋯"
    assert "Read id(6, 0)" in made[-3]["content"]


@pytest.mark.parametrize("last", [recalled(""), said("")], ids=["cut short", "said nothing"])
def test_a_reply_that_ended_with_what_a_hidden_call_got_is_ended_before_the_user_speaks(last: Json) -> None:
    asking = recalled("Hm.")
    history = upstream_history.first([as_json(LOOP[1])], dialect=CHAT)
    for native in (asking, last):
        content = tuple(CHAT.reply_content(native))
        results = {block["id"]: CHAT.write_result(block["id"], "teal", False) for block in content if is_call(block)}
        history = history.add_round(1, Round(content, results, native))
    went_on = history.next_round(1, NAMES)
    echo = {"role": "assistant", "content": "Hm."}
    grown = upstream_history.go_on(history, 1, [as_json(echo), as_json(LOOP[7])], NAMES)
    assert grown.messages[: len(went_on)] == went_on
    roles = [json.loads(each)["role"] for each in grown.messages]
    assert roles[-3:] == ["tool", "assistant", "user"]
    assert roles.count("assistant") == roles.count("tool") + 1


@pytest.mark.parametrize("numbers", [(0, 1, 2), (7, 7, 7), ("0", 0, "0"), (1.5, 2.5, 3.5), (None, None, None)])
def test_results_are_rewritten_where_calls_have_numbers_for_ids_or_none(numbers: tuple[Any, ...]) -> None:
    messages: list[Json] = [{"role": "user", "content": "Read."}]
    for number in numbers:
        messages += [message_of(said("", call(number))), {"role": "tool", "tool_call_id": number, "content": "A file."}]
    made = rendered(messages, {BlockPlace(2, 0): sight("a", Fidelity.STUB)})
    assert "what a said" in made[2]["content"]
    assert [made[0], made[1], *made[3:]] == [messages[0], messages[1], *messages[3:]]


@pytest.mark.parametrize("number", [0, 7, 1.5])
def test_a_hidden_call_gets_a_text_for_its_number_and_the_clients_own_keeps_it(number: float) -> None:
    hidden = {**call(number), "function": {"name": QUERY, "arguments": "{}"}}
    ours, own = message_of(complete_calls(said("", hidden, call(number)), NAMES))["tool_calls"]
    assert isinstance(ours["id"], str)
    assert ours["id"] != str(number)
    assert own == call(number)


def test_what_stands_for_no_message_of_the_clients_is_a_text() -> None:
    assert write_message({"role": "user", "content": [{"type": "text", "text": "x"}]}, []) == [
        {"role": "user", "content": "x"}
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    """Lawful ones: words, calls alone and in parallel, and what the user says behind some of them."""
    messages: list[Json] = [{"role": "user", "content": "Begin."}]
    for number in range(draw(st.integers(1, 7))):
        calls = [call(f"c{number}_{each}") for each in range(draw(st.integers(0, 2)))]
        says = draw(st.booleans()) or not calls
        thinks = {"reasoning_content": "Hm."} if draw(st.booleans()) else {}
        words = {"content": f"Step {number}." if says else None}
        messages.append({"role": "assistant", **thinks, **words, **({"tool_calls": calls} if calls else {})})
        messages += [{"role": "tool", "tool_call_id": each["id"], "content": f"of {each['id']}"} for each in calls]
        if not calls:
            said = f"Go on {number}."
            messages.append(
                {"role": "user", "content": draw(st.sampled_from([said, [{"type": "text", "text": said}]]))}
            )
    return messages


@st.composite
def shown(draw: st.DrawFn) -> tuple[list[Json], Sights]:
    messages = draw(histories())
    units: dict[str, list[BlockPlace]] = {}
    for number, message in enumerate(map(CHAT.read_message, messages)):
        for index, block in enumerate(message["content"]):
            if block["type"] != "thinking":
                key = block.get("id") or block.get("tool_use_id") or f"text {number} {index}"
                units.setdefault(key, []).append(BlockPlace(number, index))
    sights: dict[BlockPlace, Sight] = {}
    for key, places in units.items():
        fidelity = draw(FIDELITIES)
        if fidelity is not Fidelity.FULL:
            sights |= dict.fromkeys(places, sight(key, fidelity))
    return messages, sights


@examples(300)
@given(shown())
def test_any_fidelities_leave_a_history_that_strict_templates_take(case: tuple[list[Json], Sights]) -> None:
    messages, sights = case
    made = rendered(messages, sights)
    roles = [each["role"] for each in made]
    assert roles[0] == "user"
    assert all(not (one == other and one in STRICT) for one, other in pairwise(roles))
    turns = [each["role"] for each in made if each["role"] != "tool" and not each.get("tool_calls")]
    assert turns == [each for each, _ in zip(cycle(("user", "assistant")), turns, strict=False)]
    for number, each in enumerate(made):
        behind = made[number + 1 :]
        for asked_for in each.get("tool_calls", ()):
            answer = behind.pop(0)
            assert (answer["role"], answer["tool_call_id"]) == ("tool", asked_for["id"])
        assert each["role"] != "assistant" or each.get("content") or each.get("tool_calls")
    assert made == rendered(messages, sights)

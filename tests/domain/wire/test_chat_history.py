"""Whatever is evicted from a history of Chat Completions, roles still alternate, and each call is followed by its
result.
"""

import json
from itertools import cycle, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.tools.memory_tools import NAMES, QUERY
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.assembly import ObjectRendering, Renderings
from mnemosyne.domain.window.epochs import parse_client, render
from mnemosyne.domain.window.situation import PendingRequest
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.chat_history import complete_calls, message_of, write_message
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.reply import as_json
from tests.domain.stories import pending
from tests.profiles import examples

Json = dict[str, Any]

FIDELITIES = st.sampled_from(list(Fidelity))
STRICT = {"user", "assistant"}
"""Roles for which templates reject adjacent messages of one role. Some templates ignore calls and their results, so an
assistant message has to separate a result from the next user message.
"""


def call(id_: str | float | None) -> Json:
    return {"id": id_, "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}


def asked(messages: list[Json]) -> PendingRequest:
    read = transcript.read(
        json.dumps({"model": "qwen3", "messages": messages}).encode(), conversation="chat/main"
    ).transcript
    return pending(read, 9, tariff="local")


def rendered(messages: list[Json], renderings: Renderings) -> list[Json]:
    request = asked(messages)
    return [json.loads(element) for element in render(request, parse_client(request), renderings)[0]]


def evicted(*places: tuple[int, int]) -> Renderings:
    return {BlockPlace(*place): rendering(f"id{place}", Fidelity.EVICTED) for place in places}


def rendering(name: str, fidelity: Fidelity) -> ObjectRendering:
    return ObjectRendering(id=name, fidelity=fidelity, text=f"what {name} said", line=f"Read {name}")


def reply_with(text: str, *calls: Json) -> Json:
    message = {"role": "assistant", "content": text, **({"tool_calls": [*calls]} if calls else {})}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def recalled(text: str) -> Json:
    """Return a reply with a call of a memory tool."""
    return reply_with(
        text, {**call(f"q{len(text)}"), "function": {"name": QUERY, "arguments": '{"question": "what?"}'}}
    )


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


def test_texts_around_an_evicted_round_are_merged_with_the_remaining_calls() -> None:
    places = evicted((2, 2), (3, 0))
    assert [block["type"] for block in asked(LOOP).message(2)["content"]] == ["thinking", "text", "tool_use"]
    made = rendered(LOOP, places)
    assert [message["role"] for message in made] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert made[2] == {
        "role": "assistant",
        "reasoning_content": "Hm.\n\nSo.",
        "content": "I look.\n\nAnd there.",
        "tool_calls": [call("c2")],
    }
    assert made[3:] == LOOP[5:]


def test_user_messages_around_an_evicted_answer_are_merged() -> None:
    talk = [LOOP[1], LOOP[6], LOOP[7], {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "So?"}]
    made = rendered(talk, evicted((1, 0), (3, 0)))
    [one] = made
    texts = [part["text"] for part in one["content"]]
    assert one["role"] == "user"
    assert (texts[0], texts[2], texts[4]) == ("Begin.", "Go on.", "So?")
    assert "Read id(1, 0)" in texts[1]
    assert made == rendered(talk, evicted((1, 0), (3, 0)))


def test_adjacent_messages_that_the_client_sends_are_not_merged() -> None:
    talk = [
        LOOP[1],
        {"role": "user", "content": "At once."},
        LOOP[6],
        {"role": "assistant", "content": "Well."},
        LOOP[7],
    ]
    assert rendered(talk, {}) == talk


def test_an_evicted_answer_after_a_result_keeps_the_beginning_of_its_text() -> None:
    long = "It is in a.py. " * 9
    talk = [*LOOP[:6], {"role": "assistant", "content": f"{long}\nAnd so on."}, LOOP[7]]
    made = rendered(talk, evicted((6, 0)))
    assert [message["role"] for message in made[-3:]] == ["tool", "assistant", "user"]
    assert made[-2]["content"] == f"{long[:80].rstrip()} ⋯"
    assert "Read id(6, 0)" in made[-3]["content"]


@pytest.mark.parametrize("last", [recalled(""), reply_with("")], ids=["cut short", "said nothing"])
def test_a_reply_that_ended_with_a_hidden_calls_result_is_closed_before_the_users_message(last: Json) -> None:
    asking = recalled("Hm.")
    history = upstream_history.first([as_json(LOOP[1])], dialect=CHAT)
    for native in (asking, last):
        content = tuple(CHAT.reply_content(native))
        results = {block["id"]: CHAT.write_result(block["id"], "teal", False) for block in content if is_call(block)}
        history = history.add_round(1, Round(content, results, native))
    next_round = history.next_round(1, NAMES)
    echo = {"role": "assistant", "content": "Hm."}
    grown = upstream_history.go_on(history, 1, [as_json(echo), as_json(LOOP[7])], NAMES)
    assert grown.messages[: len(next_round)] == next_round
    roles = [json.loads(message)["role"] for message in grown.messages]
    assert roles[-3:] == ["tool", "assistant", "user"]
    assert roles.count("assistant") == roles.count("tool") + 1


@pytest.mark.parametrize("numbers", [(0, 1, 2), (7, 7, 7), ("0", 0, "0"), (1.5, 2.5, 3.5), (None, None, None)])
def test_results_are_rewritten_even_if_call_ids_are_numbers_or_missing(numbers: tuple[Any, ...]) -> None:
    messages: list[Json] = [{"role": "user", "content": "Read."}]
    for number in numbers:
        messages += [
            message_of(reply_with("", call(number))),
            {"role": "tool", "tool_call_id": number, "content": "A file."},
        ]
    made = rendered(messages, {BlockPlace(2, 0): rendering("a", Fidelity.STUB)})
    assert "what a said" in made[2]["content"]
    assert [made[0], made[1], *made[3:]] == [messages[0], messages[1], *messages[3:]]


@pytest.mark.parametrize("number", [0, 7, 1.5])
def test_a_hidden_calls_numeric_id_becomes_text_and_a_client_calls_id_is_kept(number: float) -> None:
    hidden = {**call(number), "function": {"name": QUERY, "arguments": "{}"}}
    ours, own = message_of(complete_calls(reply_with("", hidden, call(number)), NAMES))["tool_calls"]
    assert isinstance(ours["id"], str)
    assert ours["id"] != str(number)
    assert own == call(number)


def test_a_message_of_the_proxys_own_has_a_string_as_content() -> None:
    assert write_message({"role": "user", "content": [{"type": "text", "text": "x"}]}, []) == [
        {"role": "user", "content": "x"}
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    """Draw valid histories: texts, single and parallel calls, and user messages after some of them."""
    messages: list[Json] = [{"role": "user", "content": "Begin."}]
    for number in range(draw(st.integers(1, 7))):
        calls = [call(f"c{number}_{place}") for place in range(draw(st.integers(0, 2)))]
        says = draw(st.booleans()) or not calls
        thinks = {"reasoning_content": "Hm."} if draw(st.booleans()) else {}
        words = {"content": f"Step {number}." if says else None}
        messages.append({"role": "assistant", **thinks, **words, **({"tool_calls": calls} if calls else {})})
        messages += [{"role": "tool", "tool_call_id": made["id"], "content": f"of {made['id']}"} for made in calls]
        if not calls:
            words_of_user = f"Go on {number}."
            messages.append(
                {
                    "role": "user",
                    "content": draw(st.sampled_from([words_of_user, [{"type": "text", "text": words_of_user}]])),
                }
            )
    return messages


@st.composite
def shown(draw: st.DrawFn) -> tuple[list[Json], Renderings]:
    messages = draw(histories())
    units: dict[str, list[BlockPlace]] = {}
    for number, message in enumerate(map(CHAT.read_message, messages)):
        for index, block in enumerate(message["content"]):
            if block["type"] != "thinking":
                key = block.get("id") or block.get("tool_use_id") or f"text {number} {index}"
                units.setdefault(key, []).append(BlockPlace(number, index))
    renderings: dict[BlockPlace, ObjectRendering] = {}
    for key, places in units.items():
        fidelity = draw(FIDELITIES)
        if fidelity is not Fidelity.FULL:
            renderings |= dict.fromkeys(places, rendering(key, fidelity))
    return messages, renderings


@examples(300)
@given(shown())
def test_histories_with_any_fidelities_satisfy_strict_templates(case: tuple[list[Json], Renderings]) -> None:
    messages, renderings = case
    made = rendered(messages, renderings)
    roles = [message["role"] for message in made]
    assert roles[0] == "user"
    assert all(not (one == other and one in STRICT) for one, other in pairwise(roles))
    turns = [message["role"] for message in made if message["role"] != "tool" and not message.get("tool_calls")]
    assert turns == [role for role, _ in zip(cycle(("user", "assistant")), turns, strict=False)]
    for number, message in enumerate(made):
        following = made[number + 1 :]
        for asked_for in message.get("tool_calls", ()):
            answer = following.pop(0)
            assert (answer["role"], answer["tool_call_id"]) == ("tool", asked_for["id"])
        assert message["role"] != "assistant" or message.get("content") or message.get("tool_calls")
    assert made == rendered(messages, renderings)

"""Laws of dialects: a conversation reads as it was written, whatever its dialect and however it arrived."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.chat_reply import usage_of
from mnemosyne.domain.wire.dialects import DIALECTS, MAIN, conversation_of, dialect_of, is_side, side_of
from mnemosyne.domain.wire.fragments import read_block
from mnemosyne.domain.wire.identity import RequestKind, identify, read_client_headers
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.normal_form import Echo
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.transcript import Transcript
from tests.domain.wire.dialects import TALK, WRITTEN, ModelReply, Written, bodies, conversation, replies

IN_EACH_DIALECT = pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)
THINKS = {"thinking", "redacted_thinking"}


def read_of(written: Written, body: bytes, before: Transcript | None = None) -> Transcript:
    return transcript.read(body, before, conversation=conversation(written)).transcript


def blocks_in(read: Transcript) -> list[Any]:
    """Return the role and content of each block except thinking, which clients need not send back."""
    blocks = []
    for number, message in enumerate(read.messages):
        content = read.message(number)["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks += [(message.role, _plain(block)) for block in parts if block["type"] not in THINKS]
    return blocks


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    names = ("type", "text", "id", "name", "input", "tool_use_id", "content")
    return {name: block[name] for name in names if name in block}


def test_a_conversation_reads_the_same_in_every_dialect() -> None:
    contents = []
    for written in WRITTEN:
        read = read_of(written, bodies(written)[-1])
        assert read.opaque is None
        contents.append([block for block in blocks_in(read) if block[0] != "system"])
    assert contents[0] == contents[1] == contents[2]
    assert contents[0][1] == ("assistant", {"type": "text", "text": "Let me look."})


@IN_EACH_DIALECT
def test_each_block_is_at_its_range_and_reads_the_same_alone_as_in_its_message(written: Written) -> None:
    read = read_of(written, bodies(written)[-1])
    for number in range(len(read.messages)):
        content = read.message(number)["content"]
        ranges = read.block_ranges(number)
        if isinstance(content, str):
            assert [json.loads(read.raw[slice(*span)]) for span in ranges] == [content]
            continue
        assert len(ranges) == len(content)
        for block, (start, end) in zip(content, ranges, strict=True):
            if block["type"] not in THINKS:
                assert read_block(json.loads(read.raw[start:end])) == block


@IN_EACH_DIALECT
def test_a_body_is_rebuilt_and_read_alike_after_any_previous_body(written: Written) -> None:
    sent = bodies(written)
    for before in [None, *sent]:
        earlier = read_of(written, before) if before is not None else None
        for body in sent:
            reading = transcript.read(body, earlier, conversation=conversation(written))
            assert reading.transcript == transcript.read(body, conversation=conversation(written)).transcript
            held = (
                dict(transcript.read(before, conversation=conversation(written)).contents) if before is not None else {}
            )
            base = earlier.recipe if earlier is not None else Recipe()
            made = recipe.apply(base, reading.change)
            assert recipe.assemble(made.pieces, {**held, **dict(reading.contents)}.__getitem__) == body


@IN_EACH_DIALECT
def test_a_previous_body_in_another_dialect_does_not_change_the_reading(written: Written) -> None:
    body = bodies(written)[-1]
    for other in WRITTEN:
        assert read_of(written, body, read_of(other, bodies(other)[-1])) == read_of(written, body)


@IN_EACH_DIALECT
def test_a_reply_that_a_client_sends_back_equals_the_recorded_one(written: Written) -> None:
    sent = bodies(written)
    for reply, body, following in zip(replies(), sent, sent[1:], strict=False):
        recorded = written.dialect.read_reply(json.dumps(written.whole(reply)).encode())
        content = written.dialect.reply_content(json.loads(recorded.body))
        before = len(read_of(written, body).messages)
        assert transcript.compare_reply(read_of(written, following), before, content) is Echo.SAME


@IN_EACH_DIALECT
def test_a_different_reply_is_recognized_as_rewritten(written: Written) -> None:
    first, second = bodies(written)[:2]
    other = json.loads(json.dumps(written.whole(ModelReply("Something else."))))
    content = written.dialect.reply_content(other)
    before = len(read_of(written, first).messages)
    assert transcript.compare_reply(read_of(written, second), before, content) is Echo.REWRITTEN


@IN_EACH_DIALECT
@pytest.mark.parametrize("reply", replies())
def test_a_streamed_reply_equals_the_same_reply_unstreamed(written: Written, reply: ModelReply) -> None:
    whole = written.dialect.read_reply(json.dumps(written.whole(reply)).encode())
    streamed = written.dialect.reader()
    for line in written.stream(reply).decode().splitlines():
        data = line.removeprefix("data: ")
        if data != line and data != "[DONE]":
            streamed.take(json.loads(data))
    result = streamed.result()
    assert result.complete
    assert whole.complete
    contents = [written.dialect.reply_content(json.loads(recorded.body)) for recorded in (result, whole)]
    assert contents[0] == contents[1]
    assert tokens_of(result.usage) == tokens_of(whole.usage) == Tokens(input=12, read=100, output=9)
    assert result.message_id == whole.message_id


@IN_EACH_DIALECT
def test_the_blocks_of_a_reply_are_at_their_ranges(written: Written) -> None:
    for reply in replies():
        body = json.dumps(written.whole(reply)).encode()
        content = written.dialect.reply_content(json.loads(body))
        ranges = written.dialect.reply_ranges(body)
        assert len(content) == len(ranges)
        for block, (start, end) in zip(content, ranges, strict=True):
            if block["type"] not in THINKS:
                assert read_block(json.loads(body[start:end])) == block


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "text", "function", "name", "arguments", "output", "tool_calls"]
            ),
            inner | st.sampled_from(["tool", "assistant", "message", "function", "function_call", "reasoning", "text"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@IN_EACH_DIALECT
@given(elements=st.lists(JSON, max_size=4))
def test_nothing_that_a_client_sends_breaks_the_reading(written: Written, elements: list[Any]) -> None:
    body = json.dumps({"model": "m", written.dialect.array: elements}).encode()
    read = read_of(written, body)
    for number in range(len(read.messages)):
        content = read.message(number).get("content")
        if written.dialect is not MESSAGES:
            assert len(read.block_ranges(number)) == len(content or ())


@IN_EACH_DIALECT
@given(reply=JSON)
def test_nothing_that_a_provider_sends_breaks_the_reading(written: Written, reply: Any) -> None:
    held = reply if isinstance(reply, dict) else {"choices": reply, "output": reply, "usage": reply}
    body = json.dumps(held).encode()
    written.dialect.read_reply(body)
    written.dialect.reply_content(held)
    written.dialect.reply_ranges(body)
    reader = written.dialect.reader()
    reader.take(held)
    reader.result()


def test_a_history_held_by_the_provider_is_opaque() -> None:
    [responses] = [written for written in WRITTEN if written.dialect.name == "responses"]
    body = responses.request(TALK)
    for reference in ({"previous_response_id": "resp_0"}, {"conversation": "conv_1"}):
        assert read_of(responses, json.dumps({**body, **reference}).encode()).opaque == "history held by the provider"
    assert read_of(responses, json.dumps({**body, "previous_response_id": None}).encode()).opaque is None


def test_a_body_on_the_path_of_another_dialect_is_not_read() -> None:
    for written in WRITTEN:
        for other in WRITTEN:
            if {written.dialect.array, other.dialect.array} == {"messages", "input"}:
                assert read_of(written, bodies(other)[-1]).opaque is not None


@pytest.mark.parametrize("agent", [None, "a", "chat/x", "responses/main"])
def test_a_conversation_names_its_dialect(agent: str | None) -> None:
    for dialect in DIALECTS:
        made = conversation_of(dialect, agent)
        assert dialect_of(made) is dialect
        assert not is_side(made)
        assert is_side(side_of(made))
        assert dialect_of(side_of(made)) is dialect
    assert conversation_of(MESSAGES, None) == MAIN


def test_codexs_tools_in_the_history_belong_to_the_system_and_the_rest_is_a_conversation() -> None:
    [responses] = [written for written in WRITTEN if written.dialect.name == "responses"]
    body = responses.request(TALK)
    del body["tools"]
    named = [
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
        {"name": "wait"},
    ]
    body["input"].insert(0, {"type": "additional_tools", "role": "developer", "tools": named})
    client = read_client_headers([("user-agent", "codex_exec/0.169.0"), ("session-id", "s"), ("thread-id", "t")])
    read = transcript.read(
        json.dumps(body).encode(), conversation=conversation_of(responses.dialect, client.agent_id)
    ).transcript
    assert (read.offering, read.fields.has_tools, read.fields.tool_names) == (0, True, ("exec", "wait"))
    assert json.loads(read.tools) == named
    assert read.opaque is None
    assert read.messages[0].role == "system"
    origin = identify(client, read)
    assert (origin.external_id, origin.kind, origin.conversation) == ("s", RequestKind.TURN, "responses/agent:t")


@pytest.mark.parametrize(
    ("item", "offers"),
    [
        ({"type": "additional_tools", "role": "developer", "tools": [{"name": "look"}]}, True),
        ({"type": "additional_tools", "tools": [{"name": "look"}]}, False),
        ({"type": "additional_tools", "role": "developer", "tools": []}, False),
        ({"type": "additional_tools", "role": "developer", "tools": {"name": "look"}}, False),
        ({"type": "additional_tools", "role": "developer"}, False),
        ({"type": "message", "role": "developer", "tools": [{"name": "look"}]}, False),
    ],
)
def test_tools_are_offered_only_by_a_developer_item_with_a_list_of_tools(item: dict[str, object], offers: bool) -> None:
    raw = json.dumps({"model": "m", "input": [{"role": "system", "content": "Hi."}, item, {"role": "user"}]}).encode()
    read = transcript.read(raw, conversation="responses/main").transcript
    assert read.fields.has_tools is offers
    assert read.offering == (1 if offers else None)
    grown = raw.replace(b'{"role": "user"}', b'{"role": "user"}, {"role": "assistant", "content": "Done."}')
    assert transcript.read(grown, read, conversation="responses/main").transcript == (
        transcript.read(grown, conversation="responses/main").transcript
    )


def test_a_change_of_the_reasoning_effort_is_not_a_message_of_the_model() -> None:
    items = [{"role": "user", "content": "Hi."}, {"type": "configuration_update", "reasoning": {"effort": "low"}}]
    read = transcript.read(
        json.dumps({"model": "m", "input": items}).encode(), conversation="responses/main"
    ).transcript
    assert [message.role for message in read.messages] == ["user", "system"]
    assert (read.message(1), read.block_ranges(1)) == ({"role": "system", "content": []}, ())


@pytest.mark.parametrize(
    "item", ["hi", 7, None, [], {}, {"type": "reasoning", "summary": 7}, {"type": "message", "content": 7}]
)
def test_a_malformed_item_is_read_and_its_caller_identified(item: object) -> None:
    raw = json.dumps({"model": "m", "input": [item, item]}).encode()
    read = transcript.read(raw, conversation="responses/main").transcript
    assert identify(read_client_headers(()), read).kind in RequestKind
    assert [len(read.message_bytes(number)) for number in range(len(read.messages))] == [len(json.dumps(item))] * len(
        read.messages
    )


@pytest.mark.parametrize(
    ("reported", "read", "written"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 900}}, 900, None),
        ({"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 50}}, 0, 50),
        ({"prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100}, 900, None),
        ({"cached_tokens": 900}, 900, None),
        ({"num_cached_tokens": 900}, 900, None),
        ({"cache_read_input_tokens": 900, "cache_creation_input_tokens": 50}, 900, 50),
        ({"prompt_tokens_details": {"cached_tokens": 7, "cache_creation_tokens": 50}, "cached_tokens": 900}, 7, 50),
        ({"prompt_tokens_details": None}, None, None),
        ({"prompt_tokens_details": {"cached_tokens": None}}, None, None),
        ({}, None, None),
    ],
)
def test_cached_tokens_are_read_under_every_name_and_unreported_counts_are_omitted(
    reported: dict[str, object], read: int | None, written: int | None
) -> None:
    usage = usage_of({"prompt_tokens": 1_000, "completion_tokens": 5, **reported})
    assert usage["input_tokens"] == 1_000 - (read or 0) - (written or 0)
    assert usage.get("cache_read_input_tokens") == read
    assert usage.get("cache_creation_input_tokens") == written


def test_the_service_tier_of_a_reply_is_added_to_its_usage() -> None:
    for dialect in ("chat", "responses"):
        [written] = [written for written in WRITTEN if written.dialect.name == dialect]
        whole = {**written.whole(replies()[0]), "service_tier": "flex"}
        assert written.dialect.read_reply(json.dumps(whole).encode()).usage["service_tier"] == "flex"

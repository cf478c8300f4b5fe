"""A conversation for `opencode import` has all messages, and each call with its result."""

import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mnemosyne.adapters.opencode_sessions import import_session, write_session
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.errors import BadOption
from mnemosyne.services.forks import ForkPoint
from tests.blocks import result, text

AT = 1_767_605_467_114_000
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
FILE = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "read", "input": {"filePath": name}}


def write(*messages: tuple[str, list[dict[str, Any]]], tools: tuple[str, ...] = ("read",)) -> dict[str, Any]:
    request = {
        "model": "claude-opus-5-5",
        "tools": [{"name": each} for each in tools],
        "messages": [{"role": role, "content": content} for role, content in messages],
    }
    point = ForkPoint("opencode", "s", 3, 3, "msg_1", MESSAGES, request, {"content": [text("Done.")]}, UUID(int=1), 0)
    return write_session(point, (), Path("/home/ada/app"), AT)


def strip(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts without what names them and says when they were."""
    return [
        {key: value for key, value in part.items() if key not in ("id", "sessionID", "messageID", "time")}
        for part in parts
    ]


def test_thinking_texts_and_images_become_parts() -> None:
    thought = {"type": "thinking", "thinking": "Where?", "signature": "sig"}
    hidden = {"type": "redacted_thinking", "data": "enc"}
    session = write(
        ("user", [text("Look."), PICTURE]), ("assistant", [thought, hidden, text("So.")]), ("user", [text("On.")])
    )
    user, model, _, last = session["messages"]
    assert strip(user["parts"]) == [text("Look."), FILE]
    assert strip(model["parts"]) == [
        {"type": "reasoning", "text": "Where?", "metadata": {"anthropic": {"signature": "sig"}}},
        {"type": "reasoning", "text": "", "metadata": {"anthropic": {"redactedData": "enc"}}},
        text("So."),
    ]
    assert (model["info"]["modelID"], model["info"]["parentID"]) == ("claude-opus-5-5", user["info"]["id"])
    assert strip(last["parts"]) == [text("Done.")]
    assert session["info"]["title"] == "Look. (from turn 3)"


def test_a_call_has_its_result_and_typed_text_becomes_a_message() -> None:
    results = [result("a", "one"), result("b", "no such file", is_error=True), result("c", [text("seen"), PICTURE])]
    asked = [call(each) for each in "abcd"]
    session = write(("user", [text("Go.")]), ("assistant", asked), ("user", [*results, text("And?")]))
    _, model, typed, _ = session["messages"]
    states = [part["state"] for part in model["parts"]]
    assert [each["status"] for each in states] == ["completed", "error", "completed", "error"]
    assert (states[0]["output"], states[1]["error"]) == ("one", "no such file")
    assert strip(states[2]["attachments"]) == [FILE]
    assert strip(typed["parts"]) == [text("And?")]


def test_results_behind_the_last_reply_are_those_of_its_calls() -> None:
    request = {"messages": [{"role": "user", "content": "Go."}]}
    results = ({"role": "user", "content": [result("a", "one")]},)
    point = ForkPoint(
        "opencode", "s", 3, 3, "msg_1", MESSAGES, request, {"content": [call("a")]}, UUID(int=1), 0, ("a",), results
    )
    _, model = write_session(point, (), Path("/home/ada/app"), AT)["messages"]
    assert model["parts"][0]["state"]["output"] == "one"


def test_ids_are_unique_and_in_order_of_time() -> None:
    session = write(("user", [text("Go.")]), ("assistant", [call("a")]), ("user", [result("a", "x")]))
    names = [each["info"]["id"] for each in session["messages"]]
    assert names == sorted(set(names))
    assert all(part["messageID"] == each["info"]["id"] for each in session["messages"] for part in each["parts"])
    assert session["info"]["id"].startswith("ses_")


def test_tools_that_the_session_did_not_have_are_denied() -> None:
    for tools, kept in ((("read",), ["question", "plan_enter", "plan_exit"]), (("read", "question"), [])):
        session = write(("user", [text("Go.")]), tools=tools)
        assert [each["permission"] for each in session["info"]["permission"]] == kept


def test_items_of_one_reply_make_a_message_with_signed_reasoning() -> None:
    thought = {"type": "reasoning", "encrypted_content": "enc", "summary": [{"type": "summary_text", "text": "Hm."}]}
    called = {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}
    request = {
        "model": "gpt-5.5",
        "input": [
            {"role": "developer", "content": "Rules"},
            {"role": "user", "content": [{"type": "input_text", "text": "Go."}]},
            {**thought, "id": "rs_1"},
            called,
            {"type": "function_call_output", "call_id": "a", "output": "one"},
        ],
    }
    output = [thought, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}]
    point = ForkPoint("opencode", "s", 2, 2, "resp_1", RESPONSES, request, {"output": output}, UUID(int=1), 0)
    user, model, last = write_session(point, (), Path("/home/ada/app"), AT)["messages"]
    assert user["info"]["model"] == {"providerID": "openai", "modelID": "gpt-5.5"}
    about = [part["metadata"]["openai"] for part in (model["parts"][0], last["parts"][0])]
    assert [each["reasoningEncryptedContent"] for each in about] == ["enc", "enc"]
    assert about[0]["itemId"] == "rs_1" != about[1]["itemId"]
    assert (model["parts"][1]["state"]["output"], last["parts"][1]["text"]) == ("one", "Done.")


def test_provider_of_chat_completions_is_taken_from_the_command() -> None:
    called = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [{"role": "system", "content": "Rules"}, {"role": "user", "content": "Go."}]
    reply = {"choices": [{"message": {"role": "assistant", "reasoning_content": "Hm.", "tool_calls": [called]}}]}
    results = ({"role": "tool", "tool_call_id": "a", "content": "one"},)
    request = {"model": "qwen", "messages": messages}
    point = ForkPoint("opencode", "s", 1, 1, "chatcmpl_1", CHAT, request, reply, UUID(int=1), 0, ("a",), results)
    for words in (("run", "-m", "local/qwen"), ("run", "--model=local/qwen")):
        user, model = write_session(point, words, Path("/"), AT)["messages"]
        assert (user["info"]["model"]["providerID"], strip(user["parts"])) == ("local", [text("Go.")])
        assert strip(model["parts"])[0] == {"type": "reasoning", "text": "Hm."}
        assert model["parts"][1]["state"]["output"] == "one"
    with pytest.raises(BadOption, match="-m PROVIDER/MODEL"):
        write_session(point, ("run",), Path("/"), AT)


def test_a_refused_import_is_reported_with_opencode_s_message(tmp_path: Path) -> None:
    session = write(("user", [text("Go.")]))
    program = tmp_path / "opencode"
    for script, sentence in (("echo broken >&2; exit 1", "the conversation: broken"), ("exit 0", "no reason given")):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        with pytest.raises(BadOption, match=sentence):
            import_session([str(program)], session, tmp_path, {})
    with pytest.raises(BadOption, match="cannot be run"):
        import_session([str(tmp_path / "none")], session, tmp_path, {})
    program.write_text(f'#!/bin/sh\ntest "$1" = import && exec {sys.executable} -c "print(open(\'$2\').read())"\n')
    import_session([str(program)], session, tmp_path, {})

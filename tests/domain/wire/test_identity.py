"""Identifying clients: headers first, then small fields and texts."""

from collections.abc import Iterable
from typing import Any

import pytest

from mnemosyne.domain.wire import identity
from mnemosyne.domain.wire.dialects import conversation_of
from mnemosyne.domain.wire.identity import RequestKind, RequestOrigin, read_client_headers
from mnemosyne.domain.wire.transcript import Transcript, read
from tests.domain.recorded import MARKER, dumps

CLAUDE = ("User-Agent", "claude-cli/2.1.329 (external, cli)")
OPENCODE = ("user-agent", "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14")
TOOLS = [{"name": "bash"}]


def identified(headers: Iterable[tuple[str, str]], transcript: Transcript) -> RequestOrigin:
    """Identify the sender of a request with these headers."""
    client_headers = read_client_headers(headers)
    conversation = conversation_of(transcript.dialect, client_headers.agent_id)
    return identity.identify(client_headers, read(transcript.raw, conversation=conversation).transcript)


def request(*texts: str, tools: bool = True, **members: Any) -> Transcript:
    """Return a request whose messages alternate between user and assistant."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return read(dumps({"messages": messages, **({"tools": TOOLS} if tools else {}), **members})).transcript


@pytest.mark.parametrize(
    ("user_agent", "client", "version"),
    [
        (CLAUDE[1], "claude-code", "2.1.329"),
        (OPENCODE[1], "opencode", "1.18.33"),
        ("codex-tui/0.171.0 (Debian 12.0.0; x86_64) xterm (codex-tui; 0.171.0)", "codex", "0.171.0"),
        ("Anthropic/Python 2.11.0", "anthropic-sdk", "2.11.0"),
        ("AsyncAnthropic/Python 2.11.0", "anthropic-sdk", "2.11.0"),
        ("curl", "other", None),
    ],
)
def test_the_client_and_its_version_are_in_the_user_agent(user_agent: str, client: str, version: str | None) -> None:
    client_headers = identity.read_client_headers([("user-agent", user_agent)])
    assert (client_headers.client, client_headers.version) == (client, version)


@pytest.mark.parametrize(
    ("user_agent", "reads"),
    [
        ("claude-cli/2.1.329 (external, sdk-cli)", True),
        ("claude-cli/2.2.0", True),
        ("claude-cli/3.0", True),
        ("claude-cli/2.1.1000-beta.1", True),
        ("claude-cli/2.1.328", False),
        ("claude-cli/2.1.197 (external, sdk-cli)", False),
        ("claude-cli/" + "9" * 5000 + ".1", True),
        ("claude-cli/none", False),
        ("opencode/9.9.9", False),
        ("Anthropic/Python 9.11.0", False),
        ("curl/9.0.0", False),
    ],
)
def test_only_clients_observed_to_do_so_read_the_context_size_from_iterations(user_agent: str, reads: bool) -> None:
    assert identity.read_client_headers([("user-agent", user_agent)]).reads_iterations is reads


def test_the_proxys_own_header_has_priority() -> None:
    headers = [CLAUDE, ("X-Claude-Code-Session-Id", "theirs"), ("X-Mnemosyne-Session", "ours")]
    assert identified(headers, request("a")).external_id == "ours"


def test_claude_code_names_its_session_in_a_header_or_in_its_metadata() -> None:
    metadata = {"user_id": '{"session_id":"b"}'}
    assert identified([CLAUDE, ("X-Claude-Code-Session-Id", "a")], request("a", metadata=metadata)).external_id == "a"
    assert identified([CLAUDE, ("X-Claude-Code-Session-Id", " ")], request("a", metadata=metadata)).external_id == "b"


@pytest.mark.parametrize("user_id", ["", "plain", "[]", '{"session_id":7}', "[" * 100_000])
def test_metadata_without_a_session_is_ignored(user_id: str) -> None:
    assert identified([CLAUDE], request("a", metadata={"user_id": user_id})).external_id is None


def test_a_sub_agent_of_opencode_belongs_to_the_calling_session() -> None:
    headers = [OPENCODE, ("x-session-id", "child"), ("x-parent-session-id", "parent")]
    origin = identified(headers, request("a"))
    assert (origin.external_id, origin.parent_external_id, origin.agent_id) == ("parent", "parent", "child")
    assert origin.conversation == "agent:child"


def test_a_sub_agent_of_claude_code_shares_the_session_and_has_its_own_conversation() -> None:
    origin = identified([CLAUDE, ("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "a")], request("a"))
    assert (origin.external_id, origin.agent_id, origin.conversation) == ("s", "a", "agent:a")


@pytest.mark.parametrize(
    ("header", "texts", "tools", "kind", "conversation"),
    [
        (CLAUDE, ["a", "b", "CRITICAL: Respond with TEXT ONLY. No tools."], True, RequestKind.COMPACTION, "main"),
        (CLAUDE, ["This session is being continued from a previous conversation that ran out of context. x"], True,
         RequestKind.SUCCESSOR, "main"),
        (OPENCODE, ["Here is the conversation so far:\n\n<conversation>"], False, RequestKind.COMPACTION, "main"),
        (OPENCODE, ["What did we do so far?", "x", "y"], True, RequestKind.SUCCESSOR, "main"),
        (OPENCODE, ["Generate a title for this conversation:\n"], False, RequestKind.TITLE, "side"),
        (OPENCODE, ["anything"], False, RequestKind.SIDE, "side"),
        (CLAUDE, ["anything"], False, RequestKind.SIDE, "side"),
        (CLAUDE, ["What did we do so far?"], True, RequestKind.TURN, "main"),
        (("user-agent", "Anthropic/Python 2.11.0"), ["anything"], False, RequestKind.TURN, "main"),
        (("x", "y"), ["CRITICAL: Respond with TEXT ONLY"], True, RequestKind.COMPACTION, "main"),
    ],
)  # fmt: skip
def test_the_kind_and_conversation_of_a_request(
    header: tuple[str, str], texts: list[str], tools: bool, kind: RequestKind, conversation: str
) -> None:
    origin = identified([header], request(*texts, tools=tools))
    assert (origin.kind, origin.conversation) == (kind, conversation)


def test_a_context_summarization_agent_is_recognized_by_its_system_prompt() -> None:
    origin = identified([OPENCODE], request("x", tools=False, system="You are a context summarization agent. Go."))
    assert origin.kind is RequestKind.COMPACTION


def test_codexs_compaction_and_its_successor_are_recognized() -> None:
    """Seen with 0.169.0: the same prompts again, then the summary, then the rest of the context."""
    codex = ("user-agent", "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown")

    def asked(*items: tuple[str, str], tools: bool = True) -> RequestKind:
        items_sent = [{"role": role, "content": [{"type": "input_text", "text": text}]} for role, text in items]
        body = {"input": items_sent, **({"tools": [{"type": "function", "name": "exec_command"}]} if tools else {})}
        return identified([codex], read(dumps(body), conversation="responses/main").transcript).kind

    opening = [("developer", "You are Codex."), ("user", "<environment_context>"), ("user", "Which colour?")]
    summary = ("user", "Another language model started to solve this problem and produced a summary of its thinking")
    checkpoint = ("user", "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary")
    assert asked(*opening, ("assistant", "Teal."), checkpoint, tools=False) is RequestKind.COMPACTION
    assert asked(*opening, summary) is RequestKind.SUCCESSOR
    assert asked(*opening, summary, ("assistant", "On."), ("user", "And?")) is RequestKind.SUCCESSOR
    assert asked(*opening, ("assistant", "Teal."), summary) is RequestKind.TURN
    title = "Generate a concise, single-line task title of at most 36 characters"
    assert asked(*opening[:2], ("user", title)) is RequestKind.TITLE, "of codex-tui 0.171.0"


def test_a_compaction_trigger_and_a_history_that_begins_with_its_result_are_recognized() -> None:
    def asked(*items: dict[str, Any]) -> RequestKind:
        body = {"input": list(items), "tools": [{"type": "function", "name": "exec_command"}]}
        return identified([], read(dumps(body), conversation="responses/main").transcript).kind

    prompt, answer = {"role": "user", "content": "Which colour?"}, {"role": "assistant", "content": "Teal."}
    compaction = {"type": "compaction", "encrypted_content": "c2VhbGVk"}
    assert asked(prompt, answer, {"type": "compaction_trigger"}) is RequestKind.COMPACTION
    assert asked(prompt, compaction, prompt, answer, prompt) is RequestKind.SUCCESSOR
    assert asked(prompt, answer, compaction, prompt) is RequestKind.TURN
    assert asked() is RequestKind.TURN


def test_a_title_request_is_recognized_by_its_schema() -> None:
    origin = identified([CLAUDE], request("x", tools=False, output_config={"format": {"type": "json_schema"}}))
    assert (origin.kind, origin.conversation) == (RequestKind.TITLE, "side")


def test_a_compaction_with_another_text_is_recognized_by_its_marker() -> None:
    marked = [{"type": "text", "text": "b", "cache_control": MARKER}]
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": marked},
        {"role": "user", "content": "Sum up."},
    ]
    origin = identified([CLAUDE], read(dumps({"messages": messages, "tools": TOOLS})).transcript)
    assert origin.kind is RequestKind.COMPACTION
    turn = identified([OPENCODE], read(dumps({"messages": messages, "tools": TOOLS})).transcript)
    assert turn.kind is RequestKind.TURN


def test_a_successor_with_another_text_is_recognized_by_its_empty_system_message() -> None:
    summary = [{"role": "user", "content": "A summary."}, {"role": "system", "content": []}]
    for empty, kind in ((summary, RequestKind.SUCCESSOR), (summary[:1], RequestKind.TURN)):
        messages = [*empty, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
        assert identified([CLAUDE], read(dumps({"messages": messages, "tools": TOOLS})).transcript).kind is kind


OWN = ("X-Api-Key", "a-gateway-s-own-key")


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-CANARY",
        "Bearer CANARY",
        "ghp_CANARYabcdefghijklmnopqrstuvwxyz0123",
        "a-gateway-s-own-key",
        "session a-gateway-s-own-key",
    ],
)
def test_a_session_name_that_is_a_key_or_contains_the_requests_key_is_hashed(secret: str) -> None:
    for header in ("X-Session-Id", "X-Claude-Code-Agent-Id"):
        client_headers = read_client_headers([(header, secret), OWN])
        assert secret not in repr(client_headers)
        assert "hidden:" in repr(client_headers)
        assert client_headers == read_client_headers([(header.lower(), secret), OWN])
        assert client_headers != read_client_headers([(header, "sk-ant-OTHER"), OWN])
    asked = request("hi", metadata={"user_id": dumps({"session_id": secret}).decode()})
    origin = identity.identify(read_client_headers([]), asked, frozenset({OWN[1]}))
    assert (origin.external_id or "").startswith("hidden:")


def test_another_session_name_is_kept() -> None:
    assert read_client_headers([("X-Session-Id", "plain"), OWN]).external_id == "plain"
    asked = request("hi", metadata={"user_id": '{"session_id": "a-gateway-s-own-key"}'})
    assert identified([], asked).external_id == "a-gateway-s-own-key"


OAUTH, KEY = "sk-ant-oat01-" + 20 * "a", "sk-ant-api03-" + 20 * "b"


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ([], None),
        ([("X-Api-Key", KEY)], "key"),
        ([("Authorization", f"Bearer {KEY}")], "key"),
        ([("authorization", f"bearer {OAUTH}")], "oauth"),
        ([("x-api-key", "dummy"), ("Authorization", f"Bearer {OAUTH}")], "oauth"),
        ([("Authorization", "Bearer t0ken"), ("anthropic-beta", "a-1,oauth-2025-04-20")], "oauth"),
        ([("Authorization", "Bearer t0ken")], "bearer"),
        ([("Authorization", "Basic dXNlcjpwYXNz")], None),
        ([("Authorization", "Bearer ")], None),
    ],
)
def test_only_the_kind_of_a_credential_is_kept(headers: list[tuple[str, str]], kind: str | None) -> None:
    client_headers = read_client_headers(headers)
    assert client_headers.credential == kind
    assert not any(part in repr(client_headers) for part in (OAUTH, KEY, "t0ken", "dXNl"))


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([("X-Api-Key", KEY)], KEY),
        ([("Authorization", f"Bearer {KEY}")], KEY),
        ([("x-api-key", KEY), ("authorization", f"Bearer {KEY}")], KEY),
        ([("Authorization", "bearer sk-proj-abc_1")], "sk-proj-abc_1"),
        ([("Authorization", "Bearer sk-or-v1-0a1b")], "sk-or-v1-0a1b"),
        ([], None),
        ([("Authorization", f"Bearer {OAUTH}")], None),
        ([("x-api-key", OAUTH)], None),
        ([("x-api-key", KEY), ("Authorization", f"Bearer {OAUTH}")], None),
        ([("x-api-key", KEY), ("anthropic-beta", "a-1,oauth-2025-04-20")], None),
        ([("Authorization", "Bearer sk-ant-ort01-aaaa")], None),
        ([("Authorization", "Bearer sk-ant-sid01-aaaa")], None),
        ([("Authorization", "Bearer sk-admin-aaaa")], None),
        ([("Authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln")], None),
        ([("Authorization", "Bearer sk-proj-abc"), ("ChatGPT-Account-ID", "a")], None),
        ([("Authorization", "Basic c2stYW50LWFwaTAzLXg=")], None),
        ([("Authorization", KEY)], None),
        ([("x-api-key", "a-gateways-own-key")], None),
        ([("x-api-key", KEY), ("x-api-key", KEY + "2")], None),
        ([("x-api-key", "sk-ant-api03-a b")], None),
    ],
)
def test_only_a_single_credential_that_is_known_to_be_an_api_key_counts_as_one(
    headers: list[tuple[str, str]], key: str | None
) -> None:
    assert identity.find_api_key(headers) == key

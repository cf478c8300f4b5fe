"""Invariants of the wire history: it only grows, and a strict provider accepts every request."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING, visible_blocks
from mnemosyne.domain.tools.memory_tools import NAMES, TOOL, TOOLS, tools_json
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire import history as wire_history
from mnemosyne.domain.wire import message_bytes, transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.messages_history import sendable, write_result
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne_lab.provider.rules import violations
from mnemosyne_lab.provider.signatures import check
from tests.domain.recorded import dumps
from tests.http.managing import LOOK, SYSTEM, assert_prefixes, bare
from tests.not_none import not_none
from tests.profiles import examples

Json = dict[str, Any]

HEADERS = [("anthropic-version", "2023-06-01"), ("x-api-key", "k")]
SECRET = b"secret"
SAID = b'{"role":"user","content":[{"type":"text","text":"Hello."}]}'
TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"

blocks = st.sampled_from(["thinking", "text", "tagged", "tag", "blank", "hidden", "own", "bad hidden"])
rounds = st.lists(st.lists(blocks, min_size=1, max_size=4), min_size=1, max_size=4)
echoes = st.sampled_from(["same", "same", "same", "trimmed", "rewritten", "absent", "rewound", "repeated", "started"])
turns = st.lists(st.tuples(rounds, echoes), min_size=1, max_size=7)


@attrs.define
class Conversation:
    """A client, the wire history of its branch, and a provider that signs its thinking and validates requests."""

    client: list[Json] = attrs.field(factory=list)
    before: list[bytes] = attrs.field(factory=list)
    history: UpstreamHistory | None = None
    sent: list[Json] = attrs.field(factory=list)
    ids: int = 0
    attempt: int = 1
    manual: bool = False

    def ask(self) -> None:
        """The client's request as it is sent upstream."""
        read = transcript.read(self.request()).transcript
        client = read.list_elements()
        chains = [message.chain for message in read.messages]
        if self.history is None:
            self.history = upstream_history.begin(read)
        else:
            shared = [one == other for one, other in zip(chains, self.before, strict=False)]
            kept = shared.index(False) if False in shared else len(shared)
            self.attempt = self.attempt + 1 if kept == len(client) == len(self.before) else 1
            self.history = upstream_history.go_on(self.history, kept, client[kept:], NAMES)
        self.before = chains
        self.send(upstream_history.body(read, self.history, tools_json(MESSAGES)))

    def request(self) -> bytes:
        *before, last = self.client
        *blocks, end = last["content"]
        marked = {**last, "content": [*blocks, {**end, "cache_control": {"type": "ephemeral"}}]}
        return dumps(self.members([*before, marked]))

    def members(self, messages: list[Json]) -> Json:
        head = {"model": "claude-opus-5-5", "max_tokens": 4000, "thinking": {"type": "adaptive"}}
        return {**head, "system": SYSTEM, "tools": [LOOK], "messages": messages}

    def send(self, body: bytes) -> None:
        said = json.loads(body)
        assert violations(said, HEADERS) == []
        verdict = check(SECRET, said, HEADERS)
        assert verdict.error is None
        assert {tool["name"] for tool in said["tools"]} == {"Look"} | NAMES - {TOOL}
        self.sent.append(said)

    def reply(self, rounds: list[list[str]]) -> list[Json]:
        """The reply in rounds; returns the part that the client sees."""
        assert self.history is not None
        visible: list[Json] = []
        for number, kinds in enumerate(rounds):
            content = self.round(kinds, self.sent[-1])
            hidden = [block for block in content if wire_history.is_hidden(block, NAMES)]
            own = [block for block in content if block["type"] == "tool_use" and block not in hidden]
            results = {block["id"]: write_result(block["id"], "an answer", False) for block in hidden}
            self.history = self.history.add_round(self.attempt, Round(tuple(content), results))
            visible += visible_blocks(block for block in content if block not in hidden)
            if own or not hidden or number + 1 == len(rounds):
                break
            read = transcript.read(self.request()).transcript
            messages = self.history.next_round(self.attempt, NAMES)
            self.send(upstream_history.body(read, self.history, tools_json(MESSAGES), messages))
        return visible

    def round(self, kinds: list[str], body: Json) -> list[Json]:
        conversation = check(SECRET, body, HEADERS).conversation
        made: list[Json] = []
        for kind in kinds:
            self.ids += 1
            match kind:
                case "thinking":
                    thought = f"thought {self.ids}"
                    made.append({"type": "thinking", "thinking": thought, "signature": conversation.sign(thought)})
                    continue
                case "text":
                    made.append({"type": "text", "text": f"text {self.ids}"})
                case "tagged":
                    made.append({"type": "text", "text": f"text {self.ids}\n{TAG}"})
                case "tag":
                    made.append({"type": "text", "text": TAG})
                case "blank":
                    made.append({"type": "text", "text": ""})
                case "own":
                    made.append({"type": "tool_use", "id": f"t{self.ids}", "name": "Look", "input": {"n": self.ids}})
                case _:
                    given = "{broken" if kind == "bad hidden" else {"question": "what?"}
                    made.append({"type": "tool_use", "id": f"t{self.ids}", "name": "memory_query", "input": given})
            sent = sendable(made[-1])
            if sent is not None:
                conversation.add("assistant", sent)
        return made

    def turn(self, rounds: list[list[str]], echo: str) -> bool:
        """A request and its reply, echoed by the client in some form; returns whether the history only grew."""
        self.ask()
        visible = self.reply(rounds)
        shown = [block for block in visible if not (block["type"] == "text" and not block["text"].strip())]
        shown = shown or [{"type": "text", "text": "(no content)"}]
        match echo:
            case "trimmed":
                shown = shown[: len(shown) // 2]
            case "rewritten":
                shown = [{"type": "text", "text": "Other words."}, *[b for b in shown if b["type"] == "tool_use"]]
            case "absent":
                shown = []
        calls = [block["id"] for block in shown if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call, "content": "seen"} for call in calls]
        if echo == "repeated":
            return False
        if echo == "rewound":
            while len(self.client) > 1:
                self.client.pop()
                if self.client[-1]["role"] == "user":
                    break
            before = self.client[-1]["content"]
            self.client[-1] = {"role": "user", "content": [*before, {"type": "text", "text": "No."}]}
            return False
        if shown:
            self.client.append({"role": "assistant", "content": shown})
        self.client.append({"role": "user", "content": [*results, {"type": "text", "text": f"say {self.ids}"}]})
        return echo == "same"


@examples(300)
@given(turns)
def test_provider_accepts_any_echo_and_the_history_only_grows(played: list[tuple[list[list[str]], str]]) -> None:
    conversation = Conversation(client=[{"role": "user", "content": [{"type": "text", "text": "Go."}]}])
    grew = True
    since = 0
    for rounds_, echo in played:
        if not grew:
            since = len(conversation.sent)
        grew = conversation.turn(rounds_, echo)
        assert_prefixes(conversation.sent[since:])
        if echo == "started":  # a new process reads it from the last body sent
            history = not_none(conversation.history)
            read = transcript.read(dumps(conversation.sent[-1])).transcript
            messages = tuple(message_bytes.bare(read.message_bytes(n)) for n in range(len(history.messages)))
            assert messages == history.messages
            grew = True
    assert not any(name in json.dumps(conversation.client) for name in (*NAMES, "memory_cleanup"))


def test_markers_are_not_part_of_a_message_and_are_restored_byte_for_byte() -> None:
    for message in (
        b'{"role":"user","content":"plain"}',
        b'{ "role" : "user" , "content" : [ {"type":"text","text":"a"} , {"type":"text","text":"b" } ] }',
        b'{"role":"user","content":[{"type":"text","cache_control":{"type":"ephemeral"},"text":"cache_control"}]}',
        b'{"role":"user","content":[{"cache_control":{"type":"ephemeral"},"type":"text","text":"a"}]}',
        b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}]}]}',
    ):
        sent = message_bytes.of_client(message)
        assert bare(json.loads(sent)) == json.loads(sent)
        marked = message_bytes.mark(sent, b'{"type":"ephemeral"}')
        assert json.loads(marked)["content"][-1]["cache_control"] == {"type": "ephemeral"}
        assert message_bytes.bare(marked) == sent


def test_marker_is_never_on_thinking_or_empty_text() -> None:
    message = (
        b'{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":" "},{"type":"thinking"}]}'
    )
    marked = json.loads(message_bytes.mark(message, b"{}"))["content"]
    assert ["cache_control" in block for block in marked] == [True, False, False]
    assert message_bytes.mark(b'{"role":"user","content":[]}', b"{}") == b'{"role":"user","content":[]}'


def test_everything_but_tools_and_messages_keeps_its_bytes() -> None:
    raw = (
        b'{ "max_tokens":1.0, "tools":[ {"name":"a"} ],"x":{"messages":[1]}, '
        b'"messages":[{"role":"user","content":"h"}], "z":"\\u00e4"}'
    )
    read = transcript.read(raw).transcript
    sent = upstream_history.body(
        read, upstream_history.first([read.message_bytes(0)], dialect=MESSAGES), [b'{"name":"b"}']
    )
    expected = raw.replace(b'{"name":"a"} ]', b'{"name":"a"},{"name":"b"}]')
    expected = expected.replace(b'"h"', b'[{"type":"text","text":"h"}]')
    assert json.loads(sent) == json.loads(expected)
    assert sent.startswith(b'{ "max_tokens":1.0, "tools":[ {"name":"a"}')
    assert sent.endswith(b', "z":"\\u00e4"}')


def test_call_with_a_non_string_name_is_not_hidden() -> None:
    for name in (["memory_query"], {"memory_query": 1}, None, 7):
        assert not wire_history.is_hidden({"type": "tool_use", "name": name}, NAMES)
    assert wire_history.is_hidden({"type": "tool_use", "name": "memory_query"}, NAMES)


def test_echo_is_compared_with_the_whole_reply_if_nothing_is_hidden() -> None:
    asked, after = (dumps({"role": "user", "content": each}) for each in ("one", "two"))
    tagged = {"type": "text", "text": f"Yes.\n{TAG}"}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    history = upstream_history.first([asked], dialect=MESSAGES).add_round(1, Round((thought, tagged)))
    for hidden, echoed in ((NAMES, "Yes.\n"), (frozenset[str](), tagged["text"])):
        echo = dumps({"role": "assistant", "content": [thought, {"type": "text", "text": echoed}]})
        goes_on = upstream_history.go_on(history, 1, [echo, after], hidden)
        assert json.loads(goes_on.messages[1])["content"] == [thought, tagged]


def test_billing_line_is_dropped_if_the_provider_caches_by_prefix() -> None:
    request = {"model": "m", "system": SYSTEM, "tools": [LOOK], "messages": [{"role": "user", "content": "go"}]}
    read = transcript.read(dumps(request)).transcript
    history = upstream_history.first([read.message_bytes(0)], dialect=MESSAGES)
    by_marker, by_prefix = (
        json.loads(upstream_history.body(read, history, (), by_prefix=by_prefix)) for by_prefix in (False, True)
    )
    assert by_marker == {**request, "messages": by_marker["messages"]}
    assert by_prefix == {**by_marker, "system": SYSTEM[1:]}


def test_memory_tools_join_the_clients_tools_item() -> None:
    offered = b'{"type":"additional_tools","role":"developer","tools":[ {"type":"custom","name":"exec"} ],"id":"at_1"}'
    operator, prompt = b'{"role":"developer","content":"Be brief."}', b'{"role":"user","content":"Hi."}'
    for before, behind in (([], [operator]), ([operator], []), ([operator], [operator])):
        client = [*before, offered, *behind, prompt]
        raw = b'{"model":"m","input":[' + b",".join(client) + b"]}"
        read = transcript.read(raw, conversation="responses/main").transcript
        history = upstream_history.first(client, dialect=RESPONSES)
        body = upstream_history.body(read, history, tools_json(RESPONSES))
        sent = transcript.read(body, conversation="responses/main").transcript
        assert sent.fields.tool_names == ("exec", *(tool["name"] for tool in TOOLS))
        assert [upstream_history.bare(sent, number) for number in range(len(client))] == [
            each.replace(b" ],", b"],") for each in client
        ]
        assert upstream_history.body(read, history, ()) == raw
        assert "tools" not in json.loads(body)


@pytest.mark.parametrize("dialect", [MESSAGES, RESPONSES], ids=lambda each: each.name)
def test_tools_that_an_earlier_version_added_behind_the_head_stay_until_they_are_removed(dialect: Dialect) -> None:
    assert dialect.behind is not None
    earlier = [dialect.write_tool({**tool, "description": "As before."}) for tool in TOOLS[:2]]
    added, other = dialect.behind.write(earlier), dialect.behind.write([{**LOOK, "description": "Its own."}])
    said = UpstreamHistory(messages=(SAID, other, added, SAID), ends=(1, 3, 4), dialect=dialect)
    assert upstream_history.find_offer(said) == 2
    assert upstream_history.with_tools(said) == said
    assert upstream_history.without_tools(said) == attrs.evolve(said, messages=(SAID, other, SAID), ends=(1, 2, 3))

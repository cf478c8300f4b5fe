"""Laws of histories sent upstream, in every dialect: they only grow, and no cut separates calls from their results."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.memory_tools import NAMES, QUERY
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.domain.wire.dialect import Dialect, Joining
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.reply import as_json
from tests.domain.wire.dialects import WRITTEN, Call, Exchange, ModelReply, Written
from tests.profiles import examples

Json = dict[str, Any]

kinds = st.sampled_from(["text", "thought", "hidden", "own", "unanswered"])
rounds = st.lists(st.lists(kinds, min_size=1, max_size=4, unique=True), min_size=1, max_size=3)
echoes = st.sampled_from(["same", "same", "same", "cut", "absent", "rewritten"])
turns = st.lists(st.tuples(rounds, echoes, st.integers(0, 9)), min_size=1, max_size=5)

by_dialect = pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)


@attrs.define
class Conversation:
    """A client in a dialect, and the history that is sent upstream for it."""

    written: Written
    client: list[bytes] = attrs.field(factory=list)
    history: UpstreamHistory | None = None
    shared: int = 0
    calls: int = 0

    @property
    def dialect(self) -> Dialect:
        return self.written.dialect

    def ask(self, text: str) -> list[bytes]:
        """Send one more user message and return the upstream history; checks that the history only grew."""
        request = self.written.request([Exchange(text, [])])
        self.client.append(as_json(request[self.dialect.array][-1]))
        if self.history is None:
            self.history = upstream_history.first(self.client, dialect=self.dialect)
        else:
            before = self.history
            self.history = upstream_history.go_on(before, self.shared, self.client[self.shared :], NAMES)
            reach = before.ends[self.shared - 1]
            assert self.history.messages[: min(reach, len(before.messages))] == before.messages[:reach]
        self.shared = len(self.client)
        assert len(self.history.ends) == len(self.client)
        assert list(self.history.ends) == sorted(self.history.ends)
        assert_paired(self.dialect, self.history.messages)
        return list(self.history.messages)

    def reply(self, rounds: list[list[str]]) -> list[ModelReply]:
        """Add a reply of these rounds; return them as the client sees them."""
        assert self.history is not None
        seen = []
        for number, kinds in enumerate(rounds):
            reply, results = self.round(kinds)
            native = self.written.whole(reply)
            content = tuple(self.dialect.reply_content(native))
            self.history = self.history.add_round(1, Round(content, results, native))
            seen.append(attrs.evolve(reply, calls=[call for call in reply.calls if call.name != QUERY]))
            if number + 1 == len(rounds) or not results or "own" in kinds:
                break
            sent = self.history.next_round(1, NAMES)
            assert sent[: len(self.history.messages)] == self.history.messages
            assert_paired(self.dialect, sent)
        return seen

    def round(self, kinds: list[str]) -> tuple[ModelReply, dict[str, bytes]]:
        made, results = [], {}
        for kind in kinds:
            self.calls += 1
            name = f"call_{self.calls}"
            if kind in ("hidden", "unanswered"):
                made.append(Call(name, QUERY, {"question": "what?"}))
            if kind == "hidden":
                results[name] = self.dialect.write_result(name, "an answer", False)
            if kind == "own":
                made.append(Call(name, "bash", {"command": "ls"}))
        text = f"Text {self.calls}." if "text" in kinds else ""
        return ModelReply(text, "Hm." if "thought" in kinds else "", made), results

    def show(self, seen: list[ModelReply], how: str) -> None:
        """Let the client continue with the reply as it saw it, or as it changed it."""
        text = "".join(reply.text for reply in seen)
        whole = ModelReply(text, "", [call for reply in seen for call in reply.calls])
        match how:
            case "absent":
                return
            case "cut":
                whole = ModelReply(text[:3] or "Te", "", [])
            case "rewritten":
                whole = attrs.evolve(whole, text="Something else.")
        if not (whole.text or whole.calls):
            whole = ModelReply("(no content)")
        parts = seen if self.dialect.splits_replies and how == "same" and any(map(_has_content, seen)) else [whole]
        request = self.written.request([Exchange("?", parts)])
        if self.dialect.name == "messages" and how == "same":
            content = [block for reply in seen for block in self.blocks(reply)] or self.blocks(whole)
            request["messages"][1]["content"] = content
        items = request[self.dialect.array]
        begin = next(number for number, item in enumerate(items) if item.get("role") == "assistant" or _is_call(item))
        self.client += map(as_json, items[begin:])

    def blocks(self, reply: ModelReply) -> list[Json]:
        return self.dialect.reply_content(self.written.whole(reply))


def _has_content(reply: ModelReply) -> bool:
    return bool(reply.text or reply.calls)


def _is_call(item: Json) -> bool:
    return item.get("type") == "function_call"


def assert_paired(dialect: Dialect, elements: tuple[bytes, ...] | list[bytes]) -> None:
    """Assert that each call is followed by its result before any other message, and that each result has its call; only
    calls at the very end may be unanswered.
    """
    waiting: set[object] = set()
    for element in elements:
        message = dialect.read_message(json.loads(element))
        content = message["content"] if isinstance(message["content"], list) else []
        results = {block["tool_use_id"] for block in content if is_result(block)}
        assert results <= waiting, "a result without its call"
        waiting -= results
        if message["role"] == "assistant" and not dialect.splits_replies:
            assert not waiting, "a call without its result"
        waiting |= {block["id"] for block in content if is_call(block)}
    assert not waiting, "a call without its result"


@by_dialect
@given(turns)
@examples(60)
def test_the_history_upstream_only_grows_and_keeps_calls_with_their_results(
    written: Written, turns: list[tuple[list[list[str]], str, int]]
) -> None:
    """Whatever a client shows of a reply of several rounds. A history that is cut after any of the client's elements
    continues as it was sent.
    """
    conversation = Conversation(written)
    for number, (rounds, echo, cut) in enumerate(turns):
        conversation.ask(f"Question {number}?")
        conversation.show(conversation.reply(rounds), echo)
        again = [at for at in range(1, conversation.shared + 1) if _may_end(conversation, at)]
        if cut < len(again):
            del conversation.client[again[cut] :]
            conversation.shared = again[cut]
    conversation.ask("At last?")


def _may_end(conversation: Conversation, at: int) -> bool:
    """Return whether a client may go back to here: none of its own calls is waiting for a result."""
    last = conversation.dialect.read_message(json.loads(conversation.client[at - 1]))
    behind = conversation.client[at : at + 1]
    following = conversation.dialect.read_message(json.loads(behind[0])) if behind else {"content": []}
    calls = [block for block in last["content"] if isinstance(block, dict) and is_call(block)]
    results = [block for block in following["content"] if isinstance(block, dict) and is_result(block)]
    return not calls and not results


@by_dialect
def test_completely_shown_rounds_are_sent_verbatim(written: Written) -> None:
    """With the results of the hidden calls, so that the provider's cache covers all of it."""
    conversation = Conversation(written)
    conversation.ask("What was it?")
    seen = conversation.reply([["thought", "text", "hidden"], ["text", "own", "hidden"]])
    assert conversation.history is not None
    sent = conversation.history.next_round(1, NAMES)
    first = sent[: -2 if written.dialect.joins is Joining.ALWAYS else -3]
    conversation.show(seen, "same")
    after = conversation.ask("And then?")
    assert tuple(after[: len(first)]) == first
    assert b"".join(after).count(b"an answer") == 2


@by_dialect
def test_a_reply_without_hidden_calls_is_sent_as_the_client_shows_it(written: Written) -> None:
    conversation = Conversation(written)
    conversation.ask("What was it?")
    conversation.show(conversation.reply([["text", "own"]]), "same")
    after = conversation.ask("And then?")
    if written.dialect.joins is not Joining.ALWAYS:
        assert after == conversation.client


@by_dialect
def test_an_offered_tool_has_the_dialects_shape_and_its_name_is_read_back(written: Written) -> None:
    tool = {"name": QUERY, "description": "Ask.", "input_schema": {"type": "object", "properties": {}}}
    dialect = written.dialect
    request = written.request([Exchange("?", [])])
    facts = dict(dialect.read_facts("tools", [*request["tools"], dialect.write_tool(tool)]))
    assert facts["tool_names"][-1] == QUERY


@by_dialect
def test_an_added_text_follows_the_users_message(written: Written) -> None:
    dialect = written.dialect
    asked = as_json(written.request([Exchange("What was it?", [])])[dialect.array][-1])
    element = dialect.history.begin([asked], keep_thinking=True).messages[0]
    grown = dialect.history.message(dialect.history.with_text(element, "From memory: it."))
    assert [block["text"] for block in grown["content"]] == ["What was it?", "From memory: it."]

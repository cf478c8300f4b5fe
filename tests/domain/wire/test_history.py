"""Laws of histories upstream, in every dialect: they only grow, and calls and results stay together at any cut."""

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
from tests.domain.wire.dialects import WRITTEN, Call, Exchange, Said, Written
from tests.profiles import examples

Json = dict[str, Any]

kinds = st.sampled_from(["text", "thought", "hidden", "own", "unanswered"])
rounds = st.lists(st.lists(kinds, min_size=1, max_size=4, unique=True), min_size=1, max_size=3)
echoes = st.sampled_from(["same", "same", "same", "cut", "absent", "rewritten"])
turns = st.lists(st.tuples(rounds, echoes, st.integers(0, 9)), min_size=1, max_size=5)

by_dialect = pytest.mark.parametrize("written", WRITTEN, ids=lambda each: each.dialect.name)


@attrs.define
class Conversation:
    """A client in a dialect, and what goes upstream for it."""

    written: Written
    client: list[bytes] = attrs.field(factory=list)
    history: UpstreamHistory | None = None
    shared: int = 0
    calls: int = 0

    @property
    def dialect(self) -> Dialect:
        return self.written.dialect

    def ask(self, text: str) -> list[bytes]:
        """What goes for one more message of the user's; whether it only grew is checked."""
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

    def reply(self, rounds: list[list[str]]) -> list[Said]:
        """A reply of these rounds; what of each the client sees."""
        assert self.history is not None
        seen = []
        for number, kinds in enumerate(rounds):
            said, results = self.round(kinds)
            native = self.written.whole(said)
            content = tuple(self.dialect.reply_content(native))
            self.history = self.history.add_round(1, Round(content, results, native))
            seen.append(attrs.evolve(said, calls=[each for each in said.calls if each.name != QUERY]))
            if number + 1 == len(rounds) or not results or "own" in kinds:
                break
            sent = self.history.next_round(1, NAMES)
            assert sent[: len(self.history.messages)] == self.history.messages
            assert_paired(self.dialect, sent)
        return seen

    def round(self, kinds: list[str]) -> tuple[Said, dict[str, bytes]]:
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
        text = f"Said {self.calls}." if "text" in kinds else ""
        return Said(text, "Hm." if "thought" in kinds else "", made), results

    def show(self, seen: list[Said], how: str) -> None:
        """The client goes on from the reply as it saw it, or as it makes of it."""
        text = "".join(each.text for each in seen)
        whole = Said(text, "", [call for each in seen for call in each.calls])
        match how:
            case "absent":
                return
            case "cut":
                whole = Said(text[:3] or "Sa", "", [])
            case "rewritten":
                whole = attrs.evolve(whole, text="Something else.")
        if not (whole.text or whole.calls):
            whole = Said("(no content)")
        parts = seen if self.dialect.splits_replies and how == "same" and any(map(_says, seen)) else [whole]
        request = self.written.request([Exchange("?", parts)])
        if self.dialect.name == "messages" and how == "same":
            said = [block for each in seen for block in self.blocks(each)] or self.blocks(whole)
            request["messages"][1]["content"] = said
        items = request[self.dialect.array]
        begin = next(number for number, each in enumerate(items) if each.get("role") == "assistant" or _is_call(each))
        self.client += map(as_json, items[begin:])

    def blocks(self, said: Said) -> list[Json]:
        return self.dialect.reply_content(self.written.whole(said))


def _says(said: Said) -> bool:
    return bool(said.text or said.calls)


def _is_call(item: Json) -> bool:
    return item.get("type") == "function_call"


def assert_paired(dialect: Dialect, elements: tuple[bytes, ...] | list[bytes]) -> None:
    """Each call has its result before anybody else speaks, and each result its call, but for calls that wait at the
    very end.
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
def test_what_goes_upstream_only_grows_and_keeps_calls_and_results_together(
    written: Written, turns: list[tuple[list[list[str]], str, int]]
) -> None:
    """Whatever a client shows of a reply of several rounds; and a history that is cut behind any of the client's
    elements goes on as it was sent.
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
    """Whether a client may go back to here: no call of its own waits for a result."""
    last = conversation.dialect.read_message(json.loads(conversation.client[at - 1]))
    behind = conversation.client[at : at + 1]
    following = conversation.dialect.read_message(json.loads(behind[0])) if behind else {"content": []}
    calls = [block for block in last["content"] if isinstance(block, dict) and is_call(block)]
    results = [block for block in following["content"] if isinstance(block, dict) and is_result(block)]
    return not calls and not results


@by_dialect
def test_rounds_that_are_shown_whole_go_upstream_as_they_came(written: Written) -> None:
    """With what the hidden calls got, so that the provider's cache holds all of it."""
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
def test_what_a_client_hides_nothing_of_goes_as_it_says_it(written: Written) -> None:
    conversation = Conversation(written)
    conversation.ask("What was it?")
    conversation.show(conversation.reply([["text", "own"]]), "same")
    after = conversation.ask("And then?")
    if written.dialect.joins is not Joining.ALWAYS:
        assert after == conversation.client


@by_dialect
def test_a_tool_is_offered_in_the_dialects_own_shape_and_read_as_ours(written: Written) -> None:
    tool = {"name": QUERY, "description": "Ask.", "input_schema": {"type": "object", "properties": {}}}
    dialect = written.dialect
    request = written.request([Exchange("?", [])])
    facts = dict(dialect.read_facts("tools", [*request["tools"], dialect.write_tool(tool)]))
    assert facts["tool_names"][-1] == QUERY


@by_dialect
def test_a_text_of_ours_stands_behind_what_the_user_says(written: Written) -> None:
    dialect = written.dialect
    asked = as_json(written.request([Exchange("What was it?", [])])[dialect.array][-1])
    element = dialect.history.begin([asked], keep_thinking=True).messages[0]
    grown = dialect.history.message(dialect.history.with_text(element, "From memory: it."))
    assert [block["text"] for block in grown["content"]] == ["What was it?", "From memory: it."]

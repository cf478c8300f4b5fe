"""Reading a body against the previous one gives the same result as reading it alone, and stores each text once."""

import cProfile
import json
import statistics
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire import body_layout, json_spans, recipe, transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.json_spans import is_number
from mnemosyne.domain.wire.normal_form import Echo
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.domain.wire.transcript import StoredBytes, Transcript, read
from tests.domain import recorded
from tests.domain.recorded import MARKER, dumps
from tests.profiles import examples

LONG = "It's a long 'text' with \"quotes\", a \\ and an é. " * 8
SECRET = "sk-hush-hush-0123456789"


class Log:
    """A session's log: changes and contents, written as events and read back."""

    def __init__(self) -> None:
        self.contents: dict[bytes, bytes] = {}
        self.recipe = Recipe()
        self.written = 0
        self.previous: Transcript | None = None

    def turn(self, raw: bytes) -> Transcript:
        reading = read(raw, self.previous, known=self.contents.keys())
        event = recipe.encode(reading.change)
        self.written += len(event) + sum(len(content) for _, content in reading.contents)
        for digest, content in reading.contents:
            assert digest not in self.contents, "each content is stored once"
            assert sha256(content).digest() == digest
            self.contents[digest] = content
        self.recipe = recipe.apply(self.recipe, recipe.decode(event))
        assert self.recipe == reading.transcript.recipe
        self.previous = reading.transcript
        return reading.transcript

    def rebuilt(self) -> bytes:
        return recipe.assemble(self.recipe.pieces, self.contents.__getitem__)


def body(messages: list[Any], **members: Any) -> bytes:
    return dumps({"model": "m", "messages": messages, "system": "You are.", **members})


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(*texts: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text} for text in texts]}


texts = st.sampled_from(["", "hi", "né\n", LONG, LONG + "x", "y" + LONG, "Ω" * 300, "\\" * 300]) | st.text(max_size=8)


@st.composite
def a_message(draw: st.DrawFn) -> Any:
    """Draw a message as clients send them, or something that is not a message."""
    if draw(st.integers(0, 30)) == 0:
        return draw(st.sampled_from([None, 7, "text", [], {"role": "tool"}, {"role": 1}, {"content": "x"}]))
    text = draw(texts)
    marker = {"cache_control": MARKER} if draw(st.booleans()) else {}
    block: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"type": "text", "text": text},
                {"type": "tool_use", "id": "t", "name": "n", "input": {"command": text, "timeout": 60000.0}},
                {"type": "tool_result", "tool_use_id": "t", "content": text},
                {"type": "thinking", "thinking": text, "signature": "s"},
            ]
        )
    )
    return {
        "role": draw(st.sampled_from(["user", "assistant", "system"])),
        "content": draw(
            st.sampled_from([text, [{**block, **marker}], [block, {"type": "text", "text": text, **marker}]])
        ),
    }


@st.composite
def a_body(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the members of a body in any order, sometimes with a credential."""
    members: dict[str, Any] = {
        "model": "m",
        "messages": draw(st.lists(a_message(), max_size=5)),
        "system": draw(texts),
        "tools": [{"name": "n", "description": draw(texts)}],
        "mcp_servers": [
            {
                "url": "u",
                "name": draw(texts),
                "authorization_token": draw(st.sampled_from([SECRET, SECRET[:9], "", 12345678, -2.5])),
            }
        ],
        "thread": {"type": "continue"},
    }
    keys = draw(st.permutations(["model", "messages", "system", "tools", "mcp_servers"]))
    dropped = draw(st.sampled_from([None, None, None, "messages", "tools", "mcp_servers", "system"]))
    extra = ["thread"] if draw(st.integers(0, 20)) == 0 else []
    return {key: members[key] for key in [*keys, *extra] if key != dropped}


@st.composite
def two_bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Draw a body and one that a client, or an accident, may send after it."""
    first = draw(a_body())
    second = dict(first)
    messages = list(first.get("messages", []))
    match draw(st.integers(0, 9)):
        case 0:
            second["messages"] = messages + draw(st.lists(a_message(), max_size=3))
        case 1:
            second["messages"] = [_without_marker(message) for message in messages] + draw(
                st.lists(a_message(), max_size=2)
            )
        case 2:
            at = draw(st.integers(0, len(messages)))
            second["messages"] = [*messages[:at], *draw(st.lists(a_message(), max_size=2)), *messages[at + 1 :]]
        case 3:
            second["messages"] = messages[: draw(st.integers(0, len(messages)))]
        case 4:
            second = {key: first[key] for key in draw(st.permutations(list(first)))}
        case 5:
            second["system"] = draw(texts)
        case 6:
            second = draw(a_body())
        case 7:
            second = {"first": draw(texts), **first, "last": draw(texts)}
        case _:
            return _damaged(draw, dumps(first), dumps(first))
    return dumps(first), dumps(second)


def _without_marker(message: Any) -> Any:
    return json.loads(dumps(message).replace(b',"cache_control":{"type":"ephemeral"}', b""))


def _damaged(draw: st.DrawFn, first: bytes, second: bytes) -> tuple[bytes, bytes]:
    at = draw(st.integers(0, len(second)))
    to = draw(st.integers(at, min(len(second), at + 40)))
    garbage = draw(
        st.sampled_from(
            [b"", b'"', b"\\", b"{", b"]", b",", b"\xff", b'":"', b" ", b'","password":"' + b"p" * 9, b',"pin": 42']
        )
    )
    second = second[:at] + garbage + second[to:]
    return (first, second) if draw(st.booleans()) else (second, first)


def check_pair(first: bytes, second: bytes) -> None:
    """Check everything that must hold for any two consecutive bodies."""
    log = Log()
    for raw in (first, second, second, first):
        result = log.turn(raw)
        assert result == read(raw).transcript, "the previous body changes the effort, not the result"
        assert result.raw == raw
        assert result.sha256 == sha256(raw).digest()
        rebuilt = log.rebuilt()
        assert len(rebuilt) == len(raw)
        assert sha256(rebuilt).digest() == result.stored_sha256
        expected = bytearray(raw)
        for start, end in result.withheld:
            expected[start:end] = (b"1" if is_number(raw, (start, end)) else b"*") * (end - start)
        assert rebuilt == expected


@examples(200)
@given(two_bodies())
def test_reading_against_a_previous_body_equals_reading_alone(pair: tuple[bytes, bytes]) -> None:
    check_pair(*pair)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_read_stored_and_rebuilt(first: bytes, second: bytes) -> None:
    check_pair(first, second)


def test_bodies_that_differ_at_any_offset_give_the_same_reading() -> None:
    raw = body([user('é\\n"Ω' + LONG), assistant("a", "b")], tools=[{"name": "n"}], api_key=SECRET)
    alone = read(raw).transcript
    inside = range(raw.index(b"quotes") + 60, raw.index(b"assistant") - 100)  # repetitions of one sentence
    for cut in set(range(len(raw) + 1)) - set(inside) | set(inside[::7]):
        for earlier in (raw[:cut], raw[:cut] + b"~" + raw[cut:], raw[:cut] + raw[cut + 1 :]):
            reading = read(raw, read(earlier).transcript)
            assert reading.transcript == alone


def test_the_chain_of_a_longer_history_begins_with_the_chain_of_the_shorter() -> None:
    messages = [user("one"), assistant("two"), user("three"), assistant("four")]
    whole = read(body(messages)).transcript
    for length in range(len(messages) + 1):
        part = read(body(messages[:length])).transcript
        assert [message.chain for message in part.messages] == [m.chain for m in whole.messages[:length]]
        assert whole.count_shared(part) == length
    assert read(body([user("two")])).transcript.count_shared(read(body([user("one")])).transcript) == 0


def test_the_shared_history_of_a_fork_ends_where_it_diverges() -> None:
    one = read(body([user("a"), assistant("b"), user("c"), assistant("d")])).transcript
    other = read(body([user("a"), assistant("b"), user("x"), assistant("d")])).transcript
    assert one.count_shared(other) == other.count_shared(one) == 2


def test_each_conversation_has_its_own_chain() -> None:
    raw = body([user("one")])
    main = read(raw).transcript
    agent = read(raw, main, conversation="agent:a").transcript
    assert agent == read(raw, conversation="agent:a").transcript
    assert agent.chain != main.chain
    assert agent.messages[0].digest == main.messages[0].digest
    assert agent.count_shared(main) == 0
    assert read(body([]), conversation="agent:a").transcript.chain == transcript.seed("agent:a")


def test_the_fields_are_read() -> None:
    fields = read(
        body(
            [],
            stream=True,
            max_tokens=5,
            tools=[{"name": "bash"}, 3],
            metadata={"user_id": "u"},
            container="c",
            thread={"type": "create"},
            output_config={"format": {}},
        )
    ).transcript.fields
    assert (fields.model, fields.stream, fields.max_tokens, fields.user_id) == ("m", True, 5, "u")
    assert fields.tool_names == ("bash", "")
    assert fields.has_tools
    assert fields.has_container
    assert fields.has_thread
    assert fields.has_output_format
    assert not read(body([], tools=[], stream=1, max_tokens=True)).transcript.fields.has_tools


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not a JSON object"),
        (b"\xef\xbb\xbf{}", "not a JSON object"),
        (b'{"messages":[],"x":tru}', "not a JSON object"),
        (b'{"messages":[]}x', "not a JSON object"),
        (b'{"messages":[]]', "not a JSON object"),
        (b'{"messages":[}}', "not a JSON object"),
        (b'{"messages":"x"}', "no messages array"),
        (b'{"messages":[],"messages":[]}', "a member given twice"),
        (b'{"messages":[],"stream_options":{}}', "another dialect"),
        (b'{"messages":[{"role":"system","content":"x"}]}', "another dialect"),
        (b'{"messages":[{"role":"user"},{"role":"tool"}]}', "another dialect"),
        (b'{"messages":[],"thread":{"type":"continue"}}', "history held by the provider"),
    ],
)
def test_a_body_that_is_not_a_messages_conversation_is_opaque_and_still_stored(raw: bytes, reason: str) -> None:
    log = Log()
    result = log.turn(raw)
    assert result.opaque == reason
    assert result.messages == ()
    assert log.rebuilt() == raw


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        (b'{"role" "user"}', "a message that is not JSON"),
        (b'{"role":"user","content":tru}', "a message that is not JSON"),
        (b'{"role":"user","content":' + b"[" * 400 + b"]" * 400 + b"}", "a message nested more than 300 levels deep"),
    ],
)
def test_a_history_with_an_unreadable_message_is_opaque(element: bytes, reason: str) -> None:
    raw = b'{"messages":[{"role":"user","content":"x"},' + element + b"]}"
    before = read(b'{"messages":[{"role":"user","content":"x"}]}').transcript
    assert read(raw).transcript.opaque == read(raw, before).transcript.opaque == reason


def test_a_new_message_is_parsed_once() -> None:
    result = read(dumps({"messages": [{"role": "user", "content": str(number)} for number in range(40)]})).transcript
    assert [result.message(number)["content"] for number in (0, 38, 39)] == ["0", "38", "39"]
    assert [result.message(number) is result.message(number) for number in (0, 38, 39)] == [False, True, True]


def test_a_turn_stores_its_skeleton_and_its_new_long_texts() -> None:
    log = Log()
    log.turn(body([user(LONG)]))
    before = len(log.contents)
    log.turn(body([user(LONG), assistant("ok", LONG + "2"), user(LONG + "3")]))
    assert len(log.contents) - before == 3


def test_a_moved_marker_and_a_block_that_becomes_a_string_store_no_text_again() -> None:
    log = Log()
    block = {"type": "text", "text": LONG, "cache_control": MARKER}
    log.turn(body([{"role": "user", "content": [block, block]}, {"role": "user", "content": [block]}]))
    log.turn(body([{"role": "user", "content": [block, {"type": "text", "text": LONG}]}, user(LONG), user("x")]))
    literal = json.dumps(LONG, ensure_ascii=False)[1:-1].encode()
    assert sum(content.count(literal) for content in log.contents.values()) == 1


def test_unchanged_members_between_two_changes_are_neither_read_nor_stored_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    servers = [{"name": LONG, "authorization_token": SECRET}]
    kept: dict[str, Any] = {"tools": [{"name": "n", "description": LONG}], "mcp_servers": servers}
    log.turn(body([user("a")], **kept, metadata={"user_id": "1"}))
    stored, keys_read, facts = len(log.contents), [], body_layout._facts

    def noting(dialect: Dialect, key: str, value: bytes) -> Any:
        keys_read.append(key)
        return facts(dialect, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(body_layout, "_facts", noting)
        result = log.turn(body([user("a"), assistant("b")], **kept, metadata={"user_id": "2"}))
    assert keys_read == ["system", "metadata"]
    assert len(log.contents) - stored == 1
    assert log.rebuilt() == result.raw.replace(SECRET.encode(), b"*" * len(SECRET))


def test_a_repeated_text_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []

    def counting(data: bytes = b"") -> Any:
        hashed.append(len(data))
        return sha256(data)

    text = "x" * 100_000
    first = read(
        body([user(text), {"role": "user", "content": [{"type": "text", "text": text, "cache_control": MARKER}]}])
    )
    monkeypatch.setattr(transcript, "sha256", counting)
    second = body([user(text), user(text), user("y")])
    read(second, first.transcript)
    assert max(hashed) < 1_000


def test_a_reply_that_the_client_sends_back_is_not_hashed_again() -> None:
    text = "x" * 100_000
    reply = dumps(assistant(text))
    change, contents = transcript.store_reply(reply, frozenset())
    stored = StoredBytes(reply, recipe.apply(Recipe(), recipe.decode(change)))
    first = read(body([user("Go.")])).transcript
    echo = body([user("Go."), assistant(text), user("On.")])
    (digest,) = [digest for digest, content in contents if len(content) == len(text)]
    result = read(echo, first, replies=[stored])
    assert digest not in dict(result.contents)
    assert Piece(digest, 0, len(text)) in result.transcript.recipe.pieces
    known = {digest for digest, _ in contents}
    assert result.change == read(echo, first, known=known).change


def test_credentials_are_in_no_content_and_no_change() -> None:
    log = Log()
    members = {"mcp_servers": [{"authorization_token": SECRET}], "x": {"y": [{"password": LONG}]}}
    for messages in ([user("a")], [user("a"), assistant("b")], [user("z")]):
        result = log.turn(body(messages, **members))
        assert SECRET.encode() in result.raw
        assert log.rebuilt() == result.raw.replace(SECRET.encode(), b"*" * len(SECRET)).replace(
            json.dumps(LONG, ensure_ascii=False)[1:-1].encode(),
            b"*" * len(json.dumps(LONG, ensure_ascii=False)[1:-1].encode()),
        )
        assert result.sha256 != result.stored_sha256
    assert not any(SECRET.encode() in content or b"long" in content for content in log.contents.values())
    assert SECRET not in repr(log.previous)


@pytest.mark.parametrize(
    "members",
    [
        {"metadata": {"pin": 48151623}},
        {"mcp_servers": [{"headers": {"X-Gate": 48151623, "X-Other": [1, 48151623.5]}}]},
        {"password": 48151623, "x": {"dbPass": -48151623, "session.pass": 4.8151623e9}},
    ],
)
def test_a_number_that_is_a_credential_is_stored_as_another_number(members: dict[str, Any]) -> None:
    log = Log()
    for messages in ([user("a")], [user("a"), assistant("b")], [user("z")]):
        result = log.turn(body(messages, **members))
        rebuilt = log.rebuilt()
        assert len(rebuilt) == len(result.raw)
        assert json.loads(rebuilt)["messages"] == json.loads(result.raw)["messages"]
        assert sha256(rebuilt).digest() == result.stored_sha256 != result.sha256
        assert read(rebuilt).transcript.stored_sha256 == result.stored_sha256, "a replay reads the same"
    assert not any(b"8151623" in content for content in log.contents.values())


def test_a_value_is_withheld_only_while_its_name_is_a_credentials() -> None:
    plain, secret = dumps({"messages": [], "passport": "1234567890"}), dumps({"messages": [], "password": "1234567890"})
    check_pair(plain, secret)
    check_pair(secret, plain)


def test_credentials_within_messages_are_kept() -> None:
    log = Log()
    raw = body([{"role": "user", "content": [{"type": "tool_use", "input": {"password": "x"}}]}])
    assert log.turn(raw).withheld == ()
    assert log.rebuilt() == raw


def reply(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([assistant("one", "two"), user("next")], Echo.SAME),
        ([{"role": "assistant", "content": "one"}, user("[Request interrupted by user]")], Echo.TRIMMED),
        ([assistant("one", "tw"), user("[Request interrupted by user]")], Echo.TRIMMED),
        ([assistant("one", "three")], Echo.REWRITTEN),
        ([{"role": "assistant", "content": 3}], Echo.REWRITTEN),
        ([user("[Request interrupted by user]")], Echo.ABSENT),
        ([], Echo.ABSENT),
    ],
)
def test_the_next_request_shows_a_reply(after: list[Any], expected: Echo) -> None:
    result = read(body([user("go"), *after])).transcript
    assert transcript.compare_reply(result, 1, reply("one", "two")) is expected


def test_recorded_sessions_are_read_rebuilt_and_stored_within_bounds() -> None:
    ratios = []
    for session in recorded.sessions(every=10):
        log = Log()
        raw = b""
        for turn, raw in enumerate(recorded.requests(session, limit=60)):
            result = log.turn(raw)
            if turn % 20 == 0:
                assert log.rebuilt() == raw
                assert result == read(raw).transcript
        assert log.rebuilt() == raw
        # The sessions only append, so the last body contains everything that was ever new.
        ratios.append(log.written / len(raw))
    assert len(ratios) >= 10
    assert max(ratios) < 1.3
    assert statistics.mean(ratios) < 1.15


def of_values(count: int, *texts: str, **members: Any) -> bytes:
    """Return a body with this many values."""
    short = body([*map(user, texts)], x=[0], **members)
    return body([*map(user, texts)], x=[0] * (1 + count - read(short).transcript.values), **members)


def test_a_body_with_too_many_values_is_stored_unread() -> None:
    log, raw = Log(), of_values(json_spans.MOST_VALUES + 1, "Hi.", api_key=SECRET)
    profile = cProfile.Profile()
    result = profile.runcall(log.turn, raw)
    assert (result.opaque, result.messages) == (transcript.TOO_MANY_VALUES, ())
    assert log.rebuilt() == raw.replace(SECRET.encode(), b"*" * len(SECRET))
    assert sha256(log.rebuilt()).digest() == result.stored_sha256
    assert len(log.contents) < 5, "it has few pieces"
    assert sum(entry.callcount for entry in profile.getstats()) < 5_000
    assert json_spans.has_too_many_values(raw)


def test_the_limit_on_values_is_inclusive_and_can_be_lifted() -> None:
    most = of_values(json_spans.MOST_VALUES, "Hi.")
    assert (read(most).transcript.opaque, json_spans.has_too_many_values(most)) == (None, False)
    more = of_values(json_spans.MOST_VALUES + 1, "Hi.")
    assert len(read(more, most=transcript.ANY_NUMBER).transcript.messages) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of_values(99_990, "Hi."), of_values(99_990, "Hi.", "a", "b", "c")),  # a few new ones
        (of_values(99_990, "Hi.", "a", "b", "c"), of_values(99_990, "Hi.")),
        (of_values(20, "Hi.", LONG), of_values(100_001, "Hi.", LONG)),
        (of_values(100_001, "Hi."), of_values(100_001, "Hi.", "a")),
        (of_values(100_001, "Hi."), of_values(7, "Hi.")),
        (of_values(40, "a", LONG, "c"), of_values(40, "a", "c", LONG, "c")),
    ],
)
def test_values_are_counted_the_same_with_and_without_the_previous_body(before: bytes, after: bytes) -> None:
    result = read(after, read(before).transcript).transcript
    assert result == read(after).transcript
    if result.opaque is None:
        assert result.values == json_spans.count_values(after, most=10**6)

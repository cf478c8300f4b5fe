"""Every token that was not read from the provider's cache has one cause: what happened, where, and who did it."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost import prompt_cache
from mnemosyne.domain.cost.cache_misses import (
    CacheReading,
    Culprit,
    MissCause,
    Origin,
    Proxy,
    SentPrompt,
    explain_reading,
)
from mnemosyne.domain.cost.catalogue import tariff_of
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt_cache import MARKED, Cache, CacheRules, rules_of
from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.wire import transcript
from tests.blocks import text
from tests.domain.cost.test_prompt_layout import MARKER, assistant, user
from tests.domain.recorded import dumps
from tests.not_none import not_none

SECOND = 1_000_000
MINUTE = 60 * SECOND
WORDS = "The parser keeps the offsets of each block, so that a body can be cut between two of them. " * 20
HOUR_MARKER = {**MARKER, "ttl": "1h"}
Json = dict[str, Any]


@attrs.define
class Session:
    """A session with a provider that bills by the rules of its cache, at the estimated sizes."""

    rules: CacheRules = MARKED
    lane: str = "main"
    cache: Cache = attrs.field(factory=Cache)
    last: SentPrompt | None = None

    def send(
        self,
        raw: bytes,
        at: int,
        *,
        route: Mapping[str, str] | None = None,
        betas: frozenset[str] | None = frozenset(),
        lost: bool = False,
        **known: Any,
    ) -> CacheReading:
        """Send a body; ``lost`` makes the provider forget everything before."""
        layout = not_none(lay_out(transcript.read(raw, conversation=self.lane).transcript))
        entries = (
            Cache()
            if lost or (self.last and (self.last.route, self.last.betas) != (route or {}, betas))
            else self.cache
        )
        entries, bill = prompt_cache.bill(
            entries, layout.prompt, layout.markers, started_at=at, minimum=0, readable_at=at + SECOND, rules=self.rules
        )
        answered, route = at + SECOND, route or {}
        sent = SentPrompt(at=at, layout=layout, usage=bill.tokens, answered=answered, route=route, betas=betas)
        found = explain_reading(sent, self.last, self.cache, rules=self.rules, **known)
        self.cache, self.last = entries, sent
        assert found is not None
        assert found.read + found.cold + found.new == found.prompt
        assert found.cold == max(0, found.expected - found.read) or found.expected == 0
        return found


def tool(name: str, words: str = WORDS) -> Json:
    return {"name": name, "description": words, "input_schema": {"type": "object"}}


TOOLS = [tool("Bash"), tool("mcp__github__search"), tool("Read")]


def body(turns: int = 5, *, first: str = WORDS, added: Json | None = None, more: int = 0, **members: Any) -> bytes:
    """A request of a client that marks its tools, its system prompt for an hour, and its last block."""
    history = [user(text(first), *([added] if added else []))]
    for number in range(1, turns):
        history += [assistant(text(f"{number} {WORDS}")), user(text(f"{number} {WORDS}"))]
    history[-1]["content"] += [text(f"part {number}") for number in range(more)]
    marker = members.pop("marker", MARKER)
    if marker:
        history[-1]["content"][-1] = {**history[-1]["content"][-1], "cache_control": marker}
    system = [text(members.pop("system", "You are an agent. " + WORDS), cache_control=HOUR_MARKER)]
    request = {"model": "claude-opus-4-5", "tools": TOOLS, "system": system, "messages": history, **members}
    return dumps(request)


def started() -> Session:
    session = Session()
    session.send(body(5), 0)
    return session


def only(found: CacheReading) -> tuple[MissCause, Culprit]:
    (cold,) = found.causes
    return cold.cause, cold.culprit


def test_a_request_that_continues_the_last_in_time_has_no_cold_tokens() -> None:
    session = Session()
    start = session.send(body(5), 0)
    assert only(start) == (MissCause.START, Culprit.CLIENT)
    then = session.send(body(6), MINUTE)
    assert (then.cold, then.change, then.expected) == (0, None, start.prompt)
    assert then.new == then.prompt - start.prompt


REMINDER = text("<system-reminder>The file notes.md changed.</system-reminder>")
SEARCH, MERGE = "mcp__github__search", "mcp__github__merge"
INJECTED: Mapping[str, tuple[Json, MissCause, Culprit, bytes, str | None]] = {
    "the user switches the model": ({"model": "claude-opus-4-6"}, MissCause.MODEL, Culprit.USER, b'"claude', "model"),
    "the client raises the effort": (
        {"output_config": {"effort": "high"}},
        MissCause.SETTING,
        Culprit.CLIENT,
        b'{"effort"',
        "output_config",
    ),
    "an MCP server adds a tool": (
        {"tools": [*TOOLS[:2], tool(MERGE), TOOLS[2]]},
        MissCause.TOOLS,
        Culprit.MCP,
        b'{"name":"mcp__github__merge"',
        MERGE,
    ),
    "an MCP server loses its tool": (
        {"tools": [TOOLS[0], TOOLS[2]]},
        MissCause.TOOLS,
        Culprit.MCP,
        b'{"name":"Read"',
        SEARCH,
    ),
    "the client describes a tool differently": (
        {"tools": [tool("Bash", "Later words."), *TOOLS[1:]]},
        MissCause.TOOLS,
        Culprit.CLIENT,
        b"Later words.",
        "Bash",
    ),
    "the client changes the system prompt": (
        {"system": f"You are an agent. Today is Monday. {WORDS}"},
        MissCause.SYSTEM,
        Culprit.CLIENT,
        b"oday is Monday.",
        None,
    ),
    "a hook adds a reminder to an old message": (
        {"added": REMINDER},
        MissCause.MESSAGES,
        Culprit.HOOK,
        b'{"type":"text","text":"<system-reminder>',
        None,
    ),
    "the client edits an old message": (
        {"first": f"Other words. {WORDS}"},
        MissCause.MESSAGES,
        Culprit.CLIENT,
        b"Other words.",
        None,
    ),
}


@pytest.mark.parametrize("injected", INJECTED)
def test_a_change_of_the_prefix_is_named_with_its_byte_and_its_culprit(injected: str) -> None:
    change, cause, culprit, place, name = INJECTED[injected]
    raw = body(6, **change)
    session = started()
    found = session.send(raw, MINUTE)
    assert only(found) == (cause, culprit)
    (cold,) = found.causes
    assert cold.change is not None
    assert raw[cold.change.offset :].startswith(place), raw[cold.change.offset :][:60]
    assert cold.name == name
    assert cold.server == ("github" if culprit is Culprit.MCP else None)


def test_after_five_minutes_the_messages_have_expired_and_the_head_with_an_hour_has_not() -> None:
    session = started()
    found = session.send(body(6), 6 * MINUTE)
    assert only(found) == (MissCause.EXPIRY, Culprit.TIME)
    assert found.causes[0].name == "5m"
    assert found.read > 0
    session.send(body(7), 7 * MINUTE)
    assert session.send(body(8), 70 * MINUTE).read == 0


def test_a_change_in_an_expired_prompt_costs_nothing_more() -> None:
    session = started()
    found = session.send(body(6, tools=TOOLS[:2]), 90 * MINUTE)
    assert only(found) == (MissCause.EXPIRY, Culprit.TIME)
    assert found.change is not None


def test_an_entry_more_than_20_blocks_before_the_next_marker_is_not_found() -> None:
    session = started()
    found = session.send(body(6, more=30), MINUTE)
    assert only(found) == (MissCause.LOOKBACK, Culprit.CLIENT)


def test_without_a_marker_in_the_messages_only_the_head_is_read() -> None:
    session = started()
    assert only(session.send(body(6, marker=None), MINUTE)) == (MissCause.MARKER, Culprit.CLIENT)


MILLION = frozenset({"context-1m"})


def test_the_provider_is_named_only_for_the_same_bytes_in_time_by_the_same_route() -> None:
    session = started()
    assert only(session.send(body(6), MINUTE, lost=True)) == (MissCause.PROVIDER, Culprit.PROVIDER)
    other = session.send(body(7), 2 * MINUTE, betas=MILLION)
    assert only(other) == (MissCause.ROUTE, Culprit.CLIENT)
    assert other.causes[0].name == "the beta context-1m"
    assert only(session.send(body(8), 2 * MINUTE + 1, betas=MILLION))[0] is MissCause.PARALLEL
    assert only(session.send(body(9), 0, lost=True, betas=MILLION))[0] is MissCause.CLOCK
    # A request that an earlier version recorded does not say its betas.
    assert only(session.send(body(10), MINUTE, betas=None))[0] is MissCause.PROVIDER


def test_rewrites_and_replaced_histories_are_causes_of_their_own() -> None:
    session = started()
    rewritten = session.send(body(5, first="A stub."), MINUTE, proxy=Proxy(rewrote=True))
    assert only(rewritten) == (MissCause.REWRITE, Culprit.PROXY)
    tools, names = [*TOOLS, tool("memory_search")], frozenset({"memory_search"})
    own = session.send(body(6, first="A stub.", tools=tools), 2 * MINUTE, proxy=Proxy(tools=names))
    assert only(own) == (MissCause.OWN_TOOLS, Culprit.PROXY)
    # A compaction after a pause is a compaction: no entry held its summary.
    compacted = session.send(body(1, first="Summary. " + WORDS, tools=tools), 10 * MINUTE, origin=Origin.COMPACTED)
    assert next(each.cause for each in compacted.causes) is MissCause.COMPACTION
    back = session.send(body(3, first="Another. " + WORDS, tools=tools), 11 * MINUTE, origin=Origin.DIVERGED)
    assert only(back) == (MissCause.REWIND, Culprit.USER)


def test_a_reply_without_usage_explains_nothing() -> None:
    session = started()
    assert session.last is not None
    assert explain_reading(attrs.evolve(session.last, usage=None), session.last, session.cache) is None


def test_changes_of_tools_and_keys_are_named_for_an_automatic_cache() -> None:
    session = Session(rules_of(tariff_of("openai")), "chat/main")
    tools = [{"type": "function", "function": {"name": each["name"], "description": WORDS}} for each in TOOLS]

    def chat(turns: int, tools: list[Json] = tools, **members: Any) -> bytes:
        said = [{"role": ("user", "assistant")[n % 2], "content": f"{n} {WORDS}"} for n in range(2 * turns - 1)]
        head = {"role": "system", "content": WORDS}
        return dumps({"model": "gpt-6.2-sol", "tools": tools, "messages": [head, *said], **members})

    session.send(chat(5), 0)
    assert session.send(chat(6), MINUTE).cold == 0
    changed = session.send(chat(7, tools[:2]), 2 * MINUTE)
    assert only(changed) == (MissCause.TOOLS, Culprit.CLIENT)
    keyed = session.send(chat(8, tools[:2]), 3 * MINUTE, route={"prompt_cache_key": "b"})
    assert only(keyed) == (MissCause.ROUTE, Culprit.CLIENT)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [body(turns) for turns in (1, 3, 5, 6, 9)] + [body(6, **change) for change, *_ in INJECTED.values()]
            ),
            st.sampled_from([0, SECOND, 6 * MINUTE, 70 * MINUTE, -MINUTE]),
            st.tuples(*[st.integers(0, 4000)] * 4) | st.none(),
            st.sampled_from(Origin),
        ),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from([MARKED, rules_of(tariff_of("openai")), rules_of(tariff_of("local"))]),
)
def test_the_causes_add_up_to_the_cold_tokens_whatever_is_sent_and_counted(
    requests: list[tuple[bytes, int, tuple[int, int, int, int] | None, Origin]], rules: CacheRules
) -> None:
    cache, last, at = Cache(), None, 0
    for raw, pause, counts, origin in requests:
        at += pause
        layout = not_none(LAYOUTS.setdefault(raw, lay_out(transcript.read(raw).transcript)))
        after, bill = prompt_cache.bill(
            cache, layout.prompt, layout.markers, started_at=at, minimum=0, readable_at=at, rules=rules
        )
        usage = bill.tokens if counts is None else Tokens(*counts[:1], read=counts[1], write_5m=counts[2])
        sent = SentPrompt(at=at, layout=layout, usage=usage, answered=at)
        found = not_none(explain_reading(sent, last, cache, rules=rules, origin=origin))
        assert all(each.tokens > 0 for each in found.causes)
        expected = found.prompt if last is None else found.expected
        assert found.cold == max(0, expected - found.read)
        assert found.read + found.cold + found.new == found.prompt
        assert found.new >= 0
        cache, last = after, sent


LAYOUTS: dict[bytes, PromptLayout | None] = {}

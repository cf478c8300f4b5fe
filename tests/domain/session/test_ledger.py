"""The ledger: the cost of a turn, its cost without the proxy, and when billing deviates."""

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.catalogue import model_of, tariff_of
from mnemosyne.domain.cost.prices import COMPACTION_TOKENS, Tokens
from mnemosyne.domain.cost.prompt_cache import rules_of
from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.session import ledger
from mnemosyne.domain.session.ledger import (
    Account,
    AccountTurn,
    Ledger,
    Sent,
    account,
    after,
    equivalents,
    is_far,
    why_to_stop,
)
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire import transcript
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.policies import UNMANAGED
from tests.domain.recorded import dumps
from tests.lab.evaluation.recordings import STEPS, Step, sized, traced
from tests.not_none import not_none
from tests.profiles import examples

MODEL = "claude-opus-4-5"
MARKER = {"type": "ephemeral"}
SECOND = 1_000_000
WORDS = "The instruction is to work with care and to say what was done. " * 400
Json = dict[str, Any]


def body(history: Sequence[Mapping[str, Any]]) -> bytes:
    """A body with Claude Code's cache markers: two blocks of the system prompt, and the last block."""
    *before, last = history
    said = last["content"]
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    content = [*blocks[:-1], {**blocks[-1], "cache_control": MARKER}]
    heads = [{"type": "text", "text": each, "cache_control": MARKER} for each in ("You are an agent.", WORDS)]
    return dumps({"model": MODEL, "system": heads, "messages": [*before, {**last, "content": content}]})


def history(turns: int, words: str = WORDS) -> list[Json]:
    """The client's history at a turn."""
    roles = ("user", "assistant")
    return [
        {"role": roles[number % 2], "content": [{"type": "text", "text": f"{number} {words}"}]}
        for number in range(2 * turns - 1)
    ]


@cache  # the examples of a property share a few requests
def layout(raw: bytes) -> PromptLayout:
    return not_none(lay_out(transcript.read(raw).transcript))


def turn(
    number: int,
    client: PromptLayout,
    *rounds: PromptLayout,
    usage: Tokens | None = None,
    mode: Mode = Mode.OBSERVE,
    at: int | None = None,
    attempt: int = 1,
) -> AccountTurn:
    """A turn that takes a second and begins ten seconds after the previous one."""
    began = number * 10 * SECOND if at is None else at
    return AccountTurn(
        at=began + SECOND,
        branch="main",
        turn=number,
        attempt=attempt,
        mode=mode,
        model=MODEL,
        client=client,
        rounds=[Sent(at=began, layout=each, usage=usage) for each in rounds or (client,)],
    )


def account_all(commands: Sequence[AccountTurn]) -> tuple[list[TurnAccounted], Ledger]:
    """The events of consecutive turns, and the ledger after them."""
    events, held = [], Ledger()
    for command in commands:
        events.append(account(command, held))
        held = after(held, events[-1])
    return events, held


def test_uncounted_usage_is_assumed_to_follow_the_cache_rules() -> None:
    events, _ = account_all([turn(number, layout(body(history(number)))) for number in (1, 2, 3)])
    for event in events:
        assert event.assumed
        assert event.actual == event.expected == event.shadow
    assert events[0].actual.read == 0
    assert events[2].actual.read == events[1].actual.prompt


def test_in_observe_the_shadow_has_the_size_that_the_provider_counted() -> None:
    usage = Tokens(input=3, output=50, read=0, write_5m=13_000)
    (event,), _ = account_all([turn(1, layout(body(history(1))), usage=usage)])
    assert event.shadow.prompt == event.expected.prompt == event.actual.prompt == 13_003
    assert event.shadow.output == 50
    assert not event.assumed


@pytest.mark.parametrize("prompt", [7, 10**9])
def test_a_count_far_from_the_estimate_is_billed_on_both_sides_but_sets_no_scale(prompt: int) -> None:
    first, second = turn(1, layout(body(history(1))), usage=Tokens(input=prompt, output=4)), layout(body(history(2)))
    (event, other), held = account_all([first, turn(2, second)])
    assert not event.assumed
    assert event.counted == event.actual.prompt == event.expected.prompt == event.shadow.prompt == prompt
    assert other.actual.prompt == other.estimated
    assert not held.deviates
    (bounded,), _ = account_all([attrs.evolve(first, bounded=True)])
    assert (bounded.assumed, bounded.counted, bounded.actual.prompt) == (True, 0, bounded.estimated)


FAR = (Tokens(input=10**9), Tokens(input=5, read=10**9), Tokens(input=6_000, output=10**9))


@pytest.mark.parametrize(("far", "hidden"), [(Tokens(input=7), 0), *itertools.product(FAR, (0, 1))])
def test_a_turn_with_an_impossible_count_costs_the_same_on_both_sides_and_affects_no_decision(
    far: Tokens, hidden: int
) -> None:
    clients = [layout(body(history(number))) for number in range(1, 9)]
    turns = [turn(number, each, *[each] * (1 + hidden), mode=Mode.MANAGE) for number, each in enumerate(clients, 1)]
    wrong = [attrs.evolve(each, rounds=[attrs.evolve(each.rounds[0], usage=far), *each.rounds[1:]]) for each in turns]
    events, held = account_all(wrong)
    assert all(event.shadow == event.actual and event.actual.prompt >= far.prompt for event in events)
    assert not any(event.deviates or event.compacted for event in events)
    assert held.billed == held.unmanaged == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_impossible_count_among_rounds_is_neither_a_loss_nor_a_saving_and_affects_no_decision(place: int) -> None:
    client = layout(body(history(8)))
    size = client.prompt.tokens
    for far in (1, 5 * size):
        counts = [Tokens(input=far if number == place else size) for number in range(3)]
        command = turn(1, client, client, client, client, mode=Mode.MANAGE)
        rounds = [attrs.evolve(each, usage=used) for each, used in zip(command.rounds, counts, strict=True)]
        (event,), held = account_all([attrs.evolve(command, rounds=rounds)])
        assert event.shadow == event.actual == sum(counts, Tokens())
        assert event.far
        assert held.billed == held.unmanaged == len(held.recent) == 0
        (before,), held = account_all([attrs.evolve(command, rounds=rounds, unstated=True)])
        assert (before.far, is_far(before), held.billed > 0) == (None, False, True)


def test_a_second_attempt_is_billed_but_its_shadow_is_not_counted_twice() -> None:
    first = layout(body(history(1)))
    once, again = account_all([turn(1, first), turn(1, first, attempt=2, at=20 * SECOND)])[0]
    assert once.shadow.prompt > 0
    assert again.shadow == Tokens()
    assert again.actual.prompt == once.actual.prompt


def test_a_pause_longer_than_the_caches_life_is_a_miss_for_the_shadow_too() -> None:
    events, _ = account_all([turn(1, layout(body(history(1)))), turn(2, layout(body(history(2))), at=400 * SECOND)])
    assert events[1].shadow.read == events[1].expected.read == 0


@pytest.mark.parametrize("jumps", [{3: -86_400}, {3: -86_400, 5: 86_400}, {2: -3600, 3: 3600, 4: -3600, 5: 3600}])
def test_turns_cost_the_same_without_the_proxy_after_the_clock_was_set_back(jumps: Mapping[int, int]) -> None:
    turns = [turn(number, layout(body(history(number))), mode=Mode.MANAGE) for number in range(1, 8)]
    usual, _ = account_all(turns)
    ahead, counted = 0, []
    for each, event in zip(turns, usual, strict=True):
        ahead += jumps.get(each.turn, 0) * SECOND
        at, usage = each.rounds[0].at + ahead, event.actual
        rounds = [attrs.evolve(each.rounds[0], at=at, usage=usage)]
        counted.append(attrs.evolve(each, at=at + SECOND, rounds=rounds))
    events, held = account_all(counted)
    assert [(event.shadow, event.expected) for event in events] == [(event.shadow, event.expected) for event in usual]
    assert held.billed == held.unmanaged


def test_all_rounds_of_a_turn_are_its_cost_and_each_reads_what_the_one_before_wrote() -> None:
    client, asked = layout(body(history(1))), layout(body(history(2)))
    command = turn(1, client, client, asked, mode=Mode.MANAGE)
    rounds = [command.rounds[0], attrs.evolve(command.rounds[1], at=command.rounds[0].at + 10)]
    (event,), _ = account_all([attrs.evolve(command, rounds=rounds)])
    assert event.rounds == 2
    assert event.actual.prompt == client.prompt.tokens + asked.prompt.tokens
    assert event.actual.read == client.prompt.tokens
    assert event.shadow.prompt == client.prompt.tokens


def test_a_smaller_prompt_upstream_is_a_saving_against_the_clients_own() -> None:
    commands = [turn(n, layout(body(history(n))), layout(body(history(n, "short"))), mode=Mode.MANAGE) for n in (1, 2)]
    _, held = account_all(commands)
    assert 0 < held.billed < held.unmanaged


def test_the_shadow_compacts_once_at_the_compaction_point_and_continues_small() -> None:
    small = layout(body(history(1, "short")))
    grown = [history(number, WORDS * 5) for number in range(1, 7)]
    commands = [turn(n, layout(body(each)), small, mode=Mode.MANAGE) for n, each in enumerate(grown, 1)]
    events, held = account_all(commands)
    compacted = [event for event in events if event.compacted]
    assert len(compacted) == 1
    assert compacted[0].shadow.output >= ledger.SUMMARY_TOKENS
    sizes = [event.shadow.prompt for event in events]
    place = events.index(compacted[0])
    assert max(sizes[:place]) <= COMPACTION_TOKENS < sizes[place]
    assert sizes[place + 1] < COMPACTION_TOKENS * 2 / 3
    assert held.accounts["main"].since == len(commands[place].client.ends)
    own = [account_all(commands[:number])[1].accounts["main"].unmanaged for number in range(1, len(commands) + 1)]
    assert own[:place] == sizes[:place]
    assert sizes[place + 1] / 2 < own[place] <= own[place + 1] == sizes[place + 1]  # without the request for a summary
    assert not any(
        event.compacted for event in account_all([turn(6, layout(body(grown[-1])))])[0]
    )  # in observe mode the client compacts itself


def test_the_request_for_a_summary_is_not_counted_in_tokens_of_another_model() -> None:
    """The prompt before had 414,000 tokens of the newer tokenizer; in those of the older one it has 300,000."""
    small, large = layout(body(history(1, "short"))), layout(body(history(6, WORDS * 5)))
    event, _ = account_all([turn(6, large, small, mode=Mode.MANAGE)])
    assert event[0].compacted
    sizes = []
    for model in (MODEL, "claude-opus-4-8"):
        known = Account(turn=5, unmanaged=event[0].shadow.prompt * 5 // 4, model=model)
        sizes.append(after(Ledger(accounts={"main": known}), event[0]).accounts["main"].unmanaged)
    assert sizes[0] < 0 < sizes[1]


def test_a_fork_before_the_compaction_has_the_full_history() -> None:
    held = Ledger(accounts={"main": Account(turn=9, since=12, unmanaged=9_000)})
    assert ledger.fork(held, "fork-1", "main", 20).accounts["fork-1"] == Account(since=12, unmanaged=9_000)
    assert ledger.fork(held, "fork-1", "main", 5).accounts["fork-1"] == Account()


def test_the_shadow_also_reads_cache_entries_of_other_sessions() -> None:
    client = layout(body(history(1)))
    size = client.prompt.tokens
    lucky = Tokens(read=size // 2, write_5m=size - size // 2)
    (event,), _ = account_all([turn(1, client, usage=lucky, mode=Mode.MANAGE)])
    assert event.expected.read == 0
    assert event.shadow.read == lucky.read
    assert event.shadow.prompt == size


# When the provider's billing deviates


def uncached(turns: int) -> list[AccountTurn]:
    """A provider that caches nothing, and reports that."""
    layouts = [layout(body(history(number))) for number in range(1, turns + 1)]
    return [turn(n, each, usage=Tokens(input=each.prompt.tokens)) for n, each in enumerate(layouts, 1)]


def test_a_provider_that_never_reads_its_cache_deviates_within_a_few_turns() -> None:
    events, held = account_all(uncached(8))
    assert [event.deviates for event in events].index(True) < 6
    why = not_none(why_to_stop(held))
    assert "times what its cache's rules let us expect, over the last 8 turns" in why


@pytest.mark.parametrize("rest", [0, 3], ids=["a whole prompt", "the beginning of one"])
def test_a_miss_near_the_minimum_cacheable_size_is_no_reason_to_stop(rest: int) -> None:
    """The estimate exceeds the minimum and the count does not. A small agent would otherwise lose managing for good."""
    minimum = model_of(MODEL).cache_minimum
    near = minimum - 1
    expected, actual = Tokens(read=near, write_5m=rest * near), Tokens(write_5m=(rest + 1) * near)
    (event,), _ = account_all([turn(1, layout(body(history(1))))])
    alike = attrs.evolve(event, expected=expected, actual=actual, assumed=False)
    held = reduce(after, [attrs.evolve(alike, turn=number) for number in range(1, 9)], Ledger())
    assert why_to_stop(held) is None
    far = attrs.evolve(alike, expected=Tokens(read=5 * minimum), actual=Tokens(write_5m=5 * minimum))
    assert why_to_stop(reduce(after, [attrs.evolve(far, turn=number) for number in range(1, 9)], Ledger())) is not None


def test_one_prompt_that_the_provider_lost_is_no_reason_to_stop() -> None:
    commands: list[AccountTurn] = []
    for number in range(1, 13):
        client = layout(body(history(number)))
        expected = account_all([*commands, turn(number, client)])[0][-1].expected
        lost = Tokens(write_5m=client.prompt.tokens)
        commands.append(turn(number, client, usage=lost if number == 9 else expected))
    assert why_to_stop(account_all(commands)[1]) is None


def on_one_slot(command: AccountTurn) -> AccountTurn:
    return attrs.evolve(command, cache=rules_of(tariff_of("local")))


def test_unreported_reads_of_a_single_slot_are_assumed_and_no_reason_to_stop() -> None:
    """For servers that count only the whole prompt, every turn would otherwise look like a full cache miss."""
    events, held = account_all([on_one_slot(each) for each in uncached(8)])
    assert not any(event.deviates for event in events)
    assert why_to_stop(held) is None
    assert all(event.assumed and event.actual == event.expected for event in events[1:])
    assert events[-1].actual.read > 0


def test_a_provider_that_never_reports_its_cache_is_no_reason_to_stop() -> None:
    """The whole prompt would otherwise seem to be billed as plain input on every turn."""
    silent = [
        attrs.evolve(each, rounds=[attrs.evolve(sent, reports_cache=False) for sent in each.rounds])
        for each in uncached(8)
    ]
    events, held = account_all(silent)
    assert all(event.assumed and event.counted for event in events)
    assert not any(event.deviates for event in events)
    assert why_to_stop(held) is None
    assert why_to_stop(account_all(uncached(8))[1]) is not None


def test_a_slot_that_another_prompt_took_is_no_reason_to_stop() -> None:
    """The server reports its reads, which are the same without the proxy."""
    lost = [
        on_one_slot(attrs.evolve(each, rounds=[attrs.evolve(sent, usage=Tokens(input=sent.usage.input, read=1))]))
        for each in uncached(8)
        for sent in each.rounds
        if sent.usage is not None
    ]
    events, _ = account_all(lost)
    assert not any(event.deviates for event in events)
    assert events[-1].actual.read == 1


# Laws

TURNS = st.lists(
    st.tuples(
        st.integers(0, 600),
        st.sampled_from(list(Mode)),
        st.none() | st.builds(Tokens, st.integers(4_500, 6_000), *[st.integers(0, 4_000)] * 4),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=6,
)
LAYOUTS = [layout(body(history(number, "some words " * 300))) for number in range(1, 8)]


@given(TURNS)
def test_totals_are_the_sums_of_the_turns_and_every_size_adds_up(
    turns: list[tuple[int, Mode, Tokens | None, int]],
) -> None:
    commands, at = [], 0
    for number, (pause, mode, usage, attempts) in enumerate(turns, 1):
        for attempt in range(1, attempts + 1):
            at += pause * SECOND
            client = LAYOUTS[number - 1]
            commands.append(turn(number, client, client, usage=usage, mode=mode, at=at, attempt=attempt))
    events, held = account_all(commands)
    managed = [event for event in events if event.mode is not Mode.OBSERVE]
    assert held.billed == sum((equivalents(event.actual, MODEL) for event in managed), Fraction(0))
    assert held.unmanaged == sum((equivalents(event.shadow, MODEL) for event in managed), Fraction(0))
    assert held == reduce(after, events, Ledger())
    for event, command in zip(events, commands, strict=True):
        assert min(attrs.astuple(event.shadow) + attrs.astuple(event.expected)) >= 0
        if not event.assumed:
            assert event.expected.prompt == event.actual.prompt == event.counted
        assert (event.shadow.prompt > 0) is (command.attempt == 1)


@examples(25)
@given(STEPS)
def test_the_shadow_of_an_append_only_session_is_the_evaluations_unmanaged_bill(steps: list[Step]) -> None:
    """The same session in two ways: its bodies with their own markers, and a policy that changes nothing."""
    trace = traced(steps)
    requests = [layout(body(trace.messages[: each.messages])) for each in trace.requests]
    fixed = requests[0].prompt[requests[0].head - 1].tokens
    unmanaged = simulate(sized(trace, fixed=fixed), (), UNMANAGED)
    events, _ = account_all(
        [turn(each.turn, at_it, at=each.at) for each, at_it in zip(trace.requests, requests, strict=True)]
    )
    assert [equivalents(event.shadow, MODEL) for event in events] == [point.billed for point in unmanaged.points]


@pytest.mark.parametrize(
    ("model", "point"),
    [("claude-opus-5-5", 967_000), ("claude-sonnet-5-5", 967_000), ("claude-opus-4-5", 155_000), (None, 155_000)],
)
def test_the_compaction_point_is_derived_from_the_clients_window(model: str | None, point: int) -> None:
    assert ledger.compaction_point(model) == point


def test_an_observed_compaction_corrects_the_compaction_point_unless_it_is_small() -> None:
    small, large = (Account(counted=size, estimated=size) for size in (30_000, 120_000))
    held = Ledger(accounts={"main": small, "agent-1": large})
    assert ledger.compact(held, "main").compacts_at is None
    assert ledger.compact(held, "nobody").compacts_at is None
    seen = ledger.compact(held, "agent-1")
    assert seen.compacts_at == 120_000
    grown = layout(body(history(6, WORDS * 2)))
    assert grown.prompt.tokens in range(121_000, 155_000)
    command = turn(6, grown, layout(body(history(1, "short"))), mode=Mode.MANAGE)
    assert (account(command, held).compacted, account(command, seen).compacted) == (False, True)
    assert after(seen, account(command, seen)).compacts_at == 120_000


def test_the_minimum_cacheable_size_is_compared_with_counted_sizes_except_in_older_logs() -> None:
    """The estimate is below the minimum, the counted prompt is not: the shadow writes it, as the provider does."""
    minimum = model_of(MODEL).cache_minimum
    said = {"type": "text", "text": WORDS[: len(WORDS) * 2 // 3], "cache_control": MARKER}
    client = layout(dumps({"model": MODEL, "messages": [{"role": "user", "content": [said]}]}))
    assert client.prompt.tokens < minimum
    usage = Tokens(input=3, output=50, write_5m=minimum + 100)
    command = turn(1, client, usage=usage, mode=Mode.MANAGE)
    assert account(command, Ledger()).shadow.write_5m == 0
    scaled = account(attrs.evolve(command, scaled=True), Ledger())
    assert scaled.shadow.write_5m == scaled.expected.write_5m > minimum


def counted(prompt: PromptLayout) -> Tokens:
    """The usage from a provider that counts twice the estimate for the head, and a fifth less for messages."""
    head = prompt.prompt[prompt.head - 1].tokens
    return Tokens(input=2 * head + (prompt.prompt.tokens - head) * 4 // 5)


def test_messages_of_the_shadow_are_not_scaled_by_a_prompt_that_is_mostly_head_except_in_older_logs() -> None:
    """A rewritten prompt is mostly head, whose scale may differ from the messages': the prompts' growth gives both."""
    grown, rewritten = layout(body(history(12))), layout(body(history(1, "short")))
    before = [layout(body(history(number))) for number in range(1, 12)]
    commands = [turn(number, each, usage=counted(each), mode=Mode.MANAGE) for number, each in enumerate(before, 1)]
    commands.append(turn(12, grown, rewritten, usage=counted(rewritten), mode=Mode.MANAGE))
    by_parts = {
        parts: account_all([attrs.evolve(each, parts=parts) for each in commands])[0][-1] for parts in (True, False)
    }
    size = counted(grown).input
    assert by_parts[True].shadow.prompt == pytest.approx(size, rel=0.02)
    assert by_parts[False].shadow.prompt > 1.5 * size


def test_a_turn_is_scaled_by_the_growth_of_its_prompt_unless_the_prompt_was_rewritten() -> None:
    first = Account().count(MODEL, 1, 10_000, 8_000)
    grown = attrs.evolve(first, turn=1).count(MODEL, 2, 16_000, 12_000)
    assert grown.grown == {1: Fraction(5, 4), 2: Fraction(3, 2)}
    little = attrs.evolve(grown, turn=2).count(MODEL, 3, 16_900, 12_400)
    assert little.grown == grown.grown, "so few tokens tell nothing"
    rewritten = attrs.evolve(grown, turn=2).count(MODEL, 3, 9_000, 9_000)
    assert rewritten.grown == grown.grown
    after_a_gap = attrs.evolve(rewritten, turn=3).count(MODEL, 5, 19_000, 19_000)
    assert after_a_gap.grown == grown.grown
    assert attrs.evolve(grown, turn=2).count("another-model", 3, 20_000, 18_000).grown == {3: Fraction(10, 9)}

"""Bills add up, a policy without changes costs nothing, and faults are charged."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.catalogue import price_of
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS
from mnemosyne.domain.tools.memory_tools import TOOLS
from mnemosyne.domain.window.assembly import Renderings
from mnemosyne.domain.window.planning import RULE, Candidates, Plan, Situation, price_of_rewrite
from mnemosyne.domain.window.policies import Chosen, is_conversation, lower, plan_of
from mnemosyne_lab.evaluation.demand import demands
from mnemosyne_lab.evaluation.driver import CALL_TOKENS, SUMMARY_REQUEST, simulate
from mnemosyne_lab.evaluation.policies import POLICIES, UNMANAGED, age
from mnemosyne_lab.evaluation.policy import (
    API_1H,
    API_5M,
    LOCAL,
    MODEL,
    OPENAI,
    QUOTA,
    TARIFFS,
    JudgedTariff,
    Policy,
    Settings,
)
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.results import SessionResult, ends_of
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Trace, trace_of
from tests.lab.evaluation.recordings import LONG, STEPS, Step, long_trace, session, sized, traced
from tests.profiles import examples

BY_NAME = {policy.name: policy for policy in POLICIES}
NAMES = st.sampled_from(sorted(BY_NAME))


def driven(trace: Trace, policy: Policy) -> SessionResult:
    """A trace under a policy, compared with reality."""
    measured, wanted = sized(trace), demands(trace)
    return simulate(measured, wanted, policy, simulate(measured, wanted, UNMANAGED))


def older_than(turns: int, fidelity: Fidelity) -> Chosen:
    """Lower everything but dialogue to a fidelity after this many turns."""
    return lambda situation, each: (
        each.fidelity if is_conversation(each) or age(situation, each) <= turns else lower(each, fidelity)
    )


def once(turn: int, fidelity: Fidelity, turns: int = 0) -> Policy:
    """One rewrite before a turn, of all objects of at least this age."""

    def planner(situation: Situation, candidates: Candidates) -> Plan | None:
        if situation.turn != turn:
            return None
        return plan_of(situation, candidates, older_than(turns, fidelity), "now")

    return Policy(name="once", about="", planner=planner)


@examples(40)
@given(STEPS, NAMES, st.sampled_from(TARIFFS))
def test_parts_of_every_bill_add_up_and_no_wire_rule_is_broken(
    steps: list[Step], name: str, tariff: JudgedTariff
) -> None:
    found = under(traced(steps), BY_NAME[name], tariff)
    price = price_of(MODEL)
    assert price is not None
    assert found.wire_violations == 0
    assert found.billed_unmanaged == sum(point.shadow for point in found.points)
    assert tariff not in (API_5M, API_1H) or found.nanodollars == found.billed * price.input
    assert found.demands == found.resident + found.declared + found.silent
    assert found.billed == sum(point.billed for point in found.points)
    assert found.ends[-1] == found.ratio
    for point in found.points:
        assert sum(point.resident) + point.fixed > 0
        assert min(point.resident) >= 0


@examples(20)
@given(STEPS, st.sampled_from(["mnemosyne", "simple", "clearing"]), st.data())
def test_end_of_a_session_changes_nothing_before_it(steps: list[Step], name: str, data: st.DataObject) -> None:
    trace = traced(steps)
    end = data.draw(st.integers(1, len(trace.requests)))
    cut = attrs.evolve(trace, requests=trace.requests[:end])
    measured, wanted = sized(cut), [each for each in demands(trace) if each.turn <= end]
    found = simulate(measured, wanted, BY_NAME[name], simulate(measured, wanted, UNMANAGED))
    assert found.ends == driven(trace, BY_NAME[name]).ends[: len(found.ends)]


@examples(25)
@given(STEPS)
def test_policy_without_changes_bills_exactly_the_uncompacted_cost(steps: list[Step]) -> None:
    idle = Policy(name="idle", about="", planner=lambda situation, candidates: None)
    trace = traced(steps)
    one, other = driven(trace, idle), driven(trace, BY_NAME["uncompacted"])
    assert one == other
    assert one.billed == one.billed_unmanaged, "nobody compacted here"


def test_policy_that_breaks_a_wire_rule_is_detected() -> None:
    def without_results(
        messages: Sequence[dict[str, Any]], renderings: Renderings, thinking_from: int, first: int
    ) -> list[dict[str, Any]]:
        return [message for message in messages if "tool_result" not in str(message)]

    assert driven(long_trace(), attrs.evolve(once(30, Fidelity.STUB), assemble=without_results)).wire_violations > 0


def test_exact_text_that_was_evicted_is_restored_and_the_round_is_paid() -> None:
    trace = long_trace()
    kept, found = driven(trace, BY_NAME["uncompacted"]), driven(trace, once(35, Fidelity.EVICTED))
    assert kept.exact_faults == 0
    assert found.exact_faults == 4
    assert found.silent == 0
    price = price_of(MODEL)
    assert price is not None
    measured = sized(trace)
    free = simulate(measured, (), once(35, Fidelity.EVICTED), simulate(measured, (), UNMANAGED))
    assert found.billed - free.billed > 4 * CALL_TOKENS * Fraction(price.output, price.input)
    assert found.tokens_sent > sum(sum(point.resident) + point.fixed for point in found.points)


def test_restored_object_stays_in_full_through_an_epoch_that_does_not_name_it() -> None:
    evicting = once(35, Fidelity.EVICTED).planner
    assert evicting is not None

    def planner(situation: Situation, candidates: Candidates) -> Plan | None:
        if situation.turn == 40:
            return Plan(fidelities={}, reason="thinking")
        return evicting(situation, candidates)

    steps = [*LONG, *[("edit", number % 4, 5) for number in range(4)]]
    found = driven(traced(steps), Policy(name="twice", about="", planner=planner))
    assert (len(found.epochs), found.exact_faults) == (2, 4)


def test_eviction_counts_once_at_any_fidelity() -> None:
    def planner(situation: Situation, candidates: Candidates) -> Plan | None:
        target = {30: Fidelity.STUB, 35: Fidelity.EVICTED}.get(situation.turn)
        return None if target is None else plan_of(situation, candidates, older_than(20, target), "now")

    trace = long_trace()
    early = driven(trace, Policy(name="both", about="", planner=planner))
    assert len(early.epochs) == 2
    later = [item for item in trace.items if item.places and 35 - item.born > 20]
    assert early.evictions <= len(later)


def test_cold_rewrite_saves_at_once_and_a_warm_one_costs_first() -> None:
    trace = long_trace()
    cold, warm = driven(trace, once(35, Fidelity.EVICTED, 28)), driven(trace, once(34, Fidelity.EVICTED, 28))
    assert cold.epochs[0].price < 0 < warm.epochs[0].price


def test_warm_rewrite_costs_about_as_much_as_planned() -> None:
    def planner(situation: Situation, candidates: Candidates) -> Plan | None:
        plan = once(34, Fidelity.EVICTED, 12).planner
        assert plan is not None
        found = plan(situation, candidates)
        if found is None:
            return None
        return attrs.evolve(found, price=price_of_rewrite(situation, candidates(), found.fidelities))

    (epoch,) = driven(long_trace(), Policy(name="priced", about="", planner=planner)).epochs
    assert epoch.expected_price > 0
    assert abs(epoch.price - epoch.expected_price) < epoch.price / 20


def test_client_compaction_shrinks_reality_but_not_the_whole_history() -> None:
    reset = {"kind": "compact", "before_msg": 41, "summary": "So far.", "trigger": "auto"}
    trace = traced(LONG, resets=[reset])
    real, whole = driven(trace, UNMANAGED), driven(trace, BY_NAME["uncompacted"])
    assert real.points[20].unmanaged_tokens < real.points[19].unmanaged_tokens
    assert whole.tokens_sent > real.tokens_sent == whole.tokens_unmanaged
    assert whole.billed_unmanaged == real.billed


@pytest.mark.parametrize("tariff", [API_5M, API_1H, QUOTA, OPENAI], ids=lambda tariff: tariff.name)
@pytest.mark.parametrize("name", ["mnemosyne", "mnemosyne-thrifty"])
def test_a_session_whose_client_compacts_costs_no_more_than_the_client(name: str, tariff: JudgedTariff) -> None:
    """It sends 20,000 tokens less from then on, in 60 requests that add little. Nothing of it is due."""
    reset = {"kind": "compact", "before_msg": 45, "summary": "We mended the parser. " * 400, "trigger": "auto"}
    trace = traced([*(("read", file, 20) for file in range(22)), *(("run", 0, 20) for _ in range(60))], resets=[reset])
    found = under(trace, BY_NAME[name], tariff)
    assert found.ratio <= RULE.margin


def test_user_commands_apply_under_every_policy() -> None:
    reset = {"kind": "compact", "before_msg": 41, "summary": "So far.", "trigger": "manual"}
    trace = traced(LONG, resets=[reset])
    assert driven(trace, BY_NAME["uncompacted"]) == driven(trace, UNMANAGED)


def test_unavailable_fidelity_is_an_error_of_the_policy() -> None:
    def planner(situation: Situation, candidates: Candidates) -> Plan | None:
        return Plan(fidelities={each.key: Fidelity.COMPACT for each in candidates()}, reason="mistake")

    with pytest.raises(ValueError, match=r"mistaken wants \w+ at L2, and it has no such rendition"):
        driven(long_trace(), Policy(name="mistaken", about="", planner=planner))


# The client's own behaviour


def under(trace: Trace, policy: Policy, tariff: JudgedTariff, *, fixed: int | None = 20_000) -> SessionResult:
    measured = Sized(trace, Settings(tariff=tariff, fixed=fixed))
    return simulate(measured, demands(trace), policy, simulate(measured, (), UNMANAGED))


def test_compaction_costs_the_prompt_once_more_and_the_summary() -> None:
    """A quota counts each token of a prompt as one, so the sum can be checked by hand."""
    reset = {"kind": "compact", "before_msg": 21, "summary": "We mended the parser. " * 40, "trigger": "auto"}
    trace = traced(LONG, resets=[reset])
    assert under(trace, BY_NAME["uncompacted"], QUOTA).billed == under(trace, BY_NAME["uncompacted"], QUOTA).tokens_sent
    found, measured = under(trace, UNMANAGED, QUOTA), Sized(trace, Settings(tariff=QUOTA, fixed=20_000))
    dropped = 20_000 + sum(block.tokens for block in measured.blocks(measured.messages[:21]))
    summary = measured.text_tokens(str(reset["summary"]))
    assert found.billed == found.tokens_sent + dropped + SUMMARY_REQUEST.tokens + 5 * summary


def test_current_client_compacts_before_its_million_token_window_is_full() -> None:
    trace = long_trace()
    whole, found = (under(trace, BY_NAME[name], API_5M, fixed=935_000) for name in ("uncompacted", "native"))
    size = [sum(point.resident) for point in found.points]
    (cut,) = (number for number in range(1, len(size)) if size[number] < size[number - 1])
    assert sum(whole.points[cut].resident) > 967_000 - 935_000 >= size[cut - 1]
    assert COMPACTED_TOKENS < size[cut] < COMPACTED_TOKENS + 3_000
    assert under(trace, BY_NAME["native"], API_5M).billed == under(trace, BY_NAME["uncompacted"], API_5M).billed


def test_current_client_compacts_in_idle_time_if_its_cache_lasts_an_hour() -> None:
    trace = traced([("read", 0, 5), ("say", 0, 4_000), ("read", 1, 5)])
    for tariff, fixed, compacts in ((API_1H, 200_000, True), (API_5M, 200_000, False), (API_1H, 100_000, False)):
        whole, found = (under(trace, BY_NAME[name], tariff, fixed=fixed) for name in ("uncompacted", "native"))
        assert (found.points[-1].resident != whole.points[-1].resident) == compacts
        if compacts:  # before the entry expired, so that tools and system prompt are still cached afterwards
            assert found.points[1].billed < whole.points[1].billed / 2


@pytest.mark.release
def test_clearing_in_idle_time_keeps_the_last_results() -> None:
    reads = [("read", number, 5) for number in range(40)]
    for seconds, steps, clears in ((4_000, reads, True), (3_800, reads, False), (4_000, reads[:20], False)):
        found = under(traced([*steps, ("say", 0, 5), ("read", 41, seconds)]), BY_NAME["native-clearing"], API_5M)
        assert bool(found.epochs) == clears
        if clears:
            assert found.evictions == 40 - 12
            assert found.wire_violations == 0


@pytest.mark.release
def test_agent_that_only_reads_is_dearer_at_no_end() -> None:
    """Files read for a task in progress stay until the window is full; then nearly all would be written again. In a
    session that does not recover this cost, it was a tenth.
    """
    measured = Sized(traced([("read", number, 20) for number in range(80)]), Settings(fixed=40_000))
    for tariff in (API_5M, API_1H):
        under = measured.under(attrs.evolve(measured.settings, tariff=tariff))
        reality = simulate(under, (), UNMANAGED)
        found = simulate(under, (), BY_NAME["mnemosyne"], reality)
        assert max(ends_of(found, reality)) <= RULE.margin, tariff.name
        assert reality.points[-1].unmanaged_tokens > 160_000
        assert found.epochs


def test_slot_reads_each_token_of_a_growing_history_once_except_its_own_output() -> None:
    trace = long_trace()
    found, measured = under(trace, BY_NAME["uncompacted"], LOCAL), Sized(trace, Settings(tariff=LOCAL, fixed=20_000))
    sent = measured.messages[: trace.requests[-1].messages]
    written = measured.blocks([each for each in sent if each["role"] == "assistant"])
    whole = sum(found.points[-1].resident) + found.points[-1].fixed
    assert found.billed == whole - sum(block.tokens for block in written)


def test_memory_tools_count_in_the_head_of_a_policy_with_memory() -> None:
    trace = traced(LONG[:3])
    plain, laden = (
        Sized(trace, Settings(tariff=QUOTA, fixed=20_000, memory_tools=counted)) for counted in (False, True)
    )
    reality = simulate(plain, (), UNMANAGED)
    assert simulate(laden, (), UNMANAGED) == reality
    without, found = (simulate(each, (), BY_NAME["mnemosyne"], reality) for each in (plain, laden))
    tools = laden.head_with(TOOLS).tokens - laden.head.tokens
    assert [point.fixed for point in without.points] == [20_000] * len(reality.points)
    assert [point.fixed for point in found.points] == [20_000 + tools] * len(reality.points)


def test_quota_user_also_gets_dollars() -> None:
    seen: list[Situation] = []

    def watch(situation: Situation, candidates: Candidates) -> Plan | None:
        seen.append(situation)
        return None

    trace = traced(LONG[:5])
    for tariff, units in ((QUOTA, 1), (API_1H, 0)):
        seen.clear()
        found = under(trace, Policy(name="watching", about="", planner=watch), tariff)
        assert [len(each.also) for each in seen] == [units] * len(seen)
    found = under(trace, Policy(name="watching", about="", planner=watch), QUOTA)
    (last,) = seen[-1].also
    price = Settings(tariff=QUOTA).price
    assert last.billed == last.shadow == Fraction(sum(each.nanodollars for each in found.points[:-1]), price.input)
    assert (last.read, last.write) == (Fraction(1, 10), Fraction(2))


def test_last_rounds_of_an_exchange_are_kept_with_memory_as_in_the_server() -> None:
    kept: dict[int, set[str]] = {}

    def watch(situation: Situation, candidates: Candidates) -> Plan | None:
        kept[situation.turn] = {each.key for each in candidates() if each.kept}
        return None

    trace = traced([("say", 0, 5), *(("read", number, 5) for number in range(9))])
    last = trace.requests[-1]
    under(trace, Policy(name="watching", about="", planner=watch), API_5M)
    new = kept[last.turn]
    under(trace, attrs.evolve(BY_NAME["mnemosyne"], planner=watch), API_5M)
    protected = {item.id: item.places[-1].message for item in trace.items if item.id in kept[last.turn] - new}
    assert {last.messages - message for message in protected.values()} >= {3, 5}, "the two rounds before the new one"
    assert not [each for each in protected.values() if last.messages - each > 6 and each > 2]


def test_content_of_a_request_is_no_object_during_its_planning_as_in_the_server() -> None:
    """The server makes objects after the reply, so it knows a change to a file one request later than a policy that
    sees the whole trace.
    """
    seen: list[list[tuple[str, int, int]]] = []

    def watch(situation: Situation, candidates: Candidates) -> Plan | None:
        seen.append([(each.key, each.later, each.last_use) for each in candidates()])
        return None

    trace = traced([("say", 0, 5), ("read", 0, 5), *[("edit", 0, 5)] * 3, *(("run", file, 5) for file in range(3))])
    under(trace, Policy(name="watching", about="", planner=watch), API_5M)
    whole = [*seen]
    seen.clear()
    under(trace, attrs.evolve(BY_NAME["mnemosyne"], planner=watch), API_5M)
    assert seen[1:] == whole[:-1]
    assert seen != whole


def test_cache_of_another_session_is_read_if_the_first_request_read_it() -> None:
    recorded = session(LONG[:4])
    for read in (0, 9_000):
        recorded["turns"][0]["usage"] = {"input": 0, "cache_write": 10_100 - read, "cache_read": read}
        found = under(trace_of(recording("made", {**recorded, "head": {}})), UNMANAGED, API_5M, fixed=None)
        assert found.points[0].billed == pytest.approx(12_600 if read == 0 else 2_250, rel=0.02)

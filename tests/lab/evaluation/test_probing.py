"""After a rewrite a text is resident, one answer away, named, or lost; without memory nothing is answered."""

from typing import Any

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.window.planning import Candidates, Plan, Situation
from mnemosyne_lab.evaluation.policies import POLICIES, UNMANAGED, older_than, plan_of
from mnemosyne_lab.evaluation.policy import Policy, Settings
from mnemosyne_lab.evaluation.probes import Probe, ProbeClass
from mnemosyne_lab.evaluation.probing import LATER, MOST_SEARCHED, _Memory, probe_session, sum_tallies
from mnemosyne_lab.evaluation.reading import recording, trace_of
from mnemosyne_lab.evaluation.results import ProbeTally
from mnemosyne_lab.evaluation.sizing import Sized
from tests.lab.evaluation.recordings import LONG, session

SETTINGS = Settings(fixed=20_000)


def evict(situation: Situation, candidates: Candidates) -> Plan | None:
    """Everything except the dialogue is evicted before turn 34."""
    if situation.turn != 34:
        return None
    return plan_of(situation, candidates, older_than(0, Fidelity.EVICTED), "now")


FACT = "The port of bakori is 20001."

EVICTING = Policy(name="evicting", about="", planner=evict)


def tallies(policy: Policy, **more: Any) -> dict[str, ProbeTally]:
    found = probe_session(recording("made, line 1", session(LONG, **more)), SETTINGS, [policy])
    return {each.about: each for each in found.tallies[policy.name]}


def test_each_probe_is_counted_once() -> None:
    for policy in (EVICTING, attrs.evolve(EVICTING, has_memory=True), UNMANAGED):
        for each in tallies(policy).values():
            assert each.asked == each.resident + each.answered + each.named + each.lost > 0


def test_evicted_fact_is_answered_only_by_a_memory() -> None:
    about = f"planted, {LATER[1]} turns later"
    without, remembering = tallies(EVICTING)[about], tallies(attrs.evolve(EVICTING, has_memory=True))[about]
    assert without.answered == 0
    assert without.named > 0
    assert without.lost == remembering.lost == 0
    assert (remembering.answered, remembering.named) == (without.named, 0)


def test_client_compaction_loses_everything_outside_its_summary() -> None:
    reset = {"kind": "compact", "before_msg": 61, "summary": "Asked: Please mend the parser.", "trigger": "auto"}
    found = tallies(UNMANAGED, resets=[reset])
    assert (found["decision"].asked, found["decision"].resident, found["decision"].lost) == (1, 1, 0)
    assert found[f"planted, {LATER[0]} turns later"].lost > 0
    assert not {each.about for each in found.values()} & {"artifact"}, "nothing was changed by then"


def test_only_planted_facts_are_probed_without_a_rewrite() -> None:
    found = tallies(UNMANAGED)
    assert set(found) == {f"planted, {turns} turns later" for turns in LATER[:2]}
    assert all(each.resident == each.asked for each in found.values())


def test_built_in_policy_loses_nothing() -> None:
    ours = next(policy for policy in POLICIES if policy.name == "mnemosyne")
    steps = [*LONG, *LONG]
    found = probe_session(recording("made, line 1", session(steps)), SETTINGS, [ours]).tallies[ours.name]
    assert sum(each.asked for each in found) > sum(each.resident for each in found)
    assert sum(each.lost for each in found) == 0


def test_sums_are_by_kind_and_planted_facts_in_order_of_time() -> None:
    def tally(about: str, asked: int) -> ProbeTally:
        return ProbeTally(about=about, asked=asked, before=0, resident=asked, answered=0, named=0, lost=0)

    found = sum_tallies(
        [tally("recall", 1), tally("planted, 20 turns later", 2), tally("planted, 5 turns later", 3)] * 2
    )
    assert found == [tally("planted, 5 turns later", 6), tally("planted, 20 turns later", 4), tally("recall", 2)]


def test_memory_is_asked_at_each_turn_and_its_answer_may_get_lost() -> None:
    turns = MOST_SEARCHED + 10
    told = session([("read", file, 5) for file in range(turns)])
    results = [each["content"][0] for each in told["messages"][2::2]]
    for number, result in enumerate(results):
        result["content"] = f"What is the port of bakori, and of file {number}? Who asks for the port?\n" * 9
    results[0]["content"] = FACT
    sized = Sized(trace_of(recording("made, line 1", told)), SETTINGS)
    asked = Probe(about=ProbeClass.PLANTED, question="What is the port of bakori?", text=FACT)
    memory = _Memory(sized)
    assert [memory.tells(asked, turn) for turn in (10, turns)] == [True, False]

"""A call affects only the branch's own objects, by legal steps, within a turn's limits, and gets a true answer."""

from functools import reduce
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import (
    FaultKind,
    FaultReason,
    Link,
    LinkRelation,
    ObjectFaulted,
    ObjectForgotten,
    ObjectPinned,
    ObjectReleased,
    ObjectRestored,
)
from mnemosyne.domain.objects.faults import LIMITS, EvictionTurns, FaultLimits, RecallBudget
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.kinds import UNCHANGED, ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.protection import FAULT_PROTECTION, Now, last_protected_turn
from mnemosyne.domain.recall.memory_calls import (
    Definition,
    GrantedRelease,
    GrantedRestore,
    answer,
    answer_tokens,
    definition,
    release,
    restore,
)
from mnemosyne.domain.tools.memory_tools import MemoryQuery, MemoryRelease, MemoryRestore, MemoryTool, RefusedCall
from tests.domain.remembered import BRANCH, created, degraded, remembered, summarized

NOW = Now(turn=20, message_count=40, last_user_messages=(30, 34))
STUBBED = remembered(
    created("abc2345"), summarized("abc2345", Fidelity.COMPACT, 80), degraded("abc2345", Fidelity.STUB)
)
UNUSED = RecallBudget()


def asked(object_id: str = "abc2345", target: Fidelity = Fidelity.FULL) -> MemoryRestore:
    return MemoryRestore(object_id, target, "to edit it")


def granted(found: GrantedRestore | RefusedCall) -> GrantedRestore:
    assert isinstance(found, GrantedRestore), found
    return found


def refused(found: object) -> str:
    assert isinstance(found, RefusedCall), found
    return found.text


def try_release(state: Memory, *object_ids: str) -> GrantedRelease:
    return release(state, BRANCH, NOW, MemoryRelease(object_ids, "done"))


# Restore


def test_a_restore_shows_the_object_in_full_counts_as_a_fault_and_protects_it() -> None:
    found = granted(restore(STUBBED, BRANCH, asked(), UNUSED))
    assert (found.before, found.after, found.tokens) == (Fidelity.STUB, Fidelity.FULL, 1_000)
    events = found.events(STUBBED, at=5, branch=BRANCH, turn=20, left=10, latency=7)
    where: dict[str, Any] = {"at": 5, "object": "abc2345", "branch": BRANCH, "turn": 20}
    assert events == (
        ObjectFaulted(
            **where,
            kind=FaultKind.EXPLICIT,
            reason="to edit it",
            distance=10,
            tokens=1_000,
            avoided_tokens=0,
            latency=7,
            why=FaultReason.REFERENCE,
        ),
        ObjectRestored(**where, before=Fidelity.STUB, after=Fidelity.FULL, cause=Cause.FAULT),
    )
    after = remembered(*events, before=STUBBED)
    assert after.view_of(BRANCH).fidelity_of("abc2345") is Fidelity.FULL
    assert last_protected_turn(after.objects["abc2345"]) == 20 + FAULT_PROTECTION


def test_object_shown_in_full_is_not_restored() -> None:
    assert "in your context in full" in refused(restore(remembered(created("abc2345")), BRANCH, asked(), UNUSED))
    faulted = granted(restore(STUBBED, BRANCH, asked(), UNUSED)).events(
        STUBBED, at=0, branch=BRANCH, turn=20, left=10, latency=0
    )
    assert "in full" in refused(restore(remembered(*faulted, before=STUBBED), BRANCH, asked(), RecallBudget(1, 1_000)))


def test_l1_that_is_not_made_yet_is_granted_at_its_target_size() -> None:
    assert granted(restore(STUBBED, BRANCH, asked(target=Fidelity.COMPACT), UNUSED)).tokens == 80
    unmade = granted(restore(STUBBED, BRANCH, asked(target=Fidelity.DETAILED), UNUSED))
    assert (unmade.after, unmade.tokens) == (Fidelity.DETAILED, 315)


SUMMARY = summarized("abc2345", Fidelity.COMPACT, 80)


@pytest.mark.parametrize(
    ("state", "target", "budget", "text"),
    [
        (
            remembered(created("abc2345"), SUMMARY, degraded("abc2345", Fidelity.COMPACT)),
            Fidelity.COMPACT,
            UNUSED,
            "stands at L2 already",
        ),
        (STUBBED, Fidelity.FULL, RecallBudget(LIMITS.faults, 0), "no more may be"),
        (
            remembered(ObjectForgotten(at=0, object="abc2345", reason=""), before=STUBBED),
            Fidelity.FULL,
            UNUSED,
            "forgotten for good",
        ),
    ],
    ids=["shown as well already", "too many faults", "forgotten"],
)
def test_restore_is_refused(state: Memory, target: Fidelity, budget: RecallBudget, text: str) -> None:
    assert text in refused(restore(state, BRANCH, asked(target=target), budget))


def test_too_large_object_is_offered_at_a_lower_fidelity_or_as_a_question() -> None:
    granted(restore(STUBBED, BRANCH, asked(), RecallBudget(1, LIMITS.tokens - 1_000)))
    told = refused(restore(STUBBED, BRANCH, asked(), RecallBudget(1, LIMITS.tokens - 999)))
    assert "target L1 (315 tokens)" in told
    assert "memory_query" in told
    assert "target" not in refused(restore(STUBBED, BRANCH, asked(), RecallBudget(1, LIMITS.tokens)))


def test_unknown_id_is_answered_only_with_similar_ids() -> None:
    told = refused(restore(STUBBED, BRANCH, asked("abc2346"), UNUSED))
    assert "Did you mean #abc2345?" in told
    assert "#abc2345" not in refused(restore(STUBBED, BRANCH, asked("zzzzzzz"), UNUSED))
    assert "#abc2345" in refused(restore(STUBBED, BRANCH, asked("ABC2345"), UNUSED))


def test_nothing_is_revealed_about_another_branch() -> None:
    state = remembered(created("abc2345", branch="agent"), before=remembered(created("xyz9876")))
    for wanted in ("abc2345", "abc2346"):
        told = refused(restore(state, BRANCH, asked(wanted), UNUSED))
        assert told.startswith(f"There is no object #{wanted} in this conversation. Find ids")
    assert not try_release(state, "abc2345").released


def test_a_derived_object_names_its_parts_instead() -> None:
    derived = created(
        "der7777",
        kind=ObjectKind.DEBUGGING_SESSION,
        role=Role.DERIVED,
        places=(),
        links=(Link(LinkRelation.PARENT_OF, "abc2345"),),
    )
    told = refused(restore(remembered(derived, before=STUBBED), BRANCH, asked("der7777"), UNUSED))
    assert "#abc2345" in told


STATES = st.builds(
    lambda renditions, after, tokens: remembered(
        created("abc2345", tokens=tokens),
        *[summarized("abc2345", fidelity, size) for fidelity, size in renditions.items()],
        *([degraded("abc2345", after)] if after else []),
    ),
    st.dictionaries(st.sampled_from([Fidelity.DETAILED, Fidelity.COMPACT]), st.integers(0, 3_000)),
    st.sampled_from(Fidelity),
    st.integers(0, 12_000),
)


@given(
    STATES,
    st.sampled_from([Fidelity.FULL, Fidelity.DETAILED, Fidelity.COMPACT]),
    st.builds(RecallBudget, st.integers(0, 4), st.integers(0, 9_000)),
    st.builds(FaultLimits, st.integers(0, 5), st.integers(0, 9_000)),
)
def test_every_restore_is_legal_available_and_within_the_limits(
    state: Memory, target: Fidelity, budget: RecallBudget, limits: FaultLimits
) -> None:
    budget = attrs.evolve(budget, limits=limits)
    found = restore(state, BRANCH, asked(target=target), budget)
    if isinstance(found, GrantedRestore):
        after = budget.after(found.tokens)
        assert after.faults <= limits.faults
        assert after.tokens <= max(limits.tokens, budget.tokens)
        assert found.after <= target
        assert found.object.tokens_at(found.after) == found.tokens
        assert is_legal(found.before, found.after, Cause.FAULT)


# Questions


def test_answer_gets_the_remaining_tokens_of_the_turn() -> None:
    question = MemoryQuery("why?", None, 200)
    assert answer_tokens(question, UNUSED) == 200
    assert answer_tokens(question, RecallBudget(1, LIMITS.tokens - 150)) == 150
    assert "may be" in refused(answer_tokens(question, RecallBudget(LIMITS.faults, 0)))
    assert "8,182 tokens" in refused(answer_tokens(question, RecallBudget(1, LIMITS.tokens - 10)))
    assert refused(answer_tokens(question, RecallBudget(1, 700).within(0))).startswith("700 tokens were brought back")


def test_answer_is_one_micro_fault_of_each_quoted_object_not_shown() -> None:
    state = remembered(created("full234", 5), created("oth2345", branch="agent"), before=STUBBED)
    eviction_turns = EvictionTurns().after(degraded("abc2345", Fidelity.STUB, turn=10), state)
    cited = [("abc2345", 30), ("full234", 40), ("oth2345", 9), ("gone234", 1), ("abc2345", 20)]
    (fault,) = answer(state, BRANCH, MemoryQuery("why?", None, 200), cited, eviction_turns, at=1, turn=20, latency=9)
    assert fault == ObjectFaulted(
        at=1,
        object="abc2345",
        branch=BRANCH,
        turn=20,
        kind=FaultKind.MICRO,
        reason="why?",
        distance=10,
        tokens=50,
        avoided_tokens=950,
        latency=9,
        why=FaultReason.REFERENCE,
    )
    after = remembered(fault, before=state)
    assert after.view_of(BRANCH).fidelity_of("abc2345") is Fidelity.STUB


# Release


def test_release_records_its_reason_and_leaves_the_window_unchanged() -> None:
    state = remembered(created("abc2345"), created("def2345", 3))
    found = try_release(state, "abc2345", "def2345")
    events = found.events(state, at=1, branch=BRANCH, turn=20)
    assert events == tuple(
        ObjectReleased(at=1, object=each, branch=BRANCH, turn=20, reason="done") for each in ("abc2345", "def2345")
    )
    assert not found.kept
    after = reduce(memory.evolve, events, state)
    assert after.view_of(BRANCH) == attrs.evolve(state.view_of(BRANCH), released=frozenset({"abc2345", "def2345"}))
    assert next(after.standings(BRANCH))[0].released


PINNED = ObjectPinned(at=0, object="abc2345", reason="by hand", until_turn=None)
RELEASED = ObjectReleased(at=1, object="abc2345", branch=BRANCH, turn=20, reason="done")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (remembered(created("abc2345", 34)), "recent rounds"),
        (remembered(created("abc2345", 38)), "recent rounds"),
        (remembered(created("abc2345", 30)), "user's last messages"),
        (remembered(created("abc2345"), PINNED), "pinned"),
        (remembered(created("abc2345"), RELEASED), "released before"),
    ],
)
def test_recent_pinned_or_released_object_is_not_released(state: Memory, reason: str) -> None:
    found = try_release(state, "abc2345")
    assert not found.released
    assert reason in found.kept[0][1]


def test_recently_restored_object_may_be_released() -> None:
    events = granted(restore(STUBBED, BRANCH, asked(), UNUSED)).events(
        STUBBED, at=0, branch=BRANCH, turn=19, left=9, latency=0
    )
    assert try_release(remembered(*events, before=STUBBED), "abc2345").released


def test_each_id_of_a_release_is_decided_separately() -> None:
    found = try_release(
        remembered(created("def2345", 5), created("new2345", 38), before=STUBBED),
        "nope",
        "new2345",
        "def2345",
        "abc2345",
    )
    assert [each.id for each in found.released] == ["def2345"]
    assert [object_id for object_id, _ in found.kept] == ["nope", "new2345", "abc2345"]
    assert "stands at L3 already" in found.kept[2][1]


# The definition of a paged tool

OF_TOOLS = {"Read": '{"name":"Read"}' + " " * 3_000, "mcp__atlas__turn_page": "{}" + " " * 12_000}


def test_definition_uses_tokens_of_the_turn_but_no_fault() -> None:
    found = definition(OF_TOOLS, MemoryTool("Read"), RecallBudget(LIMITS.faults, 7_000))
    assert found == Definition("Read", OF_TOOLS["Read"], 1_005)
    told = refused(definition(OF_TOOLS, MemoryTool("Read"), RecallBudget(0, 7_500)))
    assert "about 1,005 tokens" in told
    assert "no more than 692" in told


def test_definition_exists_only_for_a_tool_of_the_client() -> None:
    for asked_for in ("read", "mcp__atlas__turnpage"):
        assert "Did you mean" in refused(definition(OF_TOOLS, MemoryTool(asked_for), UNUSED))
    assert "There are Read, mcp__atlas__turn_page." in refused(definition(OF_TOOLS, MemoryTool("zebra"), UNUSED))
    assert "in full" in refused(definition({}, MemoryTool("Read"), UNUSED))


def test_reference_is_restored_as_its_target_or_refused_without_one() -> None:
    file = created("abc2345")
    reference = created("abd2345", 3, source_key=None, tags=(UNCHANGED, "whole"), links=())
    linked = attrs.evolve(reference, links=(Link(LinkRelation.REFERENCES, file.object),))
    gone = (degraded("abc2345", Fidelity.EVICTED), degraded("abd2345", Fidelity.EVICTED))
    asked_for = asked(object_id="abd2345")
    assert granted(restore(remembered(file, linked, *gone), BRANCH, asked_for, UNUSED)).object.id == "abc2345"
    for state in (remembered(file, reference, *gone), remembered(linked, gone[1]), remembered(reference)):
        assert "is not on record" in refused(restore(state, BRANCH, asked_for, UNUSED))

"""Placing each request of a session on a branch."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    GapRecorded,
    SessionForgotten,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
    TurnRelation,
)
from mnemosyne.domain.session.state import Session, evolve_all
from mnemosyne.domain.wire.identity import RequestKind
from mnemosyne.domain.wire.normal_form import Echo
from tests.domain.stories import Story, address, opened, origin, place
from tests.profiles import examples

COMPACTION = origin(kind=RequestKind.COMPACTION)
SUCCESSOR = origin(kind=RequestKind.SUCCESSOR)
ANOTHER = origin(name="another")
SIDE = origin(kind=RequestKind.SIDE)
OTHER_DIALECT = b'{"messages":[{"role":"tool","content":"x"}]}'


def build_story(*histories: str) -> Story:
    """A session with these requests, each given as the texts of its messages."""
    story = Story()
    for history in histories:
        story.begin(history)
    return story


def places(story: Story) -> list[str]:
    return [place(event) for event in story.events if isinstance(event, TurnBegan)]


def test_a_longer_history_continues_and_records_only_new_messages() -> None:
    story = build_story("u1")
    began = story.begin("u1 a1 u2", echo=Echo.SAME, echoed_attempt=1)
    assert (place(began), began.relation) == ("main 2", TurnRelation.CONTINUES)
    assert (began.kept, len(began.chains), began.echo, began.echoed_attempt) == (1, 2, Echo.SAME, 1)
    assert story.state.branches["main"].counts == (1, 3)


def test_a_repeated_request_is_another_attempt() -> None:
    story = build_story("u1", "u1 a1 u2")
    began = story.begin("u1 a1 u2")
    assert (place(began), began.relation, began.chains) == ("main 2.2", TurnRelation.REPEATS, ())
    assert place(story.begin("u1 a1 u2")) == "main 2.3"


def test_a_repeated_earlier_turn_does_not_change_the_branchs_history() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 u2 a2 u3")
    before = story.state.branches["main"]
    assert place(story.begin("u1")) == "main 1.2"
    after = story.state.branches["main"]
    assert after == attrs.evolve(before, attempts=(2, 1, 1), exchanges=after.exchanges)
    assert place(story.begin("u1 a1 u2 a2 u3 a3 u4")) == "main 4"


def test_a_diverging_history_forks_after_the_last_shared_turn() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 u2 a2 u3", "u1 a1 u2 a2 v3")
    fork = opened(story, "fork-1")
    assert (fork.kind, fork.parent, fork.forked_at, fork.inherits, fork.kept) == (BranchKind.FORK, "main", 2, True, 4)
    assert places(story)[-1] == "fork-1 3"
    assert place(story.begin("u1 a1 u2 a2 v3 b3 v4")) == "fork-1 4"
    assert place(story.begin("u1 a1 u2 a2 u3 a3 u4")) == "main 4"


def test_a_turn_that_a_fork_shares_with_its_parent_is_repeated_on_the_parent() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 v2", "u1 a1 v2 b2 v3")
    assert place(story.begin("u1")) == "main 1.2"
    assert place(story.begin("u1")) == "main 1.3"
    assert place(story.begin("u1 a1 v2")) == "fork-1 2.2"


def test_a_fork_of_a_fork_has_the_owner_of_its_last_shared_turn_as_parent() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 v2", "u1 a1 v2 b2 v3", "u1 a1 v2 b2 w3")
    assert (opened(story, "fork-2").parent, opened(story, "fork-2").forked_at) == ("fork-1", 2)
    assert places(story)[-1] == "fork-2 3"
    # The history shares more with the fork than with main, but no turn of the fork's own: so it forks main.
    story = build_story("u1", "u1 a1 u2 a2 u3", "u1 a1 v2 b2 v3", "u1 a1 v2 b2 w3")
    fork = opened(story, "fork-2")
    assert (fork.parent, fork.forked_at, fork.kept) == ("main", 1, 2)


def test_a_client_that_continues_under_another_name_forks_at_the_end_of_the_branch() -> None:
    story = build_story("u1", "u1 a1 u2")
    assert place(story.begin("u1 a1 u2 a2 v3", who=ANOTHER)) == "fork-1 3"
    fork = opened(story, "fork-1")
    assert (fork.kind, fork.parent, fork.forked_at, fork.inherits, fork.kept) == (BranchKind.FORK, "main", 2, True, 3)
    assert place(story.begin("u1 a1 u2 a2 v3 b3 v4", who=ANOTHER)) == "fork-1 4"
    assert place(story.begin("u1 a1 u2 a2 u3")) == "main 3"
    assert place(story.begin("u1 a1 u2 a2 v3 b3 v4 b4 w5", who=origin(name="third"))) == "fork-2 5"
    assert opened(story, "fork-2").parent == "fork-1"
    assert place(story.begin("u1 a1 u2 a2 v3 b3 v4 b4 v5", who=ANOTHER)) == "fork-1 5"


def test_a_request_that_ends_within_a_turn_is_a_fork() -> None:
    story = build_story("u1", "u1 a1 u2 a2 u3")
    began = story.begin("u1 a1 u2")
    assert (place(began), began.kept, began.chains) == ("fork-1 2", 3, ())
    assert place(story.begin("u1 a1 u2")) == "fork-1 2.2"


@pytest.mark.parametrize("echo", [Echo.TRIMMED, Echo.REWRITTEN])
def test_a_reply_that_was_cut_short_or_rewritten_does_not_fork(echo: Echo) -> None:
    began = build_story("u1").begin("u1 a u2", echo=echo, echoed_attempt=1)
    assert (place(began), began.echo) == ("main 2", echo)


def test_simultaneous_attempts_count_as_two_and_the_echoed_one_is_recorded() -> None:
    story = build_story("u1", "u1")
    assert story.state.running == {Address("main", 1, 1), Address("main", 1, 2)}
    began = story.begin("u1 a1 u2", echo=Echo.SAME, echoed_attempt=2)
    assert (place(began), began.echoed_attempt) == ("main 2", 2)


def test_a_sub_agent_has_a_branch_of_its_own_on_the_main_agents() -> None:
    story = build_story("u1", "u1 a1 u2")
    assert place(story.begin("do", who=origin(agent="x"))) == "agent-1 1"
    assert place(story.begin("do ok go", who=origin(agent="x"))) == "agent-1 2"
    assert place(story.begin("do", who=origin(agent="y"))) == "agent-2 1"
    branch = opened(story, "agent-1")
    assert (branch.kind, branch.parent, branch.forked_at, branch.inherits) == (BranchKind.AGENT, "main", 2, False)
    assert place(story.begin("u1 a1 u2 a2 u3")) == "main 3"


@pytest.mark.parametrize("names", ["agent", "session"])
def test_a_nested_sub_agent_has_its_calling_agent_as_parent(names: str) -> None:
    story = build_story("u1")
    story.begin("do", who=origin(agent="x", called_by_session="root"))
    story.begin("do", who=origin(agent="z", called_by_session="root"))
    nested = origin(agent="y", called_by="x") if names == "agent" else origin(agent="y", called_by_session="x")
    story.begin("more", who=nested)
    assert opened(story, "agent-3").parent == "agent-1"


def test_a_sub_agents_request_that_equals_another_agents_is_a_turn_of_its_own() -> None:
    story = build_story("u1", "u1 a1 u2")
    x, y = (attrs.evolve(origin(agent=agent), conversation="main") for agent in "xy")  # forks are in their parent's
    assert place(story.begin("u1 a1 u2", who=x)) == "fork-1 2"
    fork = opened(story, "fork-1")
    assert (fork.parent, fork.forked_at, fork.kept, fork.agent_id) == ("main", 1, 3, "x")
    assert place(story.begin("u1 a1 u2", who=y)) == "fork-2 2"
    assert opened(story, "fork-2").parent == "main"
    assert place(story.begin("u1 a1 u2")) == "main 2.2"
    assert [place(story.begin("u1 a1 u2", who=who)) for who in (x, y)] == ["fork-1 2.2", "fork-2 2.2"]
    assert [place(story.begin("u1 a1 u2 a2 u3", who=who)) for who in (origin(), x)] == ["main 3", "fork-1 3"]
    assert [place(story.begin("u1 a1 u2", who=who)) for who in (origin(), x)] == ["main 2.3", "fork-1 2.3"]


def test_side_calls_and_rewinds_of_a_sub_agent_belong_to_it() -> None:
    story = build_story("u1")
    story.begin("do a go", who=origin(agent="x"))
    story.begin("do a no", who=origin(agent="x"))
    story.begin("title", who=origin(agent="x", kind=RequestKind.TITLE))
    assert (opened(story, "fork-1").parent, opened(story, "fork-1").agent_id) == ("agent-1", "x")
    assert opened(story, "side-1").parent == "fork-1"


def test_each_side_call_is_a_branch_below_the_most_recent_window() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 v2", "u1 a1 u2 a2 u3")
    assert place(story.begin("title x y", who=SIDE)) == "side-1 1"
    assert place(story.begin("title x z", who=SIDE)) == "side-2 1"
    assert place(story.begin("title x y", who=SIDE)) == "side-1 1.2"
    assert opened(story, "side-1").parent == opened(story, "side-2").parent == "main"
    assert opened(story, "side-1").forked_at == 3
    assert not opened(story, "side-2").inherits


def test_a_conversation_without_tools_continues_and_has_no_parent() -> None:
    story = Story()
    story.begin("hello", who=SIDE)
    assert opened(story, "side-1").parent is None
    assert place(story.begin("hello hi more", who=SIDE)) == "side-1 2"


def test_claude_codes_compaction_is_a_leaf_of_the_turn_whose_last_message_it_amends() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 u2 a2 u3")
    assert place(story.begin("u1 a1 u2 a2 u3+compact", who=COMPACTION)) == "compaction-1 3"
    leaf = opened(story, "compaction-1")
    assert (leaf.kind, leaf.parent, leaf.forked_at, leaf.kept) == (BranchKind.COMPACTION, "main", 2, 4)
    assert place(story.begin("u1 a1 u2 a2 u3+compact", who=COMPACTION)) == "compaction-1 3.2"
    assert place(story.begin("u1 a1 u2 a2 u3+again", who=COMPACTION)) == "compaction-2 3"
    assert place(story.begin("u1 a1 u2 a2 u3+compact a u4")) == "fork-1 3"
    assert place(story.begin("u1 a1 u2 a2 u3 a3 u4")) == "main 4"
    assert place(story.begin("u1 a1 u2 a2 u3 a3 u4 a4 compact", who=COMPACTION)) == "compaction-3 5"


def test_the_successor_of_a_compaction_has_the_compacted_window_as_parent() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 v2")
    story.begin("u1 a1 v2 b2 compact", who=COMPACTION)
    assert place(story.begin("summary b2 v3", who=SUCCESSOR)) == "successor-1 1"
    assert (opened(story, "successor-1").parent, opened(story, "successor-1").inherits) == ("fork-1", False)
    assert place(story.begin("summary b2 v3 b3 v4", who=SUCCESSOR)) == "successor-1 2"
    story.begin("summary b2 v3 b3 compact", who=COMPACTION)
    story.begin("summary-2", who=SUCCESSOR)
    assert opened(story, "successor-2").parent == "successor-1"


def test_a_summary_after_messages_of_the_previous_window_begins_a_window_and_no_fork() -> None:
    """Codex 0.169.0 does so: it repeats the user's messages, then adds the summary."""
    story = build_story("u1")
    story.begin("u1 a1 compact", who=COMPACTION)
    assert place(story.begin("u1 summary", who=SUCCESSOR)) == "successor-1 1"
    assert (opened(story, "successor-1").parent, opened(story, "successor-1").inherits) == ("main", False)
    assert place(story.begin("u1 summary b1 u2", who=SUCCESSOR)) == "successor-1 2"
    assert place(story.begin("u1 summary b1 v2", who=SUCCESSOR)) == "fork-1 2"
    assert place(story.begin("u1 summary b1 v2 c2 u3", who=SUCCESSOR)) == "fork-1 3"
    assert place(story.begin("u1 summary b1 v2 d2 u3", who=SUCCESSOR)) == "fork-2 3"
    assert place(story.begin("u1 summary-2", who=SUCCESSOR)) == "successor-2 1"


def test_a_successor_gets_no_parent_that_its_caller_has_not_proven_to_know() -> None:
    story = build_story("u1", "u1 a1 u2", "u1 a1 v2")
    assert place(story.begin("summary v3", who=SUCCESSOR, known=frozenset())) == "successor-1 1"
    assert opened(story, "successor-1").parent is None
    story.begin("another-summary v3", who=SUCCESSOR, known=frozenset({"main"}))
    assert opened(story, "successor-2").parent == "main"  # not the most recent window, which belongs to others


def test_opencodes_compaction_has_the_window_as_parent_without_shared_messages() -> None:
    story = build_story("u1", "u1 a1 u2")
    assert place(story.begin("conversation…", who=COMPACTION)) == "compaction-1 1"
    assert (opened(story, "compaction-1").parent, opened(story, "compaction-1").forked_at) == ("main", 2)
    story.begin("what-did-we-do? summary u3", who=SUCCESSOR)
    story.begin("what-did-we-do? another-summary u4", who=SUCCESSOR)
    assert opened(story, "successor-1").parent == "main"
    assert (opened(story, "successor-2").parent, opened(story, "successor-2").kept) == ("successor-1", 0)


def test_a_history_that_shares_nothing_is_another_main_branch() -> None:
    story = build_story("u1", "v1")
    assert places(story) == ["main 1", "main-2 1"]
    assert opened(story, "main-2").parent is None


def test_requests_without_a_history_follow_each_other_on_one_branch_for_each_conversation() -> None:
    story = Story()
    for raw in (OTHER_DIALECT, b"not json", OTHER_DIALECT, b'{"messages":[]}'):
        story.begin(raw=raw)
    story.begin(raw=OTHER_DIALECT, who=SIDE)
    story.begin(raw=OTHER_DIALECT, who=origin(agent="x"))
    assert places(story) == ["opaque-1 1", "opaque-1 2", "opaque-1 3", "opaque-1 4", "opaque-2 1", "opaque-3 1"]
    assert place(story.begin("u1")) == "main 1"
    assert [opened(story, name).parent for name in ("opaque-1", "opaque-2", "opaque-3")] == [
        None,
        "opaque-1",
        "opaque-1",
    ]


def test_a_turn_ends_once() -> None:
    story = build_story("u1", "u1")
    first, second = Address("main", 1, 1), Address("main", 1, 2)
    assert [type(event) for event in story.finish(first)] == [TurnFinished]
    assert story.finish(first) == story.interrupt(first) == ()
    assert [type(event) for event in story.interrupt(second)] == [TurnInterrupted]
    assert story.finish(second) == ()
    assert story.finish(Address("main", 2, 1)) == story.interrupt(Address("nowhere", 1, 1)) == ()
    assert story.state.running == frozenset()


def test_a_gap_is_recorded_after_the_session_start_and_before_its_turn() -> None:
    story = Story()
    story.begin("u1", gap=Gap(since=5, turns=3, reason="the database was away"))
    assert [type(event) for event in story.events] == [SessionStarted, GapRecorded, BranchOpened, TurnBegan]
    gap = story.events[1]
    assert isinstance(gap, GapRecorded)
    assert (gap.since, gap.turns, gap.reason) == (5, 3, "the database was away")


def test_after_forgetting_the_session_continues_with_a_full_body() -> None:
    assert Story().forget() == ()
    story = build_story("u1")
    assert story.forget() == (SessionForgotten(at=1),)
    began = story.begin("u1 a1 u2")
    assert (place(began), began.base) == ("main 2", 0)


steps = st.tuples(
    st.sampled_from(["begin"] * 8 + ["finish", "interrupt", "forget", "opaque"]),
    st.integers(0, 30),
    st.integers(0, 9),
    st.lists(st.sampled_from(["x", "y", "z", "long" * 70, "longer" * 50]), max_size=3),
    st.sampled_from(
        [origin()] * 5 + [origin(agent="x"), origin(agent="y", called_by="x"), COMPACTION, SUCCESSOR, SIDE]
    ),
)


@examples(150)
@given(st.lists(steps, min_size=3, max_size=24))
def test_any_sequence_of_requests_is_placed_and_rebuilt(asked: list[Any]) -> None:
    story = Story()
    histories: list[list[str]] = [["u1"]]
    seen: dict[tuple[str, int], int] = {}
    for what, pick, cut, more, who in asked:
        match what:
            case "begin" | "opaque":
                history = [*histories[pick % len(histories)][: cut + 1], *more]
                histories.append(history)
                began = story.begin(" ".join(history), who=who, raw=OTHER_DIALECT if what == "opaque" else None)
                _check_count(story, began, seen)
            case "forget":
                story.forget()
            case _ if story.state.running:
                running = sorted(story.state.running)[pick % len(story.state.running)]
                assert len(story.finish(running) if what == "finish" else story.interrupt(running)) == 1
    for running in sorted(story.state.running):
        story.finish(running)
    assert story.state.running == frozenset()
    assert evolve_all(Session(), story.events) == story.state


def _check_count(story: Story, began: TurnBegan, seen: dict[tuple[str, int], int]) -> None:
    """Turns of a branch continue the inherited count, and attempts at a turn count from 1."""
    key = began.branch, began.turn
    branch = opened(story, began.branch)
    first = branch.forked_at + 1 if branch.inherits else 1
    assert began.turn == first or (began.branch, began.turn - 1) in seen
    assert began.attempt == seen.get(key, 0) + 1
    assert address(began) in story.state.running
    seen[key] = began.attempt

"""When a request may begin an epoch; its rendering matches its events, and a pin that forbids it delays it."""

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs
import pytest

from mnemosyne.domain.cost.tokens import Features
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import ObjectDegraded, ObjectPinned, ObjectRestored
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.ledger import Account, Ledger
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.tools.memory_tools import QUERY
from mnemosyne.domain.window import epochs
from mnemosyne.domain.window.epochs import Decision, Forms, Rewritten, may_begin, may_drop_thinking
from mnemosyne.domain.window.situation import PendingRequest, Sizes, candidates_of
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.transcript import Transcript
from tests.domain.recorded import dumps
from tests.domain.remembered import BRANCH, created, degraded, remembered, summarized
from tests.domain.stories import pending

CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "src/a.py"}}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Read it."},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a line of code\n" * 300}]},
    {"role": "assistant", "content": [{"type": "text", "text": "It is read."}]},
    {"role": "user", "content": "Go on."},
]
READ = transcript.read(json.dumps({"model": "claude-opus-4-5", "max_tokens": 9, "messages": TALK}).encode())
ASKED = pending(READ.transcript, 20)
HISTORY = ASKED.history

MAIN = Branch(
    name=BRANCH, kind=BranchKind.MAIN, conversation="main", parent=None, forked_at=0, inherits=False, agent_id=None
)
PIN = ObjectPinned(at=0, object="abc2345", reason="by hand", until_turn=None)
DETAILED = remembered(
    created("abc2345"), summarized("abc2345", Fidelity.DETAILED, 9), degraded("abc2345", Fidelity.DETAILED)
)


def rewritten(state: Memory, texts: dict[str, str], **fidelities: Fidelity) -> Rewritten | None:
    decision = Decision(fidelities=fidelities, reason="r", cause=Cause.ECONOMY)
    return epochs.rewrite(decision, ASKED, Session(memory=state, branches={BRANCH: MAIN}), Forms(texts), Sizes())


def done(found: Rewritten | None) -> tuple[str, list[ObjectDegraded]]:
    """The upstream messages, and the degraded objects."""
    assert found is not None
    began, *changes = found.events
    assert isinstance(began, EpochBegan)
    steps = [each for each in changes if isinstance(each, ObjectDegraded)]
    assert len(steps) == len(changes)
    return b"".join(found.history.messages).decode(), steps


def step(object_id: str, before: Fidelity, after: Fidelity) -> ObjectDegraded:
    return ObjectDegraded(
        at=7, object=object_id, branch=BRANCH, turn=20, before=before, after=after, cause=Cause.ECONOMY
    )


def test_object_size_uses_the_counted_growth_of_its_turn_or_the_scale_of_the_last_prompt() -> None:
    """In its turn 2,000 tokens were counted for 1,000 estimated ones, and 1,000 in all other turns."""
    sizes = {}
    for born, grown in (("with its turn", {1: Fraction(2)}), ("else", {2: Fraction(2)})):
        account = Account(counted=9_000, estimated=9_000, grown=grown)
        session = Session(
            memory=remembered(created("abc2345")), branches={BRANCH: MAIN}, ledger=Ledger(accounts={BRANCH: account})
        )
        (found,) = candidates_of(ASKED, session, Sizes())
        sizes[born] = found.tokens
    assert sizes["with its turn"][0] == pytest.approx(2 * sizes["else"][0], abs=1)
    assert sizes["with its turn"][1:] == sizes["else"][1:], "what is rendered anew came with no turn"


def test_planned_fidelities_are_rendered_and_recorded() -> None:
    sent, steps = done(rewritten(remembered(created("abc2345")), {}, abc2345=Fidelity.STUB))
    assert "a line of code" not in sent
    assert "[#abc2345 left]" in sent
    assert steps == [step("abc2345", Fidelity.FULL, Fidelity.STUB)]


def test_missing_rendition_is_shown_and_recorded_as_a_stub() -> None:
    sent, steps = done(rewritten(DETAILED, {"abc2345": "All in short."}))
    assert "All in short." in sent
    assert steps == []
    sent, steps = done(rewritten(DETAILED, {}))
    assert "[#abc2345 left]" in sent
    assert steps == [step("abc2345", Fidelity.DETAILED, Fidelity.STUB)]


def test_epoch_is_delayed_rather_than_degrade_a_pinned_object() -> None:
    pinned = remembered(PIN, before=DETAILED)
    sent, steps = done(rewritten(pinned, {"abc2345": "All in short."}))
    assert "All in short." in sent
    assert steps == []
    assert rewritten(pinned, {}) is None
    assert rewritten(pinned, {"abc2345": "All in short."}, abc2345=Fidelity.EVICTED) is None


def test_object_restored_from_an_earlier_window_is_evicted_with_its_answer() -> None:
    gone = attrs.evolve(created("old2345"), branch="main-0")
    state = memory.succeed(remembered(gone), BRANCH, "main-0")
    back = ObjectRestored(
        at=0, object="old2345", branch=BRANCH, turn=15, before=Fidelity.EVICTED, after=Fidelity.FULL, cause=Cause.FAULT
    )
    state = remembered(back, attrs.evolve(PIN, object="old2345"), before=state)
    _, steps = done(rewritten(state, {}))
    assert steps == [step("old2345", Fidelity.FULL, Fidelity.EVICTED)]


def test_operator_text_degraded_by_an_earlier_version_is_restored() -> None:
    of_operator = attrs.evolve(created("abc2345"), tags=("reminder", "system"))
    state = remembered(of_operator, degraded("abc2345", Fidelity.STUB))
    sent, steps = done(rewritten(state, {}, abc2345=Fidelity.EVICTED))
    assert "a line of code" in sent
    assert "#abc2345" not in sent
    assert steps == []


# When an epoch may begin

PROMPT = {"role": "user", "content": "fix it"}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]}
ANSWERED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]}
MANUAL = {"type": "enabled", "budget_tokens": 1_024}


def request(*messages: dict[str, Any], **members: Any) -> Transcript:
    return transcript.read(dumps({"model": "m", "messages": list(messages), **members})).transcript


def asked(of: Transcript, *last: dict[str, Any]) -> PendingRequest:
    """A request after a turn whose last round contained ``last``."""
    history = UpstreamHistory(messages=(), ends=(), dialect=MESSAGES)
    if last:
        history = UpstreamHistory(
            messages=(), ends=(), replies={1: (Round(content=last, results={}),)}, dialect=MESSAGES
        )
    return attrs.evolve(ASKED, turn=2, read=of, before=history, history=history)


@pytest.mark.parametrize(
    ("thinking", "messages", "may"),
    [
        (MANUAL, (PROMPT, CALLED, ANSWERED), False),
        (MANUAL, (PROMPT,), True),
        ({"type": "adaptive"}, (PROMPT, CALLED, ANSWERED), True),
        (None, (PROMPT, CALLED, ANSWERED), True),
    ],
)
def test_manual_thinking_stays_inside_a_tool_loop(
    thinking: dict[str, Any] | None, messages: tuple[dict[str, Any], ...], may: bool
) -> None:
    assert may_drop_thinking(request(*messages, **({"thinking": thinking} if thinking else {}))) == may


def test_epoch_requires_a_final_user_message_and_answered_calls() -> None:
    assert may_begin(asked(request(PROMPT, CALLED, ANSWERED)))
    assert not may_begin(asked(request(PROMPT, CALLED)))
    assert not may_begin(asked(request(PROMPT, CALLED, PROMPT)))


def test_epoch_waits_for_the_result_of_a_hidden_call() -> None:
    hidden = {"type": "tool_use", "id": "h", "name": QUERY, "input": {}}
    assert not may_begin(asked(request(PROMPT), hidden))
    assert may_begin(asked(request(PROMPT), {"type": "text", "text": "done"}))


def test_size_of_a_continued_or_new_history_is_the_sum_of_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, messages = Sizes(), tuple(HISTORY.messages)
    for history in (messages[:2], messages, messages[:3], messages[2:], (), messages):
        assert sizes.history(history, MESSAGES) == Sizes().of(history, MESSAGES)
    looked: list[bytes] = []

    def count(new: Sequence[bytes], dialect: Dialect) -> Features:
        looked.extend(new)
        return Features()

    monkeypatch.setattr(sizes, "of", count)
    sizes.history((*messages, messages[0]), MESSAGES)
    assert looked == [messages[0]]


def reminder(text: str = "Use the tools for tasks.") -> dict[str, Any]:
    return {"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"}


def spoken(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


SAID = {"type": "text", "text": "I see."}


@pytest.mark.parametrize(
    ("messages", "repeated"),
    [
        ([spoken("user", reminder()), spoken("assistant", SAID), spoken("user", reminder())], []),
        ([spoken("assistant", SAID), spoken("user", reminder()), spoken("user", SAID, reminder())], [(1, 0)]),
        ([spoken("assistant", SAID), *[spoken("user", reminder(), reminder())] * 2], [(1, 0), (1, 1), (2, 0)]),
        ([spoken("assistant", SAID), spoken("user", reminder()), spoken("user", reminder("Something else."))], []),
        ([spoken("assistant", SAID), *[spoken("system", {"type": "text", "text": "Be brief."})] * 3], [(1, 0), (2, 0)]),
        ([spoken("assistant", SAID), *[spoken("user", {"type": "text", "text": "Go on."})] * 3], []),
        ([spoken("assistant", SAID), *[spoken("assistant", reminder())] * 3], []),
        (
            [
                spoken("assistant", SAID),
                *[spoken("user", {"type": "text", "text": "[Request interrupted by user]"})] * 2,
            ],
            [],
        ),
    ],
)
def test_only_reminders_repeated_later_with_equal_bytes_are_omitted(
    messages: list[dict[str, Any]], repeated: list[tuple[int, int]]
) -> None:
    found = epochs.find_repeated(messages)
    assert sorted((each.message, each.block) for each in found) == repeated

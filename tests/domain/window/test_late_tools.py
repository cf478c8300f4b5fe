"""Memory tools wait while they are too large a part of a conversation, and are added when that costs nothing."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from mnemosyne.domain.cost import tokens
from mnemosyne.domain.session.decide import SetMode
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS, Account, Ledger
from mnemosyne.domain.session.round_events import TOO_SMALL, Mode
from mnemosyne.domain.window import epochs, late_tools, situation, upstream_history
from mnemosyne.domain.window.planning import NoRewrite, price_of_rewrite
from mnemosyne.domain.window.rounds import Opening, choose_mode, mode_without_us
from mnemosyne.domain.window.situation import Sizes, situation_of
from mnemosyne.domain.window.window_size import WINDOW
from tests.domain.recorded import dumps
from tests.domain.stories import Story
from tests.not_none import not_none

SETTINGS = ServerSettings(window=WINDOW, manages_small=False)
TOOL = {"name": "Bash", "input_schema": {"type": "object"}}
MARK = {"cache_control": {"type": "ephemeral"}}
MINUTE = 60_000_000
WORDS = "the parser reads its table and says what it found there "


def body(*sizes: int, marked: bool = True, **members: Any) -> bytes:
    """A request of a conversation whose prompts have about so many tokens; all but the last one are answered."""
    messages: list[dict[str, Any]] = []
    for number, size in enumerate(sizes):
        block = {"type": "text", "text": f"{number} " + WORDS * (size // 10)}
        messages.append({"role": "user", "content": [block]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "ok"}]})
    del messages[-1]
    if marked:
        messages[-1]["content"][-1] |= MARK
    return dumps({"model": "claude-opus-4-5", "tools": [TOOL], "messages": messages, **members})


def opening(story: Story, raw: bytes, at: int, wanted: Mode | None = None) -> Opening:
    story.began = at - 1
    return story.open(raw, SETTINGS, at, wanted)


def waiting(*sizes: int, **options: Any) -> Story:
    """A session whose first request was too small."""
    story = Story()
    first = opening(story, body(*sizes, **options), MINUTE)
    mode, command = choose_mode(first)
    assert (mode, command) == (Mode.OBSERVE, _late(first))
    assert command is not None
    story.do(command)
    return story


def _late(first: Opening) -> SetMode:
    return SetMode(at=first.at, branch="main", mode=Mode.OBSERVE, why=TOO_SMALL, late=True)


@pytest.mark.parametrize("size", [100, 5_000, 13_000])
def test_first_request_is_observed_if_the_tools_exceed_two_percent(size: int) -> None:
    waiting(size)


def test_large_first_request_is_managed() -> None:
    first = opening(Story(), body(20_000), MINUTE)
    assert choose_mode(first) == choose_mode(attrs.evolve(first, settings=attrs.evolve(SETTINGS, manages_small=True)))
    small = opening(Story(), body(100), MINUTE)
    assert choose_mode(attrs.evolve(small, settings=attrs.evolve(SETTINGS, manages_small=True)))[0] is Mode.MANAGE


def test_small_first_request_waits_for_tools_even_if_the_client_could_not_wait() -> None:
    first = opening(Story(), body(100), MINUTE)
    assert mode_without_us(first) == _late(first)


def test_tools_are_added_only_after_the_cache_expired() -> None:
    for after, come in ((4 * MINUTE, False), (5 * MINUTE, True)):
        found = not_none(late_tools.find(opening(waiting(100), body(100, 20_000), MINUTE + after), Sizes()))
        assert found.are_free is come
        assert (found.command.mode, found.command.late) == (Mode.MANAGE, True)


@pytest.mark.parametrize("seconds", [1, 1_000])
def test_tools_keep_waiting_in_a_small_prompt_after_any_break(seconds: int) -> None:
    story = waiting(100)
    assert late_tools.find(opening(story, body(100, 5_000), (60 + seconds) * 1_000_000), Sizes()) is None


def test_tools_are_added_at_once_without_a_cache_or_for_another_model() -> None:
    unmarked = opening(waiting(100, marked=False), body(100, 20_000, marked=False), MINUTE + 1)
    same = opening(waiting(100), body(100, 20_000), MINUTE + 1)
    assert same.last is not None
    began = attrs.evolve(same.last, model="claude-sonnet-4-5")
    known = attrs.evolve(same.before.branches["main"], began=began)
    other = attrs.evolve(same, before=attrs.evolve(same.before, branches={"main": known}))
    for each in (unmarked, other):
        assert not_none(late_tools.find(each, Sizes())).are_free


def test_tools_are_not_added_if_managing_is_off_or_unwanted_or_thinking_must_stay() -> None:
    at = 10 * MINUTE
    ripe = opening(waiting(100), body(100, 20_000), at)
    assert late_tools.find(ripe, Sizes()) is not None
    for each in (
        attrs.evolve(ripe, wanted=Mode.OBSERVE),
        attrs.evolve(ripe, default=Mode.OBSERVE),
        attrs.evolve(ripe, session=attrs.evolve(ripe.session, switched=False)),
    ):
        assert late_tools.find(each, Sizes()) is None
    observed = Story()
    opening(observed, body(100), MINUTE, Mode.OBSERVE)
    assert late_tools.find(opening(observed, body(100, 20_000), at), Sizes()) is None


def test_fork_waits_for_tools_like_its_parent() -> None:
    story = waiting(100)
    opening(story, body(100, 200), 2 * MINUTE)
    fork = opening(story, body(100, 20_000), 10 * MINUTE)
    assert fork.opened is not None
    assert not_none(late_tools.find(fork, Sizes())).are_free


def test_history_continues_with_the_requests_of_the_client() -> None:
    ripe = opening(waiting(100), body(100, 20_000), 10 * MINUTE)
    found = not_none(late_tools.find(ripe, Sizes()))
    wire = not_none(found.session.branches["main"].wire)
    branch = ripe.session.branches["main"]
    assert (wire.epoch, wire.ends, wire.body_version, wire.at) == (0, (), branch.body_version, MINUTE)
    assert (found.asked.before.epoch, found.asked.history.epoch) == (0, 1)
    assert found.asked.history.messages[: len(found.asked.before.messages)] == found.asked.before.messages
    assert len(found.asked.before.messages) == 1


def test_adding_tools_rewrites_the_whole_prompt() -> None:
    ripe = opening(waiting(100), body(100, 20_000), 2 * MINUTE)
    found = not_none(late_tools.find(ripe, Sizes()))
    wire = not_none(found.session.branches["main"].wire)
    situation = situation_of(found.asked, found.session, wire, Sizes())
    assert situation.joining > 0
    held = situation.prompt - situation.new - situation.joining
    dearer = situation.write - situation.read
    assert price_of_rewrite(situation, (), {}) == held * dearer + situation.joining * situation.write
    managed = attrs.evolve(situation, joining=0)
    assert price_of_rewrite(managed, (), {}) == (situation.prompt - situation.fixed - situation.new) * dearer
    assert isinstance(epochs.consider(found.asked, found.session, Sizes()), NoRewrite)


@pytest.mark.parametrize(
    ("model", "since", "is_smaller"),
    [
        (None, 1, True),
        ("claude-opus-4-5", 1, True),
        # A prompt has a third more tokens of a newer model: after a switch to it, each client would seem to send less.
        ("claude-opus-4-8", 1, False),
        # The memory tools alone are more than 2 % of a small prompt.
        ("claude-opus-4-5", 0, False),
    ],
)
def test_the_client_sends_less_only_after_a_compaction_counted_by_the_same_model(
    model: str | None, since: int, is_smaller: bool
) -> None:
    found = not_none(late_tools.find(opening(waiting(100), body(100, 20_000), 10 * MINUTE), Sizes()))
    wire = not_none(found.session.branches["main"].wire)
    own = Account(turn=1, since=since, unmanaged=90, model=model)
    session = attrs.evolve(found.session, ledger=Ledger(accounts={"main": own}))
    situation = situation_of(found.asked, session, wire, Sizes())
    assert situation.unmanaged == (90 + situation.new if is_smaller else situation.prompt)


@pytest.mark.parametrize(("parent", "expected"), [(90, 90), (900_000, COMPACTED_TOKENS)])
def test_fork_of_a_compacted_client_counts_nothing_that_its_parent_added_later(parent: int, expected: int) -> None:
    found = not_none(late_tools.find(opening(waiting(100), body(100, 20_000), 10 * MINUTE), Sizes()))
    wire = not_none(found.session.branches["main"].wire)
    own = Account(since=len(found.asked.read.messages) - 1, unmanaged=parent, model="claude-opus-4-5")
    session = attrs.evolve(found.session, ledger=Ledger(accounts={"main": own}))
    situation = situation_of(found.asked, session, wire, Sizes())
    assert 0 <= situation.unmanaged - situation.new - expected <= 500


def test_joining_reads_and_weighs_each_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ripe = opening(waiting(100), body(100, 20_000), 10 * MINUTE)
    read, weighed, sizes = Counted(upstream_history.first), Counted(tokens.features_of_message), Sizes()
    monkeypatch.setattr(upstream_history, "first", read)
    monkeypatch.setattr(situation, "features_of_message", weighed)
    found = not_none(late_tools.find(ripe, sizes))
    wire = not_none(found.session.branches["main"].wire)
    situation_of(found.asked, found.session, wire, sizes)
    assert (read.calls, weighed.calls) == (1, len(found.asked.read.messages))


@attrs.define
class Counted:
    """A function whose calls are counted."""

    function: Callable[..., object]
    calls: int = 0

    def __call__(self, *given: object, **named: object) -> object:
        self.calls += 1
        return self.function(*given, **named)

"""Managed sessions against today's code: all that went upstream is decided again, and what shows when it is not so.

The stories go through the whole of a managing proxy. What was not known in time then is on record, so that the same is
not known now; a decision of which the log does not hold the grounds is skipped, and said to be.
"""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from typing import Any, cast

import attrs
import pytest
import trio

from mnemosyne.actors.epochs import Epochs
from mnemosyne.actors.tools import FromMemory
from mnemosyne.actors.turn import Turn
from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.ports import Append, Content
from mnemosyne.domain.session.decide import NoteFilled
from mnemosyne.domain.session.events import Event, TurnBegan, TurnFinished
from mnemosyne.domain.session.input_events import Awaited, GroundsNoted, SettingsTaken
from mnemosyne.domain.session.round_events import BranchModeSet, EpochBegan, FallbackSent, RoundBegan, RoundFinished
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import epochs
from mnemosyne.domain.window.epochs import Rewritten
from mnemosyne.domain.window.keeping import AGES, Age
from mnemosyne.domain.window.planning import RULE, Rule, plan_epoch
from mnemosyne.domain.window.situation import PendingRequest
from mnemosyne.domain.wire.limits import window_use
from mnemosyne.replay.deciding import OLD, REMOVED, Review, review
from mnemosyne.replay.running import MemoryArchive
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import PATIENT, StoppableLog, open_actor
from tests.golden.sessions import LOGS, opened
from tests.http.managing import Client, model_says, open_stage, recall, text, think
from tests.http.test_epochs import SMALL, Clock, client_of, reads
from tests.http.test_summarized_epochs import played, resume
from tests.http.test_switching import MODE, SlowToRead, disconnect_before_dispatch
from tests.replay import stories
from tests.services.talking import Plain, plain
from tests.tables import other_tables


async def reviewed(log: StoppableLog, **options: Any) -> Review:
    """The one session of a log, decided again."""
    (stream,) = await log.streams()
    return await review(MemoryArchive(log), str(stream), **options)


async def told_again(log: StoppableLog, change: Callable[[Event], Event]) -> Plain:
    """The session in another log, each event changed."""
    archive = plain()
    (stream,) = await log.streams()
    contents = tuple(Content(digest, data) for digest, data in log._contents[stream].items() if data is not None)
    envelopes = [each.envelope for each in await log.read(stream)]
    changed = tuple(attrs.evolve(envelope, event=change(envelope.event)) for envelope in envelopes)
    await archive.journal.append(Append(stream, 0, changed, contents))
    return archive


async def without(log: StoppableLog, **fields: Any) -> Review:
    """The session decided again without a part of what was noted."""

    def change(event: Event) -> Event:
        return attrs.evolve(event, **fields) if isinstance(event, GroundsNoted) else event

    return await told(await told_again(log, change))


async def noted(log: StoppableLog) -> list[GroundsNoted]:
    """What was noted of a session's decisions."""
    (stream,) = await log.streams()
    events = [each.envelope.event for each in await log.read(stream)]
    return [event for event in events if isinstance(event, GroundsNoted)]


async def told(archive: Plain) -> Review:
    (stream,) = await archive.log.streams()
    return await review(archive, str(stream))


def turn_of(event: Any) -> str:
    return f"{event.branch} {event.turn}"


async def check(log: StoppableLog) -> None:
    """It would be decided the same today, all of it."""
    found = await reviewed(log)
    assert (found.differences, found.skipped) == ([], [])
    (stream,) = await log.streams()
    kinds = [type(each.envelope.event) for each in await log.read(stream)]
    assert {SettingsTaken, EpochBegan, RoundBegan, RoundFinished} <= set(kinds)
    # Each turn, what is remembered of it, its end and its account; and each later round.
    assert found.decisions > 3 * kinds.count(TurnBegan)


@pytest.fixture(scope="module")
def story() -> StoppableLog:
    """A story in which memory is asked and brings, with an index."""
    return trio.run(partial(stories.play, 7, turns=20))


async def test_a_managed_session_is_decided_the_same_today(story: StoppableLog) -> None:
    await check(story)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
async def test_twenty_managed_sessions_are_decided_the_same_today(seed: int) -> None:
    await check(await stories.play(seed))


# Exactly what is otherwise


Begun = tuple[Rewritten | None, NoteFilled | None]

Begins = Callable[[Epochs, PendingRequest, Session], Awaitable[Begun]]


def foretold(monkeypatch: pytest.MonkeyPatch, otherwise: Callable[[Begins], Begins]) -> dict[str, bool]:
    """Whether each turn's epoch would be another one ``otherwise``, filled in while the session is played."""
    begins, changed = Epochs.begin_epoch, dict[str, bool]()

    async def both(self: Epochs, asked: PendingRequest, session: Session) -> Begun:
        found, filled = await begins(self, asked, session)
        other, overfilled = await otherwise(begins)(self, asked, session)
        changed[turn_of(asked)] = (found and found.events, filled) != (other and other.events, overfilled)
        return found, filled

    monkeypatch.setattr(Epochs, "begin_epoch", both)
    return changed


def ruled(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> Callable[[Begins], Begins]:
    """The planner by another rule, for as long as one epoch takes."""

    def otherwise(begins: Begins) -> Begins:
        async def begin(self: Epochs, asked: PendingRequest, session: Session) -> Begun:
            with monkeypatch.context() as patch:
                patch.setattr(epochs, "plan_epoch", partial(plan_epoch, rule=rule))
                return await begins(self, asked, session)

        return begin

    return otherwise


@pytest.mark.parametrize(
    "rule",
    [
        attrs.evolve(RULE, overflow=RULE.full),
        attrs.evolve(RULE, ages=attrs.evolve(AGES, answered=Age(4), whole=Age(40))),
    ],
    ids=["sooner", "older"],
)
async def test_under_another_rule_exactly_the_turns_are_named_that_it_changes(
    monkeypatch: pytest.MonkeyPatch, rule: Rule
) -> None:
    with monkeypatch.context() as patch:
        changed = foretold(patch, ruled(monkeypatch, rule))
        log = await stories.play(3, turns=24)
    monkeypatch.setattr(epochs, "plan_epoch", partial(plan_epoch, rule=rule))
    found = await reviewed(log)
    assert found.turns == [turn for turn, differs in changed.items() if differs]
    assert 0 < len(found.turns) < len(changed)
    assert found.skipped == []


async def test_in_another_window_exactly_the_turns_are_named_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    wider = 2 * SMALL

    def otherwise(begins: Begins) -> Begins:
        return lambda self, asked, session: begins(self, attrs.evolve(asked, window=wider), session)

    with monkeypatch.context() as patch:
        changed = foretold(patch, otherwise)
        async with open_stage(window=SMALL) as stage:
            await reads(client_of(stage), stage, {"content": []}, 14)
    found = await reviewed(stage.log, window=wider)
    assert found.turns == [turn for turn, differs in changed.items() if differs]
    assert 0 < len(found.turns) < len(changed)
    first = next(each for each in found.differences if each.event == EpochBegan.__name__)
    assert first.turn in found.turns
    assert (first.recorded, first.today) == ("decided: the window overflows", "not decided")
    assert (await reviewed(stage.log, window=SMALL)).turns == []


# What the log must hold for that


async def test_a_summary_that_came_too_late_does_so_again_and_its_turn_would_be_otherwise_if_it_had_come() -> None:
    clock = Clock()
    async with (
        open_stage(clock=clock, patience=attrs.evolve(PATIENT, summaries=0.0)) as stage,
    ):
        client, message = await played(stage)
        await resume(stage, client, message, clock)
    await check(stage.log)
    (late,) = await noted(stage.log)
    assert late.late == (Awaited.SUMMARIES,)
    assert (await without(stage.log, late=())).turns == [turn_of(late)]


async def test_a_turn_for_which_the_actor_planned_nothing_goes_on_as_it_was_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 3)
        with monkeypatch.context() as patch:
            patch.setattr(Turn, "_ask", _no_answer)
            message = await reads(client, stage, message, 4, first=3)
        await reads(client, stage, message, 2, first=7)
    assert not [event for event in await stage.events() if isinstance(event, FallbackSent)]
    await check(stage.log)
    late = [each for each in await noted(stage.log) if each.late]
    assert [turn_of(each) for each in late] == ["main 4", "main 5", "main 6", "main 7"]
    assert {wait for each in late for wait in each.late} == {Awaited.ACTOR}
    found = await without(stage.log, late=())
    assert set(found.turns) <= {turn_of(each) for each in late}
    assert EpochBegan.__name__ in {each.event for each in found.differences}


async def test_what_the_index_found_is_a_ground_without_which_turns_would_be_otherwise(story: StoppableLog) -> None:
    asked = {turn_of(each) for each in await noted(story) if each.found}
    found = await told(await told_again(story, _without_findings))
    assert set(found.turns) <= asked
    assert "RoundFinished" in {each.event for each in found.differences}


def _without_findings(event: Event) -> Event:
    if not isinstance(event, GroundsNoted):
        return event
    return attrs.evolve(event, found=tuple(attrs.evolve(each, passages=()) for each in event.found))


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (RoundBegan, "sha256", bytes(32)),
        pytest.param(EpochBegan, "freed", 1, marks=pytest.mark.soak),
        (BranchModeSet, "why", "somebody wished it"),
        pytest.param(RoundFinished, "stop_reason", "because", marks=pytest.mark.soak),
        pytest.param(TurnFinished, "usage", {"input_tokens": 1}, marks=pytest.mark.soak),
    ],
)
async def test_any_decision_that_was_another_one_is_shown_with_both_sides(
    story: StoppableLog, kind: type[Event], field: str, value: Any
) -> None:
    """The check can fail: each event is compared with what today's code makes of the same command."""
    seen: list[Event] = []

    def change(event: Event) -> Event:
        if isinstance(event, kind) and not seen:
            seen.append(event)
            return cast("Event", attrs.evolve(cast("Any", event), **{field: value}))
        return event

    found = await told(await told_again(story, change))
    own = [each for each in found.differences if (each.event, each.field) == (kind.__name__, field)]
    assert len(own) >= 1
    if kind is not BranchModeSet:
        assert own[0].turn == turn_of(seen[0])


# What is not decided again


async def test_a_request_that_left_without_its_actor_is_made_again_and_what_was_proposed_too_late_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 2)
        with monkeypatch.context() as patch:
            patch.setattr(Turn, "_ask", _no_answer)
            patch.setattr(Turn, "_continue_last", _no_answer)
            message = await reads(client, stage, message, 1, first=2)
        await reads(client, stage, message, 2, first=3)
    assert [event for event in await stage.events() if isinstance(event, FallbackSent)]
    found = await reviewed(stage.log)
    assert (found.differences, found.skipped) == ([], [])


async def test_a_request_whose_client_was_gone_before_it_left_decides_nothing_now() -> None:
    log = SlowToRead()
    async with open_stage({"reply": model_says(think("Hm."), text("Yes."))}, log=log) as stage:
        client = await disconnect_before_dispatch(stage, log)
        await client.send()
        await stage.events_until(TurnFinished)
    (gone,) = await noted(log)
    assert (turn_of(gone), gone.late) == ("main 1", (Awaited.LEAVING,))
    found = await reviewed(log)
    assert (found.differences, found.skipped) == ([], [])
    assert (await without(log, late=())).turns == ["main 1"]


async def _no_answer(_: Turn) -> None:
    return None


async def test_answers_that_came_too_late_are_what_the_model_was_told_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    late, answers = trio.Event(), FromMemory.answer

    async def slowly(*given: Any, **named: Any) -> Any:
        await late.wait()
        return await answers(*given, **named)

    loop = {"replies": [model_says(recall()), model_says(think(), text("Yes."))]}
    with monkeypatch.context() as patch:
        patch.setattr(FromMemory, "answer", slowly)
        async with open_stage(loop, patience=attrs.evolve(PATIENT, answers=0.1, database=0.1)) as stage:
            await Client(stage.url).turn(text("one"))
            late.set()
            await stage.events_until(TurnFinished)
    (each,) = await noted(stage.log)
    assert each.late == (Awaited.ANSWERS,)
    found = await reviewed(stage.log)
    assert (found.differences, found.skipped) == ([], [])


async def test_a_request_that_asked_for_another_mode_is_decided_with_that_wish() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 3)
        client.headers = {MODE: "off"}
        await reads(client, stage, message, 2, first=3)
    found = await reviewed(stage.log)
    assert (found.differences, found.skipped) == ([], [])
    assert (await without(stage.log, wanted=None)).turns == ["main 4", "main 5"]


@pytest.mark.parametrize("name", ["managed", "hidden-rounds", "bypassed"])
async def test_of_a_log_from_before_settings_were_recorded_it_is_said_what_cannot_be_decided_again(name: str) -> None:
    kept = opened(LOGS / name)
    (stream,) = await kept.log.streams()
    found = await review(kept, str(stream))
    assert found.differences == []
    assert all(OLD in each.why or REMOVED in each.why for each in found.skipped)
    began = [each for each in await kept.log.read(stream) if isinstance(each.envelope.event, TurnBegan)]
    assert len(found.skipped) > len(began)
    assert found.decisions > len(found.skipped)


# What is recorded


async def test_the_settings_are_recorded_once_and_again_where_a_server_has_others() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 2)
        async with open_stage(window=2 * SMALL, strict=True, log=stage.log, standin=stage.standin) as again:
            client.url = again.url
            await reads(client, again, message, 2, first=2)
    taken = [event for event in await stage.events() if isinstance(event, SettingsTaken)]
    assert [(each.window, each.strict) for each in taken] == [(SMALL, False), (2 * SMALL, True)]
    assert (await reviewed(stage.log)).differences == []


async def test_the_tariff_is_that_of_the_credential_and_another_table_of_models_is_named() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        client.headers = {"x-api-key": "", "authorization": "Bearer sk-ant-oat01-" + 20 * "a"}
        await reads(client, stage, {"content": []}, 8)
        events = list(await stage.events())
    (taken,) = [event for event in events if isinstance(event, SettingsTaken)]
    assert (taken.tariff, taken.models) == ("subscription", in_force().digest)
    assert EpochBegan in map(type, events)
    assert not any("sk-ant-oat" in repr(event) for event in events)
    used = [window_use(event.limits, "5h").used for event in events if isinstance(event, TurnFinished)]
    assert used == sorted(used, key=lambda each: each or 0)
    assert used[0] == 10_000
    same = await reviewed(stage.log)
    assert (same.differences, same.other_tables) == ([], [])
    with other_tables({"prices": {"claude-opus-5-5": {"read": Decimal("0.4")}}}):
        assert (await reviewed(stage.log)).other_tables == [taken.models]


async def test_a_conversation_that_nobody_asked_to_manage_has_no_word_of_settings() -> None:
    log = StoppableLog()
    async with open_actor(log) as teller:
        await teller.begin("One")
    kinds = [type(each.envelope.event) for each in await log.read((await log.streams())[0])]
    assert kinds
    assert not {SettingsTaken, GroundsNoted} & set(kinds)


@pytest.mark.parametrize("models", [("claude-opus-5", "claude-sonnet-4-5"), ("claude-sonnet-4-5", "claude-opus-4-7")])
async def test_a_session_that_alternates_between_models_and_servers_is_decided_as_it_was(
    models: tuple[str, str],
) -> None:
    log, clock = StoppableLog(), Clock()
    async with open_standin({"rules": []}) as standin:
        client = Client("")
        for number in range(3):
            async with open_stage(log=log, standin=standin, clock=clock) as stage:
                client.url = stage.url
                for client.model in (models[number % 2], models[0]):
                    await client.work(f"Where is it, {number}?")
    found = await reviewed(log)
    assert found.differences == []
    assert found.skipped == []
    assert found.decisions > 10

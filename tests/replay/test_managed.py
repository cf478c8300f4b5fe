"""Decisions of managed sessions are replayed by today's code, and differences are reported.

The stories are played through a complete managing proxy. Late answers are recorded, so that a replay lacks the same
ones; a decision whose inputs the log does not hold is skipped with a note.
"""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from mnemosyne import credentials
from mnemosyne.actors import deferred_work
from mnemosyne.actors.epochs import Epochs
from mnemosyne.actors.tools import MemoryToolExecutor
from mnemosyne.actors.turn import Turn
from mnemosyne.cli.replay import _print_review as print_review
from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.cost.prices import find_last_usage
from mnemosyne.domain.history.replay import DecisionDifference
from mnemosyne.domain.ports import Append, Content
from mnemosyne.domain.session import ledger
from mnemosyne.domain.session.decide import NoteFilled
from mnemosyne.domain.session.events import Event, TurnBegan, TurnFinished
from mnemosyne.domain.session.input_events import Awaited, GroundsNoted, SettingsTaken
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, FallbackSent, RoundBegan, RoundFinished
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import policies
from mnemosyne.domain.window.ages import AGES, Age
from mnemosyne.domain.window.epochs import Rewritten
from mnemosyne.domain.window.planning import RULE, Rule, plan_epoch
from mnemosyne.domain.window.situation import PendingRequest
from mnemosyne.domain.wire.limits import window_use
from mnemosyne.replay.deciding import OLD, REMOVED, Review, review
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import PATIENT, StoppableLog, events_of, open_actor
from tests.golden.sessions import LOGS, opened
from tests.http.managing import Client, model_says, open_stage, recall, text, think
from tests.http.test_epochs import SMALL, Clock, client_of, open_work, reads
from tests.http.test_summarized_epochs import played, resume
from tests.http.test_switching import MODE, SlowToRead, disconnect_before_dispatch
from tests.plain.archive import MemoryArchive
from tests.plain.log import PlainLog
from tests.profiles import rarely
from tests.replay import stories
from tests.services.talking import Plain, plain
from tests.tables import other_tables


async def reviewed(log: StoppableLog, **options: Any) -> Review:
    """The replay of a log's only session."""
    (stream,) = await log.streams()
    return await review(MemoryArchive(log), str(stream), **options)


async def copy_with(log: PlainLog, change: Callable[[Event], Event]) -> Plain:
    """The session in another log, each event changed."""
    archive = plain()
    (stream,) = await log.streams()
    contents = tuple(Content(digest, data) for digest, data in log._contents[stream].items() if data is not None)
    envelopes = [each.envelope for each in await log.read(stream)]
    changed = tuple(attrs.evolve(envelope, event=change(envelope.event)) for envelope in envelopes)
    await archive.journal.append(Append(stream, 0, changed, contents))
    return archive


async def review_without(log: StoppableLog, **fields: Any) -> Review:
    """The replay review_without some of the recorded inputs."""

    def change(event: Event) -> Event:
        return attrs.evolve(event, **fields) if isinstance(event, GroundsNoted) else event

    return await review_only(await copy_with(log, change))


async def recorded_inputs(log: StoppableLog) -> list[GroundsNoted]:
    """The recorded decision inputs of a session."""
    (stream,) = await log.streams()
    events = [each.envelope.event for each in await log.read(stream)]
    return [event for event in events if isinstance(event, GroundsNoted)]


async def review_only(archive: Plain) -> Review:
    (stream,) = await archive.log.streams()
    return await review(archive, str(stream))


def turn_of(event: Any) -> str:
    return f"{event.branch} {event.turn}"


async def check(log: StoppableLog) -> None:
    """Check that a replay gives the same decisions."""
    found = await reviewed(log)
    assert (found.differences, found.skipped) == ([], [])
    (stream,) = await log.streams()
    kinds = [type(each.envelope.event) for each in await log.read(stream)]
    assert {SettingsTaken, EpochBegan, RoundBegan, RoundFinished} <= set(kinds)
    # Each turn, its objects, its end and its account; and each later round.
    assert found.decisions > 3 * kinds.count(TurnBegan)


@pytest.fixture(scope="module")
def story() -> StoppableLog:
    """A story with memory calls and an index."""
    return trio.run(partial(stories.play, 7, turns=15))


async def test_replay_of_a_managed_session_gives_the_same_decisions(story: StoppableLog) -> None:
    await check(story)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
async def test_replay_of_twenty_managed_sessions_gives_the_same_decisions(seed: int) -> None:
    await check(await stories.play(seed))


# Differences


Begun = tuple[Rewritten | None, NoteFilled | None]

Begins = Callable[[Epochs, PendingRequest, Session], Awaitable[Begun]]


def predict(monkeypatch: pytest.MonkeyPatch, otherwise: Callable[[Begins], Begins]) -> dict[str, bool]:
    """For each turn, whether ``otherwise`` would begin another epoch; filled in while the session is played."""
    begins, changed = Epochs.begin_epoch, dict[str, bool]()

    async def both(self: Epochs, asked: PendingRequest, session: Session) -> Begun:
        found, filled = await begins(self, asked, session)
        other, overfilled = await otherwise(begins)(self, asked, session)
        changed[turn_of(asked)] = (found and found.events, filled) != (other and other.events, overfilled)
        return found, filled

    monkeypatch.setattr(Epochs, "begin_epoch", both)
    return changed


def with_rule(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> Callable[[Begins], Begins]:
    """The planner with another rule, for one epoch."""

    def otherwise(begins: Begins) -> Begins:
        async def begin(self: Epochs, asked: PendingRequest, session: Session) -> Begun:
            with monkeypatch.context() as patch:
                patch.setattr(policies, "plan_epoch", partial(plan_epoch, rule=rule))
                return await begins(self, asked, session)

        return begin

    return otherwise


@pytest.mark.release
@pytest.mark.parametrize(
    "rule",
    [
        attrs.evolve(RULE, overflow=RULE.full),
        pytest.param(
            attrs.evolve(RULE, ages=attrs.evolve(AGES, answered=Age(8), whole=Age(80), part=Age(40))),
            marks=pytest.mark.soak,
        ),
    ],
    ids=["sooner", "older"],
)
async def test_replay_under_another_rule_names_exactly_the_changed_turns(
    monkeypatch: pytest.MonkeyPatch, rule: Rule
) -> None:
    with monkeypatch.context() as patch:
        changed = predict(patch, with_rule(monkeypatch, rule))
        log = await stories.play(3, turns=14)
    monkeypatch.setattr(policies, "plan_epoch", partial(plan_epoch, rule=rule))
    found = await reviewed(log)
    assert found.turns == [turn for turn, differs in changed.items() if differs]
    assert 0 < len(found.turns) < len(changed)
    assert found.skipped == []


@pytest.mark.release
async def test_replay_in_another_window_names_exactly_the_changed_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    wider = 2 * SMALL

    def otherwise(begins: Begins) -> Begins:
        return lambda self, asked, session: begins(
            self, attrs.evolve(asked, settings=attrs.evolve(asked.settings, window=wider)), session
        )

    with monkeypatch.context() as patch:
        changed = predict(patch, otherwise)
        async with open_stage(window=SMALL) as stage:
            await reads(client_of(stage), stage, {"content": []}, 14)
    found = await reviewed(stage.log, window=wider)
    assert found.turns == [turn for turn, differs in changed.items() if differs]
    assert 0 < len(found.turns) < len(changed)
    first = next(each for each in found.differences if each.event == EpochBegan.__name__)
    assert first.turn in found.turns
    assert (first.recorded, first.today) == ("decided: the window overflows", "not decided")
    assert (await reviewed(stage.log, window=SMALL)).turns == []


# Recorded inputs


@pytest.mark.release
async def test_a_late_summary_is_late_in_the_replay_too() -> None:
    clock = Clock()
    async with open_stage(clock=clock, patience=attrs.evolve(PATIENT, summaries=0.0)) as stage:
        client, message = await played(stage)
        await resume(stage, client, message, clock)
    await check(stage.log)
    (late,) = await recorded_inputs(stage.log)
    assert late.late == (Awaited.SUMMARIES,)
    assert (await review_without(stage.log, late=())).turns == [turn_of(late)]


async def test_without_the_index_results_turns_differ(story: StoppableLog) -> None:
    asked = {turn_of(each) for each in await recorded_inputs(story) if each.found}
    found = await review_only(await copy_with(story, _without_findings))
    assert set(found.turns) <= asked
    assert "RoundFinished" in {each.event for each in found.differences}


def _without_findings(event: Event) -> Event:
    if not isinstance(event, GroundsNoted):
        return event
    return attrs.evolve(event, found=tuple(attrs.evolve(each, passages=()) for each in event.found))


# Skipped decisions


@pytest.mark.parametrize("continued", [*rarely([True]), False])
async def test_a_request_without_a_plan_is_replayed_as_it_was_sent(
    continued: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last request plus the new messages, or else the client's own."""
    async with open_work(window=SMALL, breaks=["R10"]) as (stage, client):
        message = await reads(client, stage, {"content": []}, 3)
        with monkeypatch.context() as patch:
            for name in ("_ask",) if continued else ("_ask", "_continue_last"):
                patch.setattr(Turn, name, _no_answer)
            message = await reads(client, stage, message, 4 if continued else 1, first=3)
        await reads(client, stage, message, 2, first=7)
    assert bool(await stage.events_of(FallbackSent)) is not continued
    replayed = await reviewed(stage.log)
    assert (replayed.differences, replayed.skipped) == ([], [])
    if continued:
        late = [each for each in await recorded_inputs(stage.log) if each.late]
        assert [turn_of(each) for each in late] == ["main 4", "main 5", "main 6", "main 7"]
        assert {wait for each in late for wait in each.late} == {Awaited.ACTOR}
        changed = await review_without(stage.log, late=())
        assert set(changed.turns) <= {turn_of(each) for each in late}
        assert EpochBegan.__name__ in {each.event for each in changed.differences}


async def test_a_request_that_was_never_sent_decides_nothing() -> None:
    log = SlowToRead()
    async with open_stage({"reply": model_says(think("Hm."), text("Yes."))}, log=log) as stage:
        client = await disconnect_before_dispatch(stage, log)
        await client.send()
        await stage.events_until(TurnFinished)
    (gone,) = await recorded_inputs(log)
    assert (turn_of(gone), gone.late) == ("main 1", (Awaited.LEAVING,))
    found = await reviewed(log)
    assert (found.differences, found.skipped) == ([], [])
    assert (await review_without(log, late=())).turns == ["main 1"]


async def _no_answer(_: Turn) -> None:
    return None


async def test_late_answers_are_replaced_in_the_replay_too(monkeypatch: pytest.MonkeyPatch) -> None:
    late, answers = trio.Event(), MemoryToolExecutor.answer

    async def slowly(*given: Any, **named: Any) -> Any:
        await late.wait()
        return await answers(*given, **named)

    loop = {"replies": [model_says(recall()), model_says(think(), text("Yes."))]}
    with monkeypatch.context() as patch:
        patch.setattr(MemoryToolExecutor, "answer", slowly)
        async with open_stage(loop, patience=attrs.evolve(PATIENT, answers=0.1, database=0.1)) as stage:
            await Client(stage.url).turn(text("one"))
            late.set()
            await stage.events_until(TurnFinished)
    (each,) = await recorded_inputs(stage.log)
    assert each.late == (Awaited.ANSWERS,)
    found = await reviewed(stage.log)
    assert (found.differences, found.skipped) == ([], [])


async def test_a_requested_mode_is_a_decision_input() -> None:
    async with open_work(window=SMALL, breaks=["R10"]) as (stage, client):
        message = await reads(client, stage, {"content": []}, 3)
        client.headers = {MODE: "off"}
        await reads(client, stage, message, 2, first=3)
    found = await reviewed(stage.log)
    assert (found.differences, found.skipped) == ([], [])
    assert (await review_without(stage.log, wanted=None)).turns == ["main 4", "main 5"]


@pytest.mark.parametrize("name", ["managed", "hidden-rounds", "bypassed"])
async def test_decisions_without_recorded_settings_are_skipped_with_a_note(name: str) -> None:
    kept = opened(LOGS / name)
    (stream,) = await kept.log.streams()
    found = await review(kept, str(stream))
    assert found.differences == []
    assert all(OLD in each.why or REMOVED in each.why for each in found.skipped)
    began = [each for each in await kept.log.read(stream) if isinstance(each.envelope.event, TurnBegan)]
    assert len(found.skipped) > len(began)
    assert found.decisions > len(found.skipped)


NOTHING = {"input_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "cache_creation": {}}
SAME = {**NOTHING, "input_tokens": 8_000}
NO_OUTPUT = {**NOTHING, "output_tokens": 0}
FIRST = model_says(text("Let me see."), recall(), usage={**SAME, "output_tokens": 9})
CUT = [{"kind": "cut", "at": "content_block_stop"}]
LATER: dict[str, list[dict[str, Any]]] = {
    "impossible count": [model_says(recall("and?"), usage=NOTHING), model_says(text("There."))],
    "no count": [model_says(text("It is"), recall(), usage={**SAME, "output_tokens": 0}, faults=CUT)],
    "both": [model_says(recall("and?"), usage=NOTHING), model_says(text("It"), usage=NO_OUTPUT, faults=CUT)],
}


@pytest.mark.parametrize(("name", "summed"), [*((name, True) for name in LATER), ("both", False)])
async def test_old_accounts_that_judged_counts_per_turn_or_repeated_one_are_not_differences(
    name: str, summed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def account(command: ledger.AccountTurn, held: ledger.Ledger) -> TurnAccounted:
        return ledger.account(attrs.evolve(command, summed=summed, unstated=True), held)

    with monkeypatch.context() as before:
        before.setattr(deferred_work, "account", account)
        repeat = lambda window, before, **_: find_last_usage(window, before, repeats=True)  # noqa: E731
        before.setattr(deferred_work, "find_last_usage", repeat)
        async with open_stage({"replies": [FIRST, *LATER[name]]}) as stage:
            await Client(stage.url).turn(text("Where is it? " + "Words to fill the cache with. " * 300))
            await stage.events_until(TurnAccounted)
    found = await reviewed(stage.log)
    assert (found.differences, found.skipped, found.old_accounts) == ([], [], 1)


@pytest.mark.parametrize(("name", "count"), [("decided", 2), ("joined", 1)])
async def test_links_and_answers_by_an_older_rule_are_counted_but_not_as_differences(
    name: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plans and conversations had no links to decisions, and searches found and showed other passages."""
    found = await review_only(opened(LOGS / name))
    assert (found.differences, found.old_rules) == ([], count)
    print_review(found)
    assert f"by the rules before 2026-11-30: {count} decision" in capsys.readouterr().out


async def test_links_that_a_current_server_did_not_record_are_differences() -> None:
    """Its accounts say whether counts are far from the estimate."""

    def renew(event: Event) -> Event:
        return attrs.evolve(event, far=False) if isinstance(event, TurnAccounted) else event

    found = await review_only(await copy_with(opened(LOGS / "decided").log, renew))
    assert ([each.field for each in found.differences], found.old_rules) == (["links", "links"], 0)


# Recorded settings


@pytest.mark.parametrize(("name", "is_earlier"), [("requested", True), ("observed", False)])
async def test_replay_names_an_earlier_version_only_for_its_log(
    name: str, is_earlier: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its planner differed, so differences in its plans do not mean that the log is damaged."""
    found = await review_only(opened(LOGS / name))
    different = DecisionDifference(9, "main 1", "EpochBegan", None, "decided", "not decided")
    for differences in ((), (different,)):
        print_review(attrs.evolve(found, differences=differences))
        is_named = "An earlier version recorded this session" in capsys.readouterr().out
        assert is_named is (is_earlier and bool(differences))


async def test_settings_are_recorded_once_for_each_server_and_never_for_observed_sessions() -> None:
    async with open_work(window=SMALL) as (stage, client):
        message = await reads(client, stage, {"content": []}, 2)
        async with open_stage(window=2 * SMALL, strict=True, log=stage.log, standin=stage.standin) as again:
            client.url = again.url
            await reads(client, again, message, 2, first=2)
    taken = await stage.events_of(SettingsTaken)
    assert [(each.window, each.strict) for each in taken] == [(SMALL, False), (2 * SMALL, True)]
    assert (await reviewed(stage.log)).differences == []
    log = StoppableLog()
    async with open_actor(log) as teller:
        await teller.begin("One")
    assert not {SettingsTaken, GroundsNoted} & {type(event) for event in await events_of(log)}


@pytest.mark.release
async def test_the_tariff_is_the_credential_s_and_another_model_table_is_reported() -> None:
    async with open_work(window=SMALL) as (stage, client):
        client.headers = {"x-api-key": "", "authorization": "Bearer sk-ant-oat01-" + 20 * "a"}
        await reads(client, stage, {"content": []}, 8)
        events = list(await stage.events())
    (taken,) = [event for event in events if isinstance(event, SettingsTaken)]
    assert (taken.tariff, taken.models) == ("subscription", in_force().digest)
    assert EpochBegan in map(type, events)
    assert not any("sk-ant-oat" in repr(event) for event in events)
    limits = [event.limits for event in events if isinstance(event, TurnFinished)]
    assert {each["account"] for each in limits} == {credentials.digest("sk-ant-oat01-" + 20 * "a")[:16]}
    used = [window_use(each, "5h").used for each in limits]
    assert used == sorted(used, key=lambda each: each or 0)
    assert used[0] == 10_000
    same = await reviewed(stage.log)
    assert (same.differences, same.other_tables) == ([], [])
    with other_tables({"prices": {"claude-opus-5-5": {"read": Decimal("0.4")}}}):
        assert (await reviewed(stage.log)).other_tables == [taken.models]


async def test_replay_of_a_session_with_several_models_and_servers() -> None:
    log, clock = StoppableLog(), Clock()
    async with open_standin({"rules": []}) as standin:
        client = Client("")
        for number, models in enumerate((("claude-opus-5", "claude-sonnet-4-5"), ("claude-opus-4-7", "claude-opus-5"))):
            async with open_stage(log=log, standin=standin, clock=clock) as stage:
                client.url = stage.url
                for client.model in models:
                    await client.work(f"Where is it, {number}?")
    found = await reviewed(log)
    assert (found.differences, found.skipped) == ([], [])
    assert found.decisions > 10

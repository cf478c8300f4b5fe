"""The views of one recorded session agree with each other and with the log."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.adapters.postgres.bills import PostgresBills
from mnemosyne.app.read_models import OpenReadModels, open_read_models
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history.time_travel import TurnPlace
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.budget import DAY, SpendingBill, SpendingLimits
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import BadConfiguration
from mnemosyne.services import (
    asking,
    context_map,
    object_view,
    overviews,
    savings,
    session_view,
    timeline,
    turn_view,
    usage,
    windows,
)
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.exporting import write_session
from mnemosyne.services.observing import no_observations
from mnemosyne.services.read_models import Question
from mnemosyne.services.status_line import read_status_line
from mnemosyne_lab.evaluation.exports import conversations
from mnemosyne_lab.evaluation.policy import Settings
from mnemosyne_lab.evaluation.running import RunPlan, evaluate
from mnemosyne_lab.evaluation.what_if import what_if
from tests.fixtures import PostgresServer
from tests.http.inspector.shown import TITLE, fill, session, settings
from tests.not_none import not_none
from tests.profiles import rarely
from tests.services.answers import Answers
from tests.services.talking import plain

TURNS = 30

COUNTED, HEAD, STEP = 8, 1_200, 8_000
"""Number of counted prompts, tokens of the first one, and growth of each other."""


@attrs.frozen
class Held:
    dsn: str
    folder: Path
    stream: UUID


def counted(session: Mapping[str, Any], prompts: int = COUNTED) -> Mapping[str, Any]:
    """The session with a provider's counts of its first prompts: fewer tokens than an estimate would give."""
    for number, each in enumerate(session["turns"][:prompts]):
        read = HEAD + STEP * (number - 1) if number else 0
        used = {"input": 0, "cache_write": STEP if number else HEAD, "cache_read": read}
        each |= {"usage": used, "output": 50}
    return session


HELPER_COST = 7_000_000


async def ask_helper(dsn: str, folder: Path, stream: UUID) -> None:
    """Record an answer of a helper model with its cost."""
    async with open_read_models(settings(dsn, folder), print) as models, trio.open_nursery() as nursery:
        await nursery.start(models.archive.journal.run)
        helped = HelperAnswer(helper="h", nanodollars=HELPER_COST)
        await asking.record(models.archive, stream, "Where is it?", helped, 1_767_500_000_000_000, "c")
        await models.archive.journal.close(5)


@pytest.fixture(scope="module")
def held(postgres_server: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    folder = tmp_path_factory.mktemp("views")
    with postgres_server.fresh_database(template) as dsn, ThreadPoolExecutor() as threads:
        (stream,) = threads.submit(fill, dsn, folder, counted(session(turns=TURNS))).result()
        threads.submit(trio.run, ask_helper, dsn, folder, stream).result()
        yield Held(dsn, folder, stream)


@pytest.fixture
async def models(held: Held) -> AsyncIterator[OpenReadModels]:
    async with open_read_models(settings(held.dsn, held.folder), print) as opened:
        yield opened


async def list_now(models: OpenReadModels, held: Held) -> windows.Listing:
    return await windows.list_objects(models.archive, str(held.stream), "main")


@pytest.mark.release
async def test_an_object_has_the_same_size_in_every_view(models: OpenReadModels, held: Held) -> None:
    """On the map, in the list, in a turn and in its own view: its share of the growth of its turn's prompt."""
    listed = {each.object.id: each.object.tokens for each in (await list_now(models, held)).standings}
    _, _, snapshot = await windows.read_snapshot(models.archive, str(held.stream), "main", None)
    assert {each.object.id: snapshot.object(each.object.id).tokens for each in snapshot.standings()} == listed
    spans = (await context_map.read_map(models, held.stream, "main")).spans
    assert {each.object.id: each.object.tokens for each in spans}.items() <= listed.items()
    for number in (5, 31):
        view = await turn_view.read_turn_view(models.archive, models, held.stream, "main", TurnPlace(number, None, 1))
        blocks: Counter[str] = Counter()
        for each in view.blocks:
            if each.object is not None and not each.replaced:
                blocks[each.object.object.id] += each.block.tokens or 0
                assert each.object.tokens == listed[each.object.object.id]
        assert blocks
        assert blocks.items() <= listed.items()
        assert {each.object.id: each.object.tokens for each in view.absent}.items() <= listed.items()
        assert number > COUNTED or view.tokens == HEAD + STEP * (number - 1)
    one = next(each.object for each in spans if each.object.turn == 2)
    found = await object_view.read_object_view(models.archive, str(held.stream), one.id)
    (made,) = (each.event for each in found.history if isinstance(each.event, ObjectCreated))
    assert found.object.tokens == found.texts[0].tokens == made.tokens == one.tokens
    assert one.tokens != snapshot.memory.objects[one.id].tokens


async def test_the_map_at_each_turn_equals_memory_then_and_at_the_end_the_working_set(
    models: OpenReadModels, held: Held
) -> None:
    found = await context_map.read_map(models, held.stream, "main")
    for turn in (1, 5, 11, 20, 21, 30):
        _, _, then = await windows.read_snapshot(models.archive, str(held.stream), "main", turn)
        known = {each.object.id: each.fidelity for each in then.standings() if each.object.places}
        standing = {each.object.id: each.fidelity for each in found.standing_at(turn)}
        # Objects that are made only later were in the window already.
        assert standing == {**standing, **known}, turn
    live = {each.object.id: (each.fidelity, each.tokens) for each in (await list_now(models, held)).standings}
    last = {each.object.id: (each.fidelity, each.tokens) for each in found.standing_at(found.turns[-1].turn)}
    assert {fidelity for fidelity, _ in last.values()} > {Fidelity.FULL}
    assert last.items() <= live.items()
    for turn in (11, 21, 31):
        view = await turn_view.read_turn_view(models.archive, models, held.stream, "main", TurnPlace(turn, None, 1))
        at_less = {each.object.id: each.fidelity for each in found.standing_at(turn) if each.fidelity}
        assert {each.object.id: each.fidelity for each in view.absent} == at_less


async def test_each_object_has_one_fidelity_at_a_time_without_gaps(models: OpenReadModels, held: Held) -> None:
    found = await context_map.read_map(models, held.stream, "main")
    spans: dict[str, list[context_map.Span]] = {}
    for span in found.spans:
        spans.setdefault(span.object.id, []).append(span)
    for own in spans.values():
        assert [each.first for each in own[1:]] == [each.last + 1 for each in own[:-1]]
        assert own[0].first == own[0].object.turn
        assert own[-1].last == found.turns[-1].turn


async def test_the_costs_of_a_session_view_are_those_of_the_ledger(models: OpenReadModels, held: Held) -> None:
    view = await session_view.read_session_view(models, held.stream)
    whole = (await savings.read_savings(models)).total
    assert view.total == whole
    assert whole.helpers == HELPER_COST
    assert view.money.points[-1].actual == pytest.approx(whole.nanodollars / 1e9)
    assert view.money.points[-1].unmanaged == pytest.approx(whole.nanodollars_unmanaged / 1e9)
    assert [each.turn for each in view.turns] == list(range(1, TURNS + 2))
    assert [each.turn for each in view.turns if each.epoch] == [each.turn for each in view.rewrites]
    assert "are shortened or evicted" in view.verdict


async def test_a_raised_limit_is_seen_and_an_unreadable_one_stays(models: OpenReadModels, held: Held) -> None:
    limits = [SpendingLimits(session=1)]

    def load() -> SpendingLimits:
        if not limits:
            raise BadConfiguration("line 3 is no setting")
        return limits[0]

    budgets = Budgets(load, lambda: 0)
    (said,) = await budgets.describe(models, [held.stream, held.stream])
    assert re.fullmatch(r"session [0-9a-f]{8} has cost \$\S+ of \$0\S* \(session_budget_dollars\)", said)
    limits[0] = SpendingLimits(session=10**15)
    assert await budgets.list_used(models, held.stream) == []
    limits.clear()
    assert await budgets.list_used(models, held.stream) == []


async def test_cost_of_a_session_is_one_number_that_includes_helpers(models: OpenReadModels, held: Held) -> None:
    """In savings, usage, its timeline, list, status line, page and chart: all turns of this session were counted."""
    view = await session_view.read_session_view(models, held.stream)
    (overview,) = await overviews.list_overviews(models.archive, models, openings={})
    budgets = Budgets(lambda: SpendingLimits(session=1, day=HELPER_COST, hard=10**12), lambda: view.turns[0].began_at)
    line = await read_status_line(models.archive, models, held.stream, no_observations(), budgets)
    found = (await savings.read_savings(models)).sessions[held.stream]
    groups = [(await usage.read_usage(models, by, None)).total for by in get_args(usage.Grouping)]
    costs = {found.nanodollars, view.total.nanodollars, overview.cost, line.cost}
    costs |= {each.nanodollars for each in groups}
    costs |= {(await timeline.read_timeline(models, str(held.stream))).nanodollars}
    assert costs == {round(view.money.points[-1].actual * 1e9)}
    assert {found.helpers, view.total.helpers, *(each.helpers for each in groups)} == {HELPER_COST}
    assert [(each.setting, each.spent) for each in line.budgets] == [
        ("session_budget_dollars", groups[0].nanodollars),
        ("day_budget_dollars", groups[0].nanodollars),
    ]
    bills, day = PostgresBills(models.database, models.log), view.turns[0].began_at // DAY
    billed = groups[0].nanodollars
    assert await bills.bill_of(models.config.tenant, held.stream, day) == SpendingBill(session=billed, day=billed)
    assert await bills.bill_of("another's", held.stream, day + 9) == SpendingBill(session=billed)
    by_model = (await usage.read_usage(models, "model", None)).groups[usage.HELPER]
    assert (by_model.nanodollars, by_model.replies) == (HELPER_COST, 0)


@pytest.mark.release
async def test_price_of_a_turn_is_part_of_the_usage_of_its_session(models: OpenReadModels, held: Held) -> None:
    places = [TurnPlace(turn, None, 1) for turn in range(1, TURNS + 2)]
    views = [await turn_view.read_turn_view(models.archive, models, held.stream, "main", place) for place in places]
    whole = (await usage.read_usage(models, "session", None)).groups[held.stream]
    assert (
        sum(view.price.nanodollars or 0 for view in views if view.price is not None) + HELPER_COST == whole.nanodollars
    )
    assert views[1].account is not None
    assert views[1].account.actual.read == HEAD
    assert [view.pause is None for view in views] == [True] + [False] * TURNS


@pytest.mark.parametrize("mode", [Mode.MANAGE, *rarely([Mode.OBSERVE])])
async def test_cost_without_mnemosyne_is_one_number_in_every_command_and_page(
    mode: Mode, postgres_server: PostgresServer, template: str, tmp_path: Path
) -> None:
    tape = counted(session(turns=TURNS), prompts=TURNS + 1)
    with postgres_server.fresh_database(template) as dsn:
        fill_mode = partial(fill, mode=mode)
        (stream,) = await trio.to_thread.run_sync(fill_mode, dsn, tmp_path, tape)
        async with open_read_models(settings(dsn, tmp_path), print) as models:
            found = await savings.read_savings(models)
            view = await session_view.read_session_view(models, stream)
            with (tmp_path / "export").open("wb") as out:
                await write_session(models.archive, str(stream), out, event_codec())
    cost = found.total.nanodollars_unmanaged
    assert (cost > 0, found.total.managed > 0) == (True, mode is Mode.MANAGE)
    assert view.total.nanodollars_unmanaged == cost
    plan = RunPlan(policies=["unmanaged", "mnemosyne"], settings=Settings(), model=None)
    exported = partial(conversations, codec=event_codec())
    evaluated = evaluate([tmp_path / "export"], plan, exported=exported, say=print, progress=lambda *_: None, workers=1)
    for policy in evaluated.policies:
        assert sum(each.nanodollars_unmanaged for each in policy.sessions) == cost
    assert sum(each.nanodollars for each in evaluated.policies[0].sessions) == cost
    transcript = write_transcript(tmp_path / "the-session.jsonl", tape)
    names = found.names.values() if found.total.managed else ()
    told = what_if(
        [transcript], since="2026-01-01", tariffs=(), say=print, progress=lambda *_: None, managed=names, workers=1
    )
    if mode is Mode.OBSERVE:
        assert told.recorded == cost
        assert told.evaluation is not None
        assert told.evaluation.comparisons[0].nanodollars_against == cost
    else:
        assert told.replies == 0
        assert told.unknown[0].startswith("1 session left out, already managed: ")


def write_transcript(path: Path, tape: Mapping[str, Any]) -> Path:
    """Write what Claude Code would keep of a session."""
    lines: list[dict[str, Any]] = []
    turns = {turn["msg"]: turn for turn in tape["turns"]}
    for number, message in enumerate(tape["messages"]):
        line = {"type": message["role"], "uuid": str(number), "sessionId": tape["name"], "message": dict(message)}
        if number in turns:
            turn = turns[number]
            usage = {
                "input_tokens": turn["usage"]["input"],
                "cache_creation_input_tokens": turn["usage"]["cache_write"],
                "cache_read_input_tokens": turn["usage"]["cache_read"],
                "output_tokens": 0,  # as in the replies of the replay
            }
            line["message"] |= {"id": f"msg_{number}", "model": "claude-opus-4-5", "usage": usage}
        line["timestamp"] = turns[number + (message["role"] == "user")]["ts"]
        lines.append(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def test_every_block_of_a_turn_names_its_object(models: OpenReadModels, held: Held) -> None:
    for turn in (5, 15, 25, 31):
        view = await turn_view.read_turn_view(models.archive, models, held.stream, "main", TurnPlace(turn, None, 1))
        assert view.context.rebuilt.proven
        for each in view.blocks:
            if each.replaced:
                assert each.object is not None
                assert each.object.fidelity is not Fidelity.FULL
            elif each.block.kind == "tool_result" and each.object is not None:
                assert each.object.fidelity is Fidelity.FULL
        number = view.blocks[-1].number
        place = TurnPlace(turn, None, 1)
        data = await turn_view.read_block(
            models.archive, held.stream, "main", place, "block", number, turn_view.KnownTurns()
        )
        assert data in view.context.rebuilt.body


async def test_an_object_view_has_the_object_s_history_and_texts(models: OpenReadModels, held: Held) -> None:
    found = await context_map.read_map(models, held.stream, "main")
    left = next(each.object.id for each in found.spans if each.fidelity is Fidelity.EVICTED)
    view = await object_view.read_object_view(models.archive, str(held.stream), left)
    assert type(view.history[0].event).__name__ == "ObjectCreated"
    assert [each.version for each in view.history] == sorted(each.version for each in view.history)
    assert view.problem is None
    assert {each.fidelity for each in view.texts} >= {Fidelity.FULL, Fidelity.STUB}
    assert "def step_" in view.texts[0].text
    whole = not_none(await object_view.read_text(models.archive, str(held.stream), left, Fidelity.FULL))
    assert len(whole) == view.texts[0].size


async def test_overview_and_status_line_agree_with_the_session_view(models: OpenReadModels, held: Held) -> None:
    view = await session_view.read_session_view(models, held.stream)
    openings: overviews.Openings = {}
    (overview,) = await overviews.list_overviews(models.archive, models, openings=openings)
    assert (overview.title, overview.project) == (f"{TITLE}, please.", "/src/app")
    assert (overview.cost, overview.saved) == (view.total.nanodollars, view.total.nanodollars_saved)
    assert overview.turns == len(view.turns)
    openings[held.stream] = overviews.SessionOpening("as it was cached", None)
    for words, is_found in (("CACHED as", True), ("the-sess", True), ("zebra", False)):
        found = await overviews.list_overviews(models.archive, models, openings=openings, matching=words)
        assert [each.title for each in found] == ["as it was cached"] * is_found
    line = await read_status_line(
        models.archive, models, held.stream, no_observations(), Budgets(lambda: SpendingLimits(), lambda: 0)
    )
    assert (line.cost, line.saved) == (view.total.nanodollars, view.total.nanodollars_saved)
    assert (line.zone, line.rewritten) == (view.turns[-1].zone, view.rewrites[-1].turn)


async def test_only_the_rows_of_listed_sessions_are_read() -> None:
    shown = {
        **dict.fromkeys(("client", "client_version", "imported_at", "before", "behind", "settings", "state", "ending")),
        **dict.fromkeys(("titled_in", "closed_at", "archived")),
        **{"stream": UUID(int=2), "external_id": "s", "sessions": 9},
        **{"started_at": 1, "last_active_at": 2, "forgotten_at": 9},
    }
    models = Answers({("timeline", "listed"): [shown]})
    (found,) = await overviews.list_overviews(plain(), models, openings={}, limit=1)
    assert found.stream == UUID(int=2)
    listing, damaged, *rest = models.asked
    assert listing == Question("timeline", "listed", {"limit": 1, "only": None, "whole": False})
    assert damaged == Question("timeline", "damaged")
    assert {each.query for each in rest} == {
        *("listed_branches", "listed_modes", "saved", "helpers", "last_prompts", "latest_work")
    }
    assert all(each.about["streams"] == [UUID(int=2)] for each in rest)


async def test_a_session_view_shows_the_last_used_branch_after_the_windows_before_it(
    postgres_server: PostgresServer, template: str, tmp_path: Path
) -> None:
    compacted = session(turns=8)
    for number, turn in enumerate(compacted["turns"]):
        turn["usage"] = {"input": 10, "cache_read": 5_000 * number, "cache_write": 5_000}
    compacted["resets"] = [
        {
            "kind": "compact",
            "before_msg": 12,
            "summary": "This session is being continued from a previous conversation that ran out of context.",
        }
    ]
    with postgres_server.fresh_database(template) as dsn:
        (stream,) = await trio.to_thread.run_sync(fill, dsn, tmp_path, compacted)
        async with open_read_models(settings(dsn, tmp_path), print) as models:
            view = await session_view.read_session_view(models, stream)
            overview = await overviews.read_overview(models.archive, models, stream, openings={})
            main = await session_view.read_session_view(models, stream, "main")
    assert (view.branch, [each.branch for each in view.before]) == ("successor-1", ["main"])
    assert len(view.turns) < len(main.turns)
    assert view.before[0] == main.map
    assert overview.context == view.turns[-1].tokens == view.map.turns[-1].tokens
    assert view.total == main.total
    assert view.total.nanodollars == sum(each.nanodollars or 0 for each in (*main.turns, *view.turns))
    told = [(each.turn, each.read) for each in main.turns]
    assert told == [(each.turn, each.read) for each in main.map.turns]
    assert [read for _, read in told] == [5_000 * number for number in range(len(told))]


@pytest.mark.release
async def test_size_of_a_turn_without_a_count_is_that_of_the_request_that_was_sent(
    models: OpenReadModels, held: Held
) -> None:
    """At the tokens per byte of the last counted turn, and not of the client's ever longer history."""
    turns = (await context_map.read_map(models, held.stream, "main")).turns
    sizes = {}
    for each in turns[COUNTED - 1 :]:
        place = TurnPlace(each.turn, None, 1)
        view = await turn_view.read_turn_view(models.archive, models, held.stream, "main", place)
        sizes[each.turn] = len(view.context.rebuilt.body)
    last = turns[COUNTED - 1]
    uncounted = {each.turn: each.tokens for each in turns if each.counted is None}
    assert uncounted == {turn: round(last.tokens * sizes[turn] / sizes[last.turn]) for turn in uncounted}
    assert uncounted[TURNS] < uncounted[TURNS - 1] / 2  # compacted

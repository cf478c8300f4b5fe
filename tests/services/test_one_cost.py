"""The cost of a session without Mnemosyne is one number, wherever it is shown."""

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.app.read_models import OpenReadModels, open_read_models
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.events import BranchKind, SessionStarted, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import ContentMissing
from mnemosyne.services import overviews, savings, session_view
from mnemosyne.services.billed_replies import terms_of_end
from mnemosyne.services.exporting import write_session
from mnemosyne.services.read_models import Question
from mnemosyne.services.usage import consumption_of
from mnemosyne_lab.evaluation.exports import conversations
from mnemosyne_lab.evaluation.transcripts import TranscriptReply
from tests.fixtures import PostgresServer
from tests.golden.sessions import FOLDERS, append_all, appends
from tests.http.inspector.shown import settings

MODELS = ("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5.6-terra", "nobody's")
TERMS: Sequence[dict[str, Any]] = (
    {},
    {"service_tier": "batch"},
    {"inference_geo": "us", "server_tool_use": {"web_search_requests": 3}},
    {"speed": "fast"},
)
MOST = 300_000


def golden_sessions() -> Iterator[list[Append]]:
    """The golden sessions whose turns were accounted and whose bodies are kept."""
    for folder in FOLDERS:
        if (folder / "contents.jsonl").exists():
            by_stream: dict[UUID, list[Append]] = {}
            for each in appends(folder):
                by_stream.setdefault(each.stream, []).append(each)
            for made in by_stream.values():
                if any(isinstance(each.envelopes[0].event, TurnAccounted) for each in made):
                    yield [_of_tenant(each) for each in made]


def _of_tenant(append: Append) -> Append:
    event = append.envelopes[0].event
    return _with_event(append, attrs.evolve(event, tenant="local")) if isinstance(event, SessionStarted) else append


def _with_event(append: Append, event: object) -> Append:
    return attrs.evolve(append, envelopes=(attrs.evolve(append.envelopes[0], event=event),))


def vary(made: Sequence[Append], draw: random.Random) -> list[Append]:
    """The session with other counts, models, modes and terms in each turn, and the same usage in its end. Half of the
    replies name another model than their requests.
    """
    counts: dict[tuple[str, int, int], Tokens] = {}
    asked: dict[tuple[str, int, int], str] = {}
    events: list[Any] = [each.envelopes[0].event for each in made]
    for number, event in enumerate(events):
        if isinstance(event, TurnAccounted):
            place = event.branch, event.turn, event.attempt
            actual, shadow, expected = (
                Tokens(*(draw.choice((0, draw.randrange(MOST))) for _ in range(5))) for _ in range(3)
            )
            asked[place] = draw.choice(MODELS)
            events[number] = attrs.evolve(
                event,
                mode=draw.choice((event.mode, Mode.MANAGE)),
                model=asked[place],
                actual=actual,
                shadow=shadow,
                expected=expected,
                counted=actual.prompt,
                assumed=draw.random() < 0.1,
            )
            counts[place] = actual
    for number, event in enumerate(events):
        place = getattr(event, "branch", ""), getattr(event, "turn", 0), getattr(event, "attempt", 0)
        if isinstance(event, TurnBegan) and place in asked:
            events[number] = attrs.evolve(event, model=asked[place])
        if isinstance(event, TurnFinished | TurnInterrupted):
            used = counts.get(place, Tokens())
            usage = {**usage_of(used), **draw.choice(TERMS)} if used.prompt else {}
            events[number] = attrs.evolve(event, usage=usage)
            if isinstance(event, TurnFinished) and place in asked:
                replied = draw.choice((asked[place], *MODELS, None))
                events[number] = attrs.evolve(events[number], model=replied)
    return [_with_event(each, event) for each, event in zip(made, events, strict=True)]


def usage_of(used: Tokens) -> dict[str, Any]:
    split = {"ephemeral_5m_input_tokens": used.write_5m, "ephemeral_1h_input_tokens": used.write_1h}
    return {
        "input_tokens": used.input,
        "output_tokens": used.output,
        "cache_read_input_tokens": used.read,
        "cache_creation_input_tokens": used.write_5m + used.write_1h,
        "cache_creation": split,
    }


@pytest.mark.release
@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_every_view_of_any_session_has_the_same_cost_without_mnemosyne(
    seed: int, postgres_server: PostgresServer, template: str, tmp_path: Path
) -> None:
    """Of the golden sessions as they are (seed 0) and with made-up turns."""
    draw, codec = random.Random(seed), event_codec()
    streams = {}
    for number, made in enumerate(golden_sessions()):
        stream = UUID(int=number + 1)
        varied = vary(made, draw) if seed else made
        streams[stream] = [attrs.evolve(each, stream=stream) for each in varied]
    with postgres_server.fresh_database(template) as dsn:
        async with open_read_models(settings(dsn, tmp_path), print) as models:
            async with trio.open_nursery() as nursery:
                await nursery.start(models.archive.journal.run)
                await append_all(models.archive.journal, [each for made in streams.values() for each in made])
                await models.archive.journal.close(5)
            found = await savings.read_savings(models)
            evaluated = 0
            for stream, made in streams.items():
                cost = found.sessions[stream].nanodollars_unmanaged
                view = await session_view.read_session_view(models, stream)
                overview = await overviews.read_overview(models.archive, models, stream, openings={})
                assert view.total.nanodollars_unmanaged == (overview.cost or 0) + (overview.saved or 0) == cost, stream
                with (tmp_path / "export").open("wb") as out, suppress(ContentMissing):  # one was kept with gaps
                    await write_session(models.archive, str(stream), out, codec)
                    exported = [each["nanodollars"] or 0 for each in conversations(tmp_path / "export", codec)]
                    (used,) = await models.answers(Question("usage", "used_by_turn", {"stream": stream}))
                    sides = {each.name for each in view.branches if not BranchKind(each.kind).is_agent_context}
                    beside = sum(consumption_of(row).nanodollars for row in used if row["branch"] in sides)
                    assert sum(exported) + beside == cost, stream
                    evaluated += 1
                await assert_observed_turns_cost_what_was_billed(models, stream, made)
            assert evaluated > len(streams) / 2


async def assert_observed_turns_cost_what_was_billed(
    models: OpenReadModels, stream: UUID, made: Sequence[Append]
) -> None:
    """In savings, in usage, and in a transcript."""
    saved, used = await models.answers(
        Question("savings", "saved_by_turn", {"stream": stream}), Question("usage", "used_by_turn", {"stream": stream})
    )
    billed: dict[tuple[str, int, int], int] = {}
    for row in used:
        place = row["branch"], row["turn"], row["attempt"]
        billed[place] = billed.get(place, 0) + consumption_of(row).nanodollars
    ends = {
        (event.branch, event.turn, event.attempt): terms_of_end(event)
        for each in made
        if isinstance(event := each.envelopes[0].event, TurnFinished | TurnInterrupted)
    }
    for row in saved:
        place = row["branch"], row["turn"], row["attempt"]
        assert savings.balance_of(row).nanodollars == billed.get(place, 0), place
        if row["mode"] == Mode.OBSERVE.value and row["counted"] and not row["assumed"]:
            told = Tokens(*(row[f"actual_{kind}"] for kind in ("input", "output", "read", "write_5m", "write_1h")))
            reply = TranscriptReply("r", row["model"], "", told, ends[place])
            cost = savings.balance_of(row).nanodollars_unmanaged
            assert (reply.nanodollars or 0) == billed[place] == cost, place

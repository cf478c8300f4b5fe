"""What sessions owe is done, off the request path; whatever fails, nothing is lost and no turn waits."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from mnemosyne.actors import curator
from mnemosyne.actors.curator import BATCH
from mnemosyne.actors.messages import Identity
from mnemosyne.actors.patience import USUAL
from mnemosyne.domain.objects.aggregate import WORTH_SUMMARIZING
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import SessionForgotten
from mnemosyne.domain.session.redaction import redact
from mnemosyne.domain.summaries import extractive
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import ContentMissing
from tests.actors.curating import long_text, open_curated, summaries
from tests.actors.support import OK, STREAM, StoppableLog, events_of, headers, open_process, reply
from tests.domain import recorded

TURNS = [long_text("alpha"), "ok", long_text("beta"), "ok", long_text("gamma")]


async def test_whatever_is_due_is_done_l1_before_l2_each_smaller_than_what_it_was_made_from() -> None:
    log = StoppableLog()
    async with open_curated(log) as curated:
        for count in (1, 3, 5):
            await curated.process.turn(*TURNS[:count])
        await curated.until_owed(0)
    made = await summaries(log)
    sizes = {event.object: event.size for event in await events_of(log) if isinstance(event, ObjectCreated)}
    assert sum(size >= WORTH_SUMMARIZING for size in sizes.values()) == 3
    assert len({(each.object, each.fidelity) for each in made}) == len(made) == 6
    texts = await log.fetch(STREAM, [each.text for each in made])
    for each in made:
        assert each.helper == extractive.NAME
        assert each.nanodollars == 0
        assert len(texts[each.text].decode()) == each.size <= sizes[each.object] * 0.3
        assert each.tokens > 0
        assert each.losses.lost
    by_object = {each.object: [other.fidelity for other in made if other.object == each.object] for each in made}
    assert set(map(tuple, by_object.values())) == {(Fidelity.DETAILED, Fidelity.COMPACT)}


async def test_many_objects_are_done_in_batches() -> None:
    log = StoppableLog()
    history = [text for number in range(BATCH + 2) for text in (long_text(f"part {number}", 2_000), "ok")]
    async with open_curated(log) as curated:
        await curated.process.turn(*history, "go on")
        await curated.until_owed(0)
    assert len(await summaries(log)) == 2 * (BATCH + 2)


async def test_a_crash_loses_nothing_the_same_work_is_due_again() -> None:
    log = StoppableLog()
    async with open_process(log) as process:  # nobody curates
        await process.turn(*TURNS[:3])
    async with open_curated(log) as curated:
        before = await curated.owed()
    async with open_curated(log) as curated:
        assert await curated.owed() == before != []
        await curated.process.turn(*TURNS)
        await curated.until_owed(0)
    assert len(await summaries(log)) == 6


async def test_two_processes_record_each_summary_once() -> None:
    log = StoppableLog()
    async with open_curated(log) as one, open_curated(log) as other:
        for count in (1, 3, 5):
            await one.process.turn(*TURNS[:count])
            await other.process.turn(*TURNS[:count], "ok", f"and {count}")
        await one.until_owed(0)
        await other.until_owed(0)
    made = await summaries(log)
    assert len({(each.object, each.fidelity) for each in made}) == len(made) > 0


async def test_while_the_database_is_away_work_waits_and_then_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curator, "FIRST_PAUSE", 0.001)
    log = StoppableLog()
    async with open_curated(log, patience=USUAL) as curated:
        await curated.process.turn(TURNS[0])
        log.away = True
        await curated.process.turn(*TURNS[:3])
        log.away = False
        await curated.until_owed(0)
    assert len(await summaries(log)) == 4


class LosesContent(StoppableLog):
    """A log in which the contents that ``lost`` names cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[bytes] = set()
        self.asked = 0

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        if self.lost.intersection(digests):
            self.asked += 1
            raise ContentMissing("damaged")
        return await super().fetch(stream, digests)


async def test_an_object_that_cannot_be_done_is_left_alone_and_the_others_are_done() -> None:
    log = LosesContent()
    async with open_process(log) as process:
        await process.turn(TURNS[0])
    [created] = [event for event in await events_of(log) if isinstance(event, ObjectCreated)]
    log.lost = set(recipe.decode(created.content).digests)
    async with open_curated(log) as curated:
        await curated.process.turn(*TURNS[:3])
        await curated.until_owed(1)
        asked = log.asked
        await curated.process.turn(*TURNS)
        await curated.until_owed(1)
        assert [each.object for each in await curated.owed()] == [created.object]
    assert log.asked == asked
    assert len(await summaries(log)) == 4


async def test_what_could_not_be_done_is_remembered_of_the_sessions_that_were_worked_on_last() -> None:
    log = LosesContent()
    async with open_process(log) as process:
        await process.turn(TURNS[0])
    [created] = [event for event in await events_of(log) if isinstance(event, ObjectCreated)]
    log.lost = set(recipe.decode(created.content).digests)
    async with open_curated(log) as curated:
        await curated.process.turn(*TURNS[:3])
        await curated.until_owed(1)
        asked, (owed,) = log.asked, await curated.owed()
        for number in range(3 * curator.SESSIONS_REMEMBERED):
            asleep = Identity(stream=UUID(int=number), tenant="t", external_id=str(number))
            curated.curator._give_up(asleep, owed)
        assert len(curated.curator._given_up.values()) <= curator.SESSIONS_REMEMBERED
        await curated.process.turn(*TURNS)
        await curated.until_owed(1)
    assert log.asked <= asked + 1, "the longest forgotten is tried once more, and left alone again"


async def test_what_was_forgotten_is_owed_no_more() -> None:
    log = StoppableLog()
    async with open_process(log) as process:
        await process.turn(*TURNS[:3])
    version = len(await events_of(log))
    await log.append(Append(STREAM, version, (Envelope(SessionForgotten(at=1), "c"),)))
    await log.forget(STREAM, redact)
    async with open_curated(log) as curated:
        assert await curated.owed() == []


async def test_a_recorded_session_s_blocks_are_in_one_object_each_and_each_summary_is_made_once() -> None:
    session = next(each for each in recorded.sessions() if len(each["messages"]) > 60)
    log = StoppableLog()
    async with open_curated(log) as curated:
        for raw in recorded.requests(session, 40):
            turn = curated.process.opener.open_turn(headers(), raw, MESSAGES)
            turn.note_sent()
            await turn.note_begun()
            await turn.note_finished(OK, reply("ok"))
        await curated.until_owed(0)
    events = await events_of(log)
    created = [event for event in events if isinstance(event, ObjectCreated)]
    blocks = [(event.branch, place) for event in created for place in event.places]
    made = await summaries(log)
    assert len(blocks) == len(set(blocks)) > 40
    assert len(made) == len({(each.object, each.fidelity) for each in made}) > 4

"""A person's pin is recorded once, with its duration."""

import attrs
import pytest

from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.errors import BadEntry, NotFound
from mnemosyne.services import memories
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.object_view import read_object_view
from mnemosyne.services.pins import Pinning, pin, unpin
from mnemosyne.services.session_edits import undo
from tests.domain.remembered import created
from tests.domain.session_events import assessed, began, finished, opened_branch
from tests.services.talking import plain, rich_session, talking
from tests.services.test_memories import an_object

STAMP = WriteStamp(1, "c")


async def test_a_pin_s_duration_counts_from_the_last_turn_of_its_branch() -> None:
    async with talking() as talk:
        await rich_session(talk)
    wanted = await an_object(talk)
    done = await pin(talk.archive, f"#{wanted.upper()}", reason="r", turns=3, stamp=STAMP)
    assert done == Pinning(stream=talk.stream, object=wanted, recorded=True)
    found = await memories.find(talk.archive, wanted, None)
    assert found.object.pin is not None
    assert found.object.pin.until_turn == found.session.branches[found.object.branch].turns + 3


async def test_a_repeated_pin_and_a_pin_of_a_missing_object_record_nothing() -> None:
    async with talking() as talk:
        await rich_session(talk)
    wanted = await an_object(talk)
    recorded = [
        (await change(talk.archive, wanted, reason="r", stamp=STAMP)).recorded
        for change in (unpin, pin, pin, unpin, unpin)
    ]
    assert recorded == [False, True, False, True, False]
    before = await talk.archive.log.sizes(talk.stream)
    with pytest.raises(NotFound):
        await pin(talk.archive, "nosuch", reason="r", stamp=STAMP)
    assert await talk.archive.log.sizes(talk.stream) == before


@pytest.mark.parametrize(("counted", "has_room"), [(8_000, False), (4_000, True)])
async def test_limit_on_pins_uses_sizes_scaled_to_the_provider_s_counts(counted: int, has_room: bool) -> None:
    archive, stream, wanted = plain(), stream_of("local", "s"), "abc2345"
    started = SessionStarted(at=1, tenant="local", external_id="s", client="c", client_version=None, salt=b"s")
    made = created(wanted, 0, tokens=4_000)
    sized = attrs.evolve(assessed(1, 8_000), usable=5_000)
    end = finished(1, "m", {"input_tokens": counted})
    events = [Envelope(each, "c") for each in (started, opened_branch(), began(1, "m"), made, sized, end)]
    await archive.journal.append(Append(stream, 0, tuple(events)))
    if has_room:
        for change in (pin, unpin):
            await change(archive, wanted, reason="r", stamp=WriteStamp(1, change.__name__))
        assert (await undo(archive, "s", WriteStamp(1, "u")))[1] == f"unpin #{wanted}"
    else:
        with pytest.raises(BadEntry, match="about 4,000 tokens"):
            await pin(archive, wanted, reason="r", stamp=STAMP)


async def test_the_view_of_an_object_names_the_branches_of_its_pins_and_a_wider_pin_replaces_them() -> None:
    async with talking() as talk:
        await rich_session(talk)
    wanted = await an_object(talk)
    for branch, turns, pinned in (("fork-1", 1, ["fork-1"]), (None, None, [""]), ("main", 1, ["", "main"])):
        await pin(talk.archive, wanted, branch=branch, reason="r", turns=turns, stamp=STAMP)
        assert list((await read_object_view(talk.archive, str(talk.stream), wanted)).pins) == pinned
    again = await pin(talk.archive, wanted, reason="r", stamp=STAMP)
    assert again.recorded  # else it would end in main with the pin of that branch
    assert list((await read_object_view(talk.archive, str(talk.stream), wanted)).pins) == [""]
    with pytest.raises(NotFound, match="agent-1 has no object"):
        await pin(talk.archive, wanted, branch="agent-1", reason="r", stamp=STAMP)
